#!/usr/bin/env python3
"""Makes text/generate of tests/golden/text.tar.xz with transformers: folders of small random models, and what `generate` goes on with.
Usage: make_generate.py FOLDER (needs: pip install torch transformers safetensors)

FOLDER/generate/NAME/config.json, model.safetensors  a model; its weights are multiples of 1/256
FOLDER/generate/NAME/expected.json  "model": GPT2LMHeadModel, LlamaForCausalLM or one that writes about the prompt;
                                    "runs": options, "prompt", "added", and "begin" where the text begins anew
FOLDER/folders/NAME/...             the same with a tokenizer of make_tokenizers.py, which has run before; expected.json: command lines
                                    behind "ckpt zoo run NAME", what it prints
FOLDER/generate/processors.json     rows of scores, options, what the processors of `generate` make of them
"""

import json
import pathlib
import shutil
import sys

import tokenizers
import torch
import transformers
from transformers.generation import logits_process as processors


def models():
    yield "gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=61, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0))
    yield "llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=53, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2))
    yield "t5", transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=57, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
        relative_attention_max_distance=12, decoder_start_token_id=3))


RUNS = [
    {}, {"max_new_tokens": 1}, {"max_new_tokens": 40}, {"repetition_penalty": 1.3}, {"repetition_penalty": 0.7},
    {"num_beams": 2}, {"num_beams": 4}, {"num_beams": 5, "length_penalty": 2.0}, {"num_beams": 3, "length_penalty": 0.0},
    {"num_beams": 4, "repetition_penalty": 1.5}, {"num_beams": 3, "eos": [3, 7, 11, 19, 23]}, {"eos": [5, 6, 8, 9, 12, 30]},
    {"num_beams": 6, "eos": [4, 9, 16, 25, 36, 49, 1, 13]}, {"num_beams": 2, "max_new_tokens": 1},
    {"do_sample": True}, {"do_sample": True, "temperature": 0.7, "top_k": 10}, {"do_sample": True, "top_p": 0.8},
    {"do_sample": True, "temperature": 1.4, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.2},
]


def run(model, prompt, options, seed):
    options = dict(options)
    length = options.pop("max_new_tokens", 16)
    eos = options.pop("eos", None) or None
    torch.manual_seed(seed)
    sample = {"top_k": 0, "top_p": 1.0, "temperature": 1.0} if options.get("do_sample") else {}
    config = transformers.GenerationConfig(max_new_tokens=length, eos_token_id=eos, pad_token_id=0, bos_token_id=None, **{**sample, **options})
    model.generation_config = config
    tokens = torch.tensor([prompt])
    begin = [model.config.decoder_start_token_id] if model.config.is_encoder_decoder else []
    if begin:
        config.decoder_start_token_id = begin[0]
    out = model.generate(tokens, attention_mask=torch.ones_like(tokens))
    return {"options": {**options, "max_new_tokens": length, "eos": eos or []}, "seed": seed, "prompt": prompt,
            "added": out[0, len(begin or prompt):].tolist(), **({"begin": begin} if begin else {})}


def processed(scores, rows, options):
    tokens = torch.tensor(rows)
    if options.get("repetition_penalty", 1) != 1:
        scores = processors.RepetitionPenaltyLogitsProcessor(options["repetition_penalty"])(tokens, scores)
    if options.get("temperature", 1) != 1:
        scores = processors.TemperatureLogitsWarper(options["temperature"])(tokens, scores)
    if options.get("top_k"):
        scores = processors.TopKLogitsWarper(options["top_k"])(tokens, scores)
    if options.get("top_p", 1) < 1:
        scores = processors.TopPLogitsWarper(options["top_p"])(tokens, scores)
    return scores


def folders():
    yield "gpt2", "gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=800, n_positions=96, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0)), {}
    yield "llama", "llama2", transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=900, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=96, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)), {"max_shard_size": "60KB"}
    yield "qwen2", "qwen2", transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        vocab_size=800, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=96, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0)), {}
    common = {"vocab_size": 905, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
              "max_position_embeddings": 96, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
    yield "neox", "neox", transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**common)), {}
    yield "mistral", "mistral", transformers.MistralForCausalLM(transformers.MistralConfig(
        **common, num_key_value_heads=2, sliding_window=8)), {}
    yield "qwen3", "llama3", transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**common, num_key_value_heads=2, head_dim=8)), {}
    yield "t5", "t5", transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=900, d_model=24, d_kv=6, d_ff=32, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu", decoder_start_token_id=0,
        eos_token_id=1)), {}
    yield "gemma2", "gemma", transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **{**common, "pad_token_id": 0}, num_key_value_heads=2, head_dim=8, sliding_window=8, query_pre_attn_scalar=8,
        attn_logit_softcapping=2.0)), {}
    yield "phi3", "mistral", transformers.Phi3ForCausalLM(transformers.Phi3Config(**common, num_key_value_heads=2)), {}


COMMANDS = [
    ([], {}), (["--generate", "5"], {"max_new_tokens": 5}), (["--beams", "3"], {"num_beams": 3}),
    (["--repetition-penalty", "1.4", "--generate", "30"], {"repetition_penalty": 1.4, "max_new_tokens": 30}),
    (["--temperature", "0.8", "--top-k", "30", "--top-p", "0.9", "--seed", "5"],
     {"do_sample": True, "temperature": 0.8, "top_k": 30, "top_p": 0.9}),
]
PROMPTS = ["All human beings are", "  Les ê", "def main(x):\n\t", "日本 Я"]


def write_folder(root, name, tokenizer, model, save):
    here = root / "folders" / name
    random_weights(model, 11)
    model.save_pretrained(here, **save)
    (here / "generation_config.json").write_text(json.dumps({"eos_token_id": model.config.eos_token_id, "max_new_tokens": 12}))
    shutil.copy(root / "tokenizers" / tokenizer / "tokenizer.json", here / "tokenizer.json")
    t = tokenizers.Tokenizer.from_file(str(here / "tokenizer.json"))
    rows = []
    for arguments, options in COMMANDS:
        for prompt in PROMPTS:
            ids = t.encode(prompt).ids
            done = run(model, ids, {"max_new_tokens": 12, "eos": [model.config.eos_token_id], **options}, 5)
            if "begin" in done:
                printed = t.decode(done["begin"] + done["added"])[len(t.decode(done["begin"])):]
            else:
                printed = prompt + t.decode(ids + done["added"])[len(t.decode(ids)):]
            rows.append({"arguments": ["--prompt", prompt, *arguments], "printed": printed + "\n"})
    (here / "expected.json").write_text(json.dumps(rows, ensure_ascii=False))


def random_weights(model, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.5 if parameter.dim() > 1 else 0.1
            parameter.copy_((torch.randn_like(parameter) * scale * 64).round() / 256 + (parameter.dim() == 1))
    model.eval()


def main():
    root = pathlib.Path(sys.argv[1]) / "generate"
    root.mkdir(parents=True)
    for number, (name, model) in enumerate(models()):
        random_weights(model, 7 + number)
        model.save_pretrained(root / name)
        (root / name / "generation_config.json").unlink(missing_ok=True)
        runs = [run(model, prompt, options, seed) for options in RUNS
                for seed, prompt in enumerate([[3], [5, 9, 2, 41, 17], [int(i * i % 50) for i in range(20)]])]
        (root / name / "expected.json").write_text(json.dumps({"model": type(model).__name__, "runs": runs}))
    torch.manual_seed(3)
    rows = []
    for options in [{"repetition_penalty": 1.7}, {"temperature": 0.3}, {"top_k": 5}, {"top_k": 100}, {"top_p": 0.5}, {"top_p": 0.95},
                    {"top_p": 0.01}, {"top_k": 12, "top_p": 0.6, "temperature": 1.5, "repetition_penalty": 1.1}]:
        for spread in [1.0, 6.0]:
            scores = torch.randn(2, 40) * spread
            seen = torch.randint(0, 40, (2, 7)).tolist()
            out = processed(scores.clone(), seen, options)
            rows.append({"options": options, "seen": seen, "scores": scores.tolist(),
                         "processed": [[None if v == float("-inf") else v for v in row] for row in out.tolist()]})
    (root / "processors.json").write_text(json.dumps(rows))
    for name, tokenizer, model, save in folders():
        write_folder(root.parent, name, tokenizer, model, save)


main()

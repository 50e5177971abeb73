#!/usr/bin/env python3
"""Makes tests/golden/gguf_models.tar.xz: tiny random models as Hugging Face folders, and what llama.cpp's own converter
makes of them. Usage: make_gguf_models.py LLAMA_CPP FOLDER (LLAMA_CPP: a source tree of llama.cpp with
convert_hf_to_gguf.py; needs: pip install torch transformers tokenizers sentencepiece safetensors pyyaml)

FOLDER/gguf_models/CASE/...              the folder: config.json, model.safetensors, the tokenizer's files
FOLDER/gguf_models/CASE.TYPE.gguf        the converter's file with --outtype TYPE

The converter names the pre-tokenizer by a hash of what the tokenizer makes of one text, which only published
vocabularies have: here each case says the name.
"""

import json
import pathlib
import random
import sys

import sentencepiece
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import AddedToken

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
VOCAB = 352
TEXT = pathlib.Path(__file__).read_text()


def byte_level(pattern, specials, first=None, normalizer=None, template=None, front=()):
    """A byte-level BPE tokenizer of 256 bytes, eight merges and specials; `front` are tokens before all others."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("a", "n"), ("an", "d"), ("Ġ", "and"), ("e", "r")]
    vocab = {letter: i for i, letter in enumerate([*front, *letters])}
    for a, b in merges:
        vocab[a + b] = len(vocab)
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=bool(first)))
    if normalizer:
        tok.normalizer = normalizer
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    tok.pre_tokenizer = plain if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), plain])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in specials])
    tok.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    level = processors.ByteLevel(trim_offsets=False)
    tok.post_processor = level if template is None else processors.Sequence([level, processors.TemplateProcessing(
        single=f"{template} $A", pair=f"{template} $A {template}:1 $B:1",
        special_tokens=[(template, tok.token_to_id(template))])])
    return tok


def save_fast(folder, tok, **names):
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tok, **names)
    fast.save_pretrained(folder)


def sentence_pieces(folder, config, size=VOCAB, extra=()):
    (folder / "text").write_text(TEXT)
    sentencepiece.SentencePieceTrainer.Train(
        input=str(folder / "text"), model_prefix=str(folder / "tokenizer"), vocab_size=size, model_type="bpe",
        byte_fallback=True, minloglevel=2, normalization_rule_name="identity", hard_vocab_limit=False, character_coverage=0.99)
    (folder / "text").unlink()
    (folder / "tokenizer.vocab").unlink()
    added = {str(i): {"content": text, "special": True, "lstrip": False, "rstrip": False, "normalized": False,
                      "single_word": False} for i, text in enumerate(["<unk>", "<s>", "</s>"])}
    for i, text in enumerate(extra):
        added[str(size + i)] = {"content": text, "special": i == 0, "lstrip": False, "rstrip": False,
                                "normalized": False, "single_word": False}
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "added_tokens_decoder": added, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
        "add_bos_token": True, "add_eos_token": False, "tokenizer_class": "LlamaTokenizer", **config}, indent=1))


def byte_fallback(folder):
    """tokenizer.json of the Llama 2 kind, without tokenizer.model."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{i:02X}>": 3 + i for i in range(256)}}
    for text in ["▁", "t", "h", "e", "th", "the", "▁the", "a", "n"]:
        vocab[text] = len(vocab)
    tok = Tokenizer(models.BPE(vocab=vocab, merges=[("t", "h"), ("th", "e"), ("▁", "the")], unk_token="<unk>",
                               fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in ["<unk>", "<s>", "</s>"]])
    tok.add_tokens([AddedToken("<extra>", special=False, normalized=False)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                       special_tokens=[("<s>", 1)])
    save_fast(folder, tok, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    return tok.get_vocab_size()


def word_pieces(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "and", "##ing", "##s", "a", "##a"]
    words += [chr(c) for c in range(98, 123)] + ["##" + chr(c) for c in range(98, 123)]
    words = list(dict.fromkeys(words))
    (folder / "vocab.txt").write_text("".join(word + "\n" for word in words))
    transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt"),
                                   vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)
    return len(words)


def drop_tokenizer_json(folder):
    (folder / "tokenizer.json").unlink(missing_ok=True)


def llama_sizes(**more):
    return dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=128, **more)


def llama2(folder):
    sentence_pieces(folder, {"add_prefix_space": True, "chat_template": "{{ messages[0]['content'] }}"})
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **llama_sizes(rms_norm_eps=1e-5, pad_token_id=0))), "default", torch.float16


def llama3(folder):
    tok = byte_level(LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], first=True,
                     template="<|begin_of_text|>")
    save_fast(folder, tok, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>")
    config = transformers.LlamaConfig(
        **llama_sizes(head_dim=16, tie_word_embeddings=True, attention_bias=True, bos_token_id=264, eos_token_id=266),
        rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32})
    return transformers.LlamaForCausalLM(config), "llama-bpe", torch.bfloat16


def mistral(folder):
    size = byte_fallback(folder)
    return transformers.MistralForCausalLM(transformers.MistralConfig(
        **{**llama_sizes(), "vocab_size": size}, sliding_window=64)), "default", torch.bfloat16


def qwen2(folder):
    tok = byte_level(QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC())
    save_fast(folder, tok, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        **llama_sizes(tie_word_embeddings=True, eos_token_id=266))), "qwen2", torch.bfloat16


def qwen3(folder):
    tok = byte_level(QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC())
    save_fast(folder, tok, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**llama_sizes(head_dim=16))), "qwen2", torch.float32


def phi3(folder):
    sentence_pieces(folder, {}, extra=["<|user|>", "<|end|>"])
    config = transformers.Phi3Config(**{**llama_sizes(), "vocab_size": VOCAB + 32}, pad_token_id=0, sliding_window=63,
                                     original_max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
    return transformers.Phi3ForCausalLM(config), "default", torch.bfloat16


def gpt2(folder):
    save_fast(folder, byte_level(None, ["<|endoftext|>"]), bos_token="<|endoftext|>", eos_token="<|endoftext|>",
              unk_token="<|endoftext|>")
    config = transformers.GPT2Config(vocab_size=VOCAB, n_positions=32, n_embd=32, n_layer=2, n_head=4, n_ctx=32,
                                     bos_token_id=264, eos_token_id=264)
    return transformers.GPT2LMHeadModel(config), "gpt-2", torch.float32


def gptneox(folder):
    save_fast(folder, byte_level(None, ["<|endoftext|>"]), bos_token="<|endoftext|>", eos_token="<|endoftext|>",
              unk_token="<|endoftext|>")
    config = transformers.GPTNeoXConfig(vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                        num_attention_heads=4, rotary_pct=0.5, max_position_embeddings=64,
                                        bos_token_id=264, eos_token_id=264)
    return transformers.GPTNeoXForCausalLM(config), "gpt-2", torch.float16


def bert(folder):
    size = word_pieces(folder)
    return transformers.BertModel(transformers.BertConfig(
        vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=32)), "bert-bge", torch.float32


def gemma2(folder):
    sentence_pieces(folder, {"chat_template": "{{ messages[0]['content'] }}"}, extra=["<pad>", "<start_of_turn>", "<unused0>"])
    config = transformers.Gemma2Config(**{**llama_sizes(head_dim=16), "vocab_size": VOCAB + 32}, sliding_window=64,
                                       query_pre_attn_scalar=16, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    return transformers.Gemma2ForCausalLM(config), "default", torch.bfloat16


def gemma2_half(folder):
    """Whose norms are summed in f16, and whose soft caps and window are others."""
    sentence_pieces(folder, {"add_bos_token": False})
    config = transformers.Gemma2Config(**llama_sizes(head_dim=8), sliding_window=16, query_pre_attn_scalar=8,
                                       attn_logit_softcapping=20.0, final_logit_softcapping=10.0, bos_token_id=1,
                                       eos_token_id=2, pad_token_id=0)
    return transformers.Gemma2ForCausalLM(config), "default", torch.float16


def distilbert(folder, make=transformers.DistilBertModel):
    size = word_pieces(folder)
    return make(transformers.DistilBertConfig(
        vocab_size=size, dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=32)), "bert-bge", torch.float32


def distilbert_masked(folder):
    return distilbert(folder, transformers.DistilBertForMaskedLM)


def roberta(folder, make=transformers.RobertaModel, labels=()):
    front = ["<s>", "<pad>", "</s>", "<unk>"]  # positions begin behind the number of <pad>
    tok = byte_level(None, [*front, "<mask>"], front=front)
    tok.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    save_fast(folder, tok, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", cls_token="<s>",
              sep_token="</s>", mask_token="<mask>")
    config = transformers.RobertaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=34, type_vocab_size=1, layer_norm_eps=1e-5, bos_token_id=0,
        eos_token_id=2, pad_token_id=1)
    return make(with_labels(config, *labels) if labels else config), "gpt-2", torch.float32


def roberta_labels(folder):
    return roberta(folder, transformers.RobertaForSequenceClassification, ["no", "neutral", "yes"])


def roberta_score(folder):
    """A reranker: one number, and no names."""
    return roberta(folder, transformers.RobertaForSequenceClassification, ["LABEL_0"])


def unigram(folder, size, **how):
    """spiece.model as T5's folders have it: padding, the end and the unknown first, scores, and a table of characters."""
    (folder / "text").write_text(TEXT)
    sentencepiece.SentencePieceTrainer.Train(
        input=str(folder / "text"), model_prefix=str(folder / "spiece"), vocab_size=size, model_type="unigram",
        minloglevel=2, hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>",
        character_coverage=0.99, **how)
    (folder / "text").unlink()
    (folder / "spiece.vocab").unlink()
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model")).vocab_size()


def t5_settings(folder, extra, **more):
    """tokenizer_config.json with the tokens that T5 fills gaps with, as transformers 4 wrote it."""
    special = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "extra_ids": extra, **more,
               "additional_special_tokens": [f"<extra_id_{i}>" for i in range(extra)],
               "tokenizer_class": "T5Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(special, indent=1))


def t5_sizes(rows, **more):
    return transformers.T5Config(vocab_size=rows, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=4,
                                 relative_attention_num_buckets=8, decoder_start_token_id=0, **more)


def t5(folder):
    """The first release: a head that is the table of tokens, ReLU."""
    size = unigram(folder, 300)
    t5_settings(folder, 4)
    return transformers.T5ForConditionalGeneration(t5_sizes(size + 20, n_positions=64)), "default", torch.float32


def flan_t5(folder):
    """The next release, as FLAN-T5 is: gates, a head of its own, and here another number of layers that write."""
    size = unigram(folder, 280, normalization_rule_name="identity", remove_extra_whitespaces=False)
    t5_settings(folder, 3)
    (folder / "added_tokens.json").write_text(json.dumps({"<sep>": size}))
    config = t5_sizes(size + 8, feed_forward_proj="gated-gelu", tie_word_embeddings=False, num_decoder_layers=1)
    model = transformers.T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.shared.weight))  # which release 5 ties
    return model, "default", torch.bfloat16


def with_labels(config, *labels):
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}
    return config


def bert_labels(folder):
    size = word_pieces(folder)
    return transformers.BertForSequenceClassification(with_labels(transformers.BertConfig(
        vocab_size=size, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=32), "bad", "so so", "good")), "bert-bge", torch.float32


def distilbert_labels(folder):
    size = word_pieces(folder)
    return transformers.DistilBertForSequenceClassification(with_labels(transformers.DistilBertConfig(
        vocab_size=size, dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=32),
        "NEGATIVE", "POSITIVE")), "bert-bge", torch.float32


CASES = {"llama2": llama2, "llama3": llama3, "mistral": mistral, "qwen2": qwen2, "qwen3": qwen3, "phi3": phi3,
         "gpt2": gpt2, "gptneox": gptneox, "bert": bert, "gemma2": gemma2, "gemma2_half": gemma2_half,
         "distilbert": distilbert, "distilbert_masked": distilbert_masked, "roberta": roberta, "t5": t5, "flan_t5": flan_t5,
         "bert_labels": bert_labels, "distilbert_labels": distilbert_labels, "roberta_labels": roberta_labels,
         "roberta_score": roberta_score}


def converted(conversion, folder, pre, out, kind):
    import gguf
    fields = conversion.ModelBase.load_hparams(folder, False)
    if fields["model_type"] == "gpt_neox":  # which the converter asks for, and transformers no longer has
        fields["rotary_pct"] = fields["rope_parameters"]["partial_rotary_factor"]
    architecture = conversion.get_model_architecture(fields, conversion.ModelType.TEXT)
    model = conversion.get_model_class(architecture)
    model.get_vocab_base_pre = lambda self, tokenizer: pre
    types = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
             "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
    with torch.inference_mode():
        model(folder, types[kind], out, eager=True, hparams=fields).write()


def main():
    sys.path[:0] = [sys.argv[1], sys.argv[1] + "/gguf-py"]
    import conversion
    root = pathlib.Path(sys.argv[2]) / "gguf_models"
    names = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
    for case, make in CASES.items():
        if len(sys.argv) > 3 and case not in sys.argv[3:]:
            continue
        folder = root / case
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(len(case))
        model, pre, dtype = make(folder)
        with torch.no_grad():
            for value in model.parameters():
                value.copy_(torch.randn(value.shape) * 0.2 + (value.dim() == 1))
        model.to(dtype).save_pretrained(folder)
        if case == "qwen2":
            (folder / "generation_config.json").write_text(json.dumps(
                {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05}))
        if case == "gpt2":  # which the converter asks for, and transformers no longer writes
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps({**config, "n_ctx": 32}, indent=1))
        for kind in [names[dtype]] + (["q8_0"] if case in ("llama2", "gpt2", "qwen3") else []):
            converted(conversion, folder, pre, root / f"{case}.{kind}.gguf", kind)
        print(case, "done")


main()

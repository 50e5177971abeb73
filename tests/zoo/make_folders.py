#!/usr/bin/env python3
"""Folders that transformers writes, each with an input and the output for it: what tests/golden/folders.tar.xz holds.

    make_folders.py FOLDER      needs PyTorch and transformers; then tar -cJf folders.tar.xz -C FOLDER zoo
"""
import os
import sys

import torch
import transformers
from safetensors.torch import save_file

DECODER = dict(vocab_size=13, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
               num_key_value_heads=1, max_position_embeddings=16)
NEOX = dict(vocab_size=13, hidden_size=16, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2)
ENCODER = dict(vocab_size=13, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
               max_position_embeddings=16)
IMAGE = dict(image_size=12, patch_size=6, hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2,
             num_labels=3)
CASES = [
    ("gpt2", "GPT2LMHeadModel", "GPT2Config", dict(vocab_size=13, n_positions=16, n_embd=8, n_layer=2, n_head=2)),
    ("bert_masked_lm", "BertForMaskedLM", "BertConfig", ENCODER),
    ("bert_classifier", "BertForSequenceClassification", "BertConfig", dict(ENCODER, num_labels=3)),
    ("roberta_masked_lm", "RobertaForMaskedLM", "RobertaConfig", ENCODER),
    ("roberta_classifier", "RobertaForSequenceClassification", "RobertaConfig", dict(ENCODER, num_labels=3)),
    ("distilbert_masked_lm", "DistilBertForMaskedLM", "DistilBertConfig",
     dict(vocab_size=13, dim=8, hidden_dim=12, n_layers=2, n_heads=2, max_position_embeddings=16)),
    ("llama", "LlamaForCausalLM", "LlamaConfig", dict(DECODER, rope_parameters=dict(
        rope_type="llama3", factor=8.0, rope_theta=500.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=8))),
    ("llama_tied", "LlamaForCausalLM", "LlamaConfig", dict(DECODER, tie_word_embeddings=True)),
    ("llama_of_several_files", "LlamaForCausalLM", "LlamaConfig", DECODER),
    ("mistral", "MistralForCausalLM", "MistralConfig", dict(DECODER, sliding_window=3)),
    ("qwen2", "Qwen2ForCausalLM", "Qwen2Config", dict(DECODER, tie_word_embeddings=True)),
    ("qwen3", "Qwen3ForCausalLM", "Qwen3Config", dict(DECODER, head_dim=6)),
    ("phi3", "Phi3ForCausalLM", "Phi3Config", dict(DECODER, pad_token_id=0)),
    ("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", NEOX),
    ("vit", "ViTForImageClassification", "ViTConfig", IMAGE),
    ("deit", "DeiTForImageClassification", "DeiTConfig", IMAGE),
    ("deit_without_biases", "DeiTForImageClassificationWithTeacher", "DeiTConfig", dict(IMAGE, qkv_bias=False)),
    ("convnextv2", "ConvNextV2ForImageClassification", "ConvNextV2Config",
     dict(hidden_sizes=[4, 6], depths=[1, 2], num_stages=2, patch_size=2, num_labels=3)),
]


def main():
    root = os.path.join(sys.argv[1], "zoo", "folders")
    for name, model, config, arguments in CASES:
        torch.manual_seed(1)
        net = getattr(transformers, model)(getattr(transformers, config)(**arguments)).eval()
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(torch.randn_like(p) * 0.3 + (1.0 if p.dim() == 1 else 0.0))
        folder = os.path.join(root, name)
        net.save_pretrained(folder, **(dict(max_shard_size="2KB") if "several" in name else {}))
        images = "image_size" in arguments or "hidden_sizes" in arguments
        x = torch.randn(2, 3, 12, 12) if images else torch.randint(2, 13, (2, 9))
        with torch.no_grad():
            y = net(x)[0]
        save_file({"x": x, "y": y.contiguous()}, folder + ".case.safetensors")


if __name__ == "__main__":
    main()

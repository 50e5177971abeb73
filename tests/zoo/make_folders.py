#!/usr/bin/env python3
"""Folders that transformers writes, each with an input and the output for it: what tests/golden/folders.tar.xz holds.

    make_folders.py FOLDER [NAME...]     needs PyTorch and transformers; then tar -cJf folders.tar.xz -C FOLDER zoo. With
                                         names, only these.
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
T5 = dict(vocab_size=13, d_model=8, d_kv=3, d_ff=12, num_layers=2, num_heads=2, relative_attention_num_buckets=8,
          relative_attention_max_distance=7)
TOWER = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2)
PAIRS = {"T5ForConditionalGeneration": ("input_ids", "decoder_input_ids"), "CLIPModel": ("input_ids", "pixel_values"),
         "WhisperForConditionalGeneration": ("input_features", "decoder_input_ids")}
DINO = dict(image_size=18, patch_size=6, hidden_size=8, mlp_ratio=2, num_hidden_layers=2, num_attention_heads=2)
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
    ("gemma2", "Gemma2ForCausalLM", "Gemma2Config", dict(DECODER, head_dim=6, sliding_window=3, query_pre_attn_scalar=12,
                                                         attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    ("t5", "T5ForConditionalGeneration", "T5Config", T5),
    ("t5_own_head", "T5ForConditionalGeneration", "T5Config", dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    ("clip", "CLIPModel", "CLIPConfig", dict(text_config=dict(TOWER, vocab_size=13, max_position_embeddings=9, eos_token_id=12),
                                             vision_config=dict(TOWER, image_size=12, patch_size=6), projection_dim=6)),
    ("clip_text", "CLIPTextModelWithProjection", "CLIPTextConfig",
     dict(TOWER, vocab_size=13, max_position_embeddings=9, eos_token_id=12, projection_dim=5)),
    ("clip_vision", "CLIPVisionModelWithProjection", "CLIPVisionConfig", dict(TOWER, image_size=12, patch_size=6, projection_dim=5)),
    ("whisper", "WhisperForConditionalGeneration", "WhisperConfig",
     dict(vocab_size=13, d_model=8, num_mel_bins=5, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=12, decoder_layers=2,
          decoder_attention_heads=2, decoder_ffn_dim=12, max_source_positions=6, max_target_positions=9, pad_token_id=0, bos_token_id=1,
          eos_token_id=2, decoder_start_token_id=3)),
    ("vit", "ViTForImageClassification", "ViTConfig", IMAGE),
    ("deit", "DeiTForImageClassification", "DeiTConfig", IMAGE),
    ("deit_without_biases", "DeiTForImageClassificationWithTeacher", "DeiTConfig", dict(IMAGE, qkv_bias=False)),
    ("dinov2", "Dinov2ForImageClassification", "Dinov2Config", dict(DINO, num_labels=3)),
    ("dinov2_gated", "Dinov2Model", "Dinov2Config", dict(DINO, use_swiglu_ffn=True)),
    ("beit", "BeitForImageClassification", "BeitConfig", dict(IMAGE, use_relative_position_bias=True)),
    ("beit_alone", "BeitModel", "BeitConfig", dict(IMAGE, use_shared_relative_position_bias=True, use_absolute_position_embeddings=True)),
    ("mobilevit", "MobileViTForImageClassification", "MobileViTConfig",
     dict(hidden_sizes=[4, 4, 4], neck_hidden_sizes=[2, 2, 2, 3, 3, 3, 4], num_attention_heads=2, num_labels=3, mlp_ratio=1.0, expand_ratio=1.0)),
    ("convnextv2", "ConvNextV2ForImageClassification", "ConvNextV2Config",
     dict(hidden_sizes=[4, 6], depths=[1, 2], num_stages=2, patch_size=2, num_labels=3)),
]


def main():
    root = os.path.join(sys.argv[1], "zoo", "folders")
    for name, model, config, arguments in CASES:
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch.manual_seed(1)
        net = getattr(transformers, model)(getattr(transformers, config)(**arguments)).eval()
        if name == "t5_own_head":  # as the files of its release have it, which its class ties in new models
            net.lm_head.weight = torch.nn.Parameter(net.shared.weight.clone())
            net.config.tie_word_embeddings = False
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(torch.randn_like(p) * 0.3 + (1.0 if p.dim() == 1 else 0.0))
            for key, b in net.named_buffers():  # as after training
                if key.endswith(("running_mean", "running_var")):
                    b.copy_(torch.rand_like(b) + 0.5)
        folder = os.path.join(root, name)
        net.save_pretrained(folder, **(dict(max_shard_size="2KB") if "several" in name else {}))
        images = "image_size" in arguments or "hidden_sizes" in arguments
        case = {"x": torch.randn(2, 3, 12, 12) if images else torch.randint(2, 13, (2, 9))}
        names = PAIRS.get(model)
        if names and names[0] == "input_features":  # few frames of real frequencies; samples that pack well
            extractor = transformers.WhisperFeatureExtractor(feature_size=5, hop_length=1333, chunk_length=1, n_fft=200)
            extractor.save_pretrained(folder)
            case["sound"] = (torch.randn(2, 3000) * torch.linspace(0.1, 1, 3000) * 4).round() / 16
            case["x"] = torch.tensor(extractor(list(case["sound"].numpy()), sampling_rate=16000, return_tensors="np")["input_features"])
        if names:
            case["second"] = torch.randn(3, 3, 12, 12) if names[1] == "pixel_values" else torch.randint(2, 13, (2, 5))
        with torch.no_grad():
            y = net(**{names[0]: case["x"], names[1]: case["second"]})[0] if names else net(case["x"])[0]
        save_file({**case, "y": y.contiguous()}, folder + ".case.safetensors")


if __name__ == "__main__":
    main()

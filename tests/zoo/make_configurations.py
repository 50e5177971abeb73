#!/usr/bin/env python3
"""Golden cases of the zoo's families at widths and depths that no listed model has, and of families with few listed ones.

    make_configurations.py GENERATORS FOLDER [--unet CLONE] [NAME...]
        GENERATORS: the folder of vision.py, language.py and small.py, which make the other golden cases; needs PyTorch,
        torchvision and transformers. With names, only cases whose names begin so. CLONE: of github.com/milesial/Pytorch-UNet,
        without which its cases are left out.

FOLDER/zoo is what tests/golden/families.tar.xz holds: tar -cJf families.tar.xz -C FOLDER zoo.
"""
import json
import os
import subprocess
import sys

V, T = "values", "tokens"
vision = []
def v(name, builder, small, **args):
    vision.append(dict(name=name, builder=builder, args=args, full=None, small=small))
S = [2, 3, 64, 64]
v("alexnet_1", "alexnet", S, num_classes=7)
v("resnet18_1", "resnet18", S, num_classes=5)
v("resnet50_2", "resnet50", S, num_classes=6, width_per_group=32, groups=2, replace_stride_with_dilation=[False, True, True])
v("squeezenet_1", "SqueezeNet", S, version="1_0", num_classes=8, dropout=0.2)
v("squeezenet_2", "squeezenet1_1", S, num_classes=3)
v("densenet_1", "DenseNet", S, growth_rate=12, block_config=[2, 3, 4], num_init_features=24, bn_size=2, num_classes=9)
v("densenet_2", "DenseNet", S, growth_rate=8, block_config=[1, 2, 3, 2, 1], num_init_features=16, num_classes=4)
v("googlenet_1", "googlenet", S, aux_logits=False, init_weights=True, num_classes=7, transform_input=True)
v("inception_1", "inception_v3", [2, 3, 75, 75], init_weights=True, num_classes=5, transform_input=True)
v("mobilenet_v2_1", "mobilenet_v2", S, width_mult=0.75, num_classes=5)
v("mobilenet_v2_2", "MobileNetV2", S, width_mult=1.4, round_nearest=4, num_classes=6, inverted_residual_setting=[[1, 16, 1, 1], [6, 24, 2, 2], [4, 40, 1, 2]])
v("mobilenet_v3_1", "mobilenet_v3_small", S, num_classes=4, width_mult=0.75)
v("shufflenet_1", "ShuffleNetV2", S, stages_repeats=[2, 3, 2], stages_out_channels=[24, 32, 64, 128, 256], num_classes=5)
v("shufflenet_2", "shufflenet_v2_x1_5", S, num_classes=6)
v("efficientnet_1", "efficientnet_b0", S, num_classes=6, stochastic_depth_prob=0.1, dropout=0.3)
v("regnet_1", "regnet_y_800mf", S, num_classes=5, stem_width=16)
v("convnext_1", "convnext_tiny", S, num_classes=4, layer_scale=0.1)
v("vit_1", "VisionTransformer", [2, 3, 24, 24], image_size=24, patch_size=6, num_layers=2, num_heads=3, hidden_dim=48, mlp_dim=96, num_classes=5, representation_size=20)
v("vit_2", "VisionTransformer", [2, 3, 32, 32], image_size=32, patch_size=4, num_layers=5, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=11, attention_dropout=0.1, dropout=0.2)
v("swin_1", "SwinTransformer", S, patch_size=[4, 4], embed_dim=24, depths=[2, 2, 2], num_heads=[2, 3, 4], window_size=[4, 4], num_classes=7)
v("swin_2", "SwinTransformer", S, patch_size=[2, 2], embed_dim=32, depths=[1, 3], num_heads=[4, 8], window_size=[7, 7], mlp_ratio=2.0, num_classes=3, stochastic_depth_prob=0.0)
v("fcn_1", "segmentation.fcn_resnet50", S, weights=None, weights_backbone=None, num_classes=4)
v("deeplab_1", "segmentation.deeplabv3_resnet50", S, weights=None, weights_backbone=None, num_classes=5)

small = []
def s(name, builder, inputs, loss=None, **more):
    small.append(dict(name=name, builder=builder, inputs=inputs, loss=loss, **more))
s("mlp_1", "MLP", [[V, [4, 20]]], "cross_entropy", classes=4, args=dict(inputs=20, hidden=7, classes=4))
s("mlp_2", "MLP", [[V, [4, 3, 5]]], "cross_entropy", classes=2, args=dict(inputs=15, hidden=33, classes=2))
s("lenet_1", "LeNet5", [[V, [4, 1, 28, 28]]], "cross_entropy", classes=3, args=dict(classes=3))
s("lenet_2", "LeNet5", [[V, [4, 1, 28, 28]]], "cross_entropy", classes=26, args=dict(classes=26))
s("mnist_1", "MnistNet", [[V, [2, 1, 28, 28]]], None, args=dict(p1=0.1, p2=0.2))
s("mnist_2", "MnistNet", [[V, [2, 1, 28, 28]]], None, args=dict(p1=0.0, p2=0.9))
s("bn_1", "BatchNormNet", [[V, [6, 1, 12, 12]]], "cross_entropy", classes=5, args=dict(channels=4, classes=5))
s("bn_2", "BatchNormNet", [[V, [8, 1, 10, 10]]], "cross_entropy", classes=3, args=dict(channels=12, classes=3))
s("lstm_1", "CharLSTM", [[T, [2, 9], 21]], "cross_entropy", classes=21, args=dict(vocabulary=21, embedding=6, hidden=10, layers=3))
s("lstm_2", "CharLSTM", [[T, [2, 9], 30]], "cross_entropy", classes=30, args=dict(vocabulary=30, hidden=17))
s("gru_1", "CharGRU", [[T, [2, 9], 21]], "cross_entropy", classes=21, args=dict(vocabulary=21, embedding=6, hidden=10, layers=1))
s("gru_2", "CharGRU", [[T, [3, 7], 12]], "cross_entropy", classes=12, args=dict(vocabulary=12, embedding=9, hidden=14, layers=3))
s("bilstm_1", "BiLSTMClassifier", [[V, [4, 5, 6]]], "cross_entropy", classes=3, args=dict(inputs=6, hidden=9, classes=3))
s("bilstm_2", "BiLSTMClassifier", [[V, [4, 8, 3]]], "cross_entropy", classes=7, args=dict(inputs=3, hidden=4, classes=7))
s("rnn_1", "SimpleRNN", [[V, [4, 6, 7]]], "mse", batch_dim=1, args=dict(inputs=7, hidden=9, outputs=2))
s("rnn_2", "SimpleRNN", [[V, [5, 4, 3]]], "mse", batch_dim=1, args=dict(inputs=3, hidden=20, outputs=6))
s("step_1", "StepRNN", [[V, [4, 6, 7]]], "mse", args=dict(inputs=7, hidden=9, outputs=2))
s("step_2", "StepRNN", [[V, [4, 3, 5]]], "mse", args=dict(inputs=5, hidden=11, outputs=4))
s("ae_1", "Autoencoder", [[V, [4, 30], 0.5, 0.5]], "rebuild", args=dict(inputs=30, hidden=12, code=3))
s("ae_2", "Autoencoder", [[V, [4, 64], 0.5, 0.5]], "rebuild", args=dict(inputs=64, hidden=40, code=9))
s("vae_1", "VAE", [[V, [4, 30], 0.5, 0.5]], None, args=dict(inputs=30, hidden=12, code=3))
s("vae_2", "VAE", [[V, [4, 64], 0.5, 0.5]], None, args=dict(inputs=64, hidden=20, code=5))
s("w2v_1", "Word2Vec", [[T, [8], 40], [T, [8, 5], 40]], "bce_logits", gain=6.0, table=0.5, args=dict(vocabulary=40, size=9))
s("w2v_2", "Word2Vec", [[T, [8], 90], [T, [8, 3], 90]], "bce_logits", gain=6.0, table=0.5, args=dict(vocabulary=90, size=17))
s("enc_1", "EncoderClassifier", [[V, [4, 5, 9]]], "cross_entropy", classes=4, train_args=dict(dropout=0.0), args=dict(inputs=9, width=24, heads=3, feedforward=40, layers=3, classes=4))
s("enc_2", "EncoderClassifier", [[V, [2, 5, 6]]], "cross_entropy", classes=3, train_args=dict(dropout=0.0), args=dict(inputs=6, width=16, heads=2, feedforward=20, layers=1, classes=3, norm_first=True, activation="gelu"))
s("caps_1", "CapsNet", [[V, [2, 1, 28, 28], 0.5, 0.5]], None, over={"digit.W": [0.0, 0.5]}, args=dict(channels=8, types=2, prim_size=4, classes=5, digit_size=6, iterations=2, hidden=[16, 24]))
s("caps_2", "CapsNet", [[V, [2, 3, 20, 20], 0.5, 0.5]], None, over={"digit.W": [0.0, 0.5]}, args=dict(channels=6, types=3, classes=4, hidden=[20, 30], image=20, kernel=5, in_channels=3))

language = []
def l(name, model, config, inputs, table=0.25, over=None, gain=3.0, **args):
    language.append(dict(name=name, model=model, config=config, args=args, inputs=inputs, table=table, over=over or {}, gain=gain))
def nano(name, inputs, **args):
    language.append(dict(name=name, nano=True, args=args, inputs=inputs, table=0.25))
l("gpt2_1", "GPT2LMHeadModel", "GPT2Config", [[T, [2, 7], 50]], vocab_size=50, n_positions=16, n_embd=24, n_layer=2, n_head=3, n_inner=50, activation_function="relu", layer_norm_epsilon=1e-3, resid_pdrop=0.2, embd_pdrop=0.3, attn_pdrop=0.05)
l("gpt2_2", "GPT2LMHeadModel", "GPT2Config", [[T, [2, 7], 60]], vocab_size=60, n_positions=20, n_embd=40, n_layer=5, n_head=5, tie_word_embeddings=False, activation_function="gelu", scale_attn_by_inverse_layer_idx=True)
l("gpt2_3", "GPT2Model", "GPT2Config", [[T, [2, 7], 60]], vocab_size=60, n_positions=20, n_embd=16, n_layer=1, n_head=1, scale_attn_weights=False)
nano("nano_1", [[T, [2, 7], 50]], vocab_size=50, block_size=16, n_embd=24, n_layer=2, n_head=3)
nano("nano_2", [[T, [2, 7], 80]], vocab_size=80, block_size=12, n_embd=20, n_layer=4, n_head=2, bias=False, dropout=0.1, approximate="tanh")
B = dict(vocab_size=70, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50, max_position_embeddings=20)
l("bert_1", "BertModel", "BertConfig", [[T, [2, 7], 70]], 0.5, **B, layer_norm_eps=1e-5, hidden_act="relu", type_vocab_size=3)
l("bert_2", "BertModel", "BertConfig", [[T, [2, 7], 70]], 0.5, **dict(B, hidden_size=40, num_attention_heads=5, num_hidden_layers=1), hidden_act="gelu_new", pad_token_id=3, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
l("bert_mlm", "BertForMaskedLM", "BertConfig", [[T, [2, 7], 70]], 0.25, **B)
l("bert_mlm_2", "BertForMaskedLM", "BertConfig", [[T, [2, 7], 70]], 0.25, **dict(B, num_hidden_layers=1), tie_word_embeddings=False)
l("bert_pre", "BertForPreTraining", "BertConfig", [[T, [2, 7], 70]], 0.25, **B, hidden_act="silu")
l("bert_cls", "BertForSequenceClassification", "BertConfig", [[T, [2, 7], 70]], 0.5, **B, num_labels=5, classifier_dropout=0.4)
l("bert_cls_2", "BertForSequenceClassification", "BertConfig", [[T, [3, 7], 70]], 0.5, **dict(B, num_hidden_layers=5), num_labels=2)
L = dict(vocab_size=61, hidden_size=48, intermediate_size=70, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3, max_position_embeddings=64)
l("llama_1", "LlamaForCausalLM", "LlamaConfig", [[T, [2, 9], 61]], 0.25, **L, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-3)
l("llama_2", "LlamaForCausalLM", "LlamaConfig", [[T, [2, 9], 61]], 0.25, **dict(L, num_hidden_layers=4), head_dim=12, tie_word_embeddings=True, hidden_act="gelu", pad_token_id=0)
l("llama_3", "LlamaForCausalLM", "LlamaConfig", [[T, [2, 9], 61]], 0.25, **L, rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=5000.0))
l("llama_4", "LlamaForCausalLM", "LlamaConfig", [[T, [2, 40], 61]], 0.25, **L, rope_parameters=dict(rope_type="llama3", factor=8.0, rope_theta=500000.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16))
I = dict(image_size=24, patch_size=6, hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50)
l("hfvit_1", "ViTForImageClassification", "ViTConfig", [[V, [2, 3, 24, 24]]], 0.5, **I, num_labels=4, qkv_bias=False, layer_norm_eps=1e-5, hidden_act="relu")
l("hfvit_2", "ViTForImageClassification", "ViTConfig", [[V, [2, 1, 24, 24]]], 0.5, **dict(I, num_hidden_layers=1), num_labels=3, num_channels=1, hidden_dropout_prob=0.1)
l("hfvit_3", "ViTModel", "ViTConfig", [[V, [2, 3, 24, 24]]], 0.5, **I)

# Families beside those of the other golden cases.
D = dict(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
E = dict(vocab_size=47, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=1, max_position_embeddings=64)
X = [[T, [2, 11], 61]]; Y = [[T, [2, 9], 47]]
P = dict(D); P.pop("num_key_value_heads")
Q = dict(E); Q.pop("num_key_value_heads")
l("gpt_neox_1", "GPTNeoXForCausalLM", "GPTNeoXConfig", X, **P, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.34))
l("gpt_neox_2", "GPTNeoXForCausalLM", "GPTNeoXConfig", Y, **Q, use_parallel_residual=False, hidden_act="relu", attention_bias=False, layer_norm_eps=1e-3, tie_word_embeddings=True, hidden_dropout=0.1)
l("qwen2_1", "Qwen2ForCausalLM", "Qwen2Config", X, **D)
l("qwen2_2", "Qwen2ForCausalLM", "Qwen2Config", Y, **E, tie_word_embeddings=True, rms_norm_eps=1e-4, use_sliding_window=True, sliding_window=4, max_window_layers=1)
l("mistral_1", "MistralForCausalLM", "MistralConfig", X, **D, sliding_window=5)
l("mistral_2", "MistralForCausalLM", "MistralConfig", Y, **E, head_dim=10, sliding_window=None)
b = dict(vocab_size=70, dim=24, hidden_dim=50, n_layers=3, n_heads=3, max_position_embeddings=20)
l("distilbert_1", "DistilBertModel", "DistilBertConfig", [[T, [2, 7], 70]], 0.5, **b)
l("distilbert_2", "DistilBertForMaskedLM", "DistilBertConfig", [[T, [2, 7], 70]], **dict(b, n_layers=1, dim=40, n_heads=5), activation="relu")
l("distilbert_3", "DistilBertForSequenceClassification", "DistilBertConfig", [[T, [3, 7], 70]], 0.5, **b, num_labels=5, seq_classif_dropout=0.3, dropout=0.2, attention_dropout=0.05)
r = dict(vocab_size=70, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50, max_position_embeddings=20, type_vocab_size=1)
l("roberta_1", "RobertaModel", "RobertaConfig", [[T, [2, 7], 70]], 0.5, **r, pad_token_id=1)
l("roberta_2", "RobertaForMaskedLM", "RobertaConfig", [[T, [2, 7], 70]], **dict(r, num_hidden_layers=1, hidden_size=40, num_attention_heads=5), layer_norm_eps=1e-5)
l("roberta_3", "RobertaForSequenceClassification", "RobertaConfig", [[T, [3, 7], 70]], 0.5, **r, num_labels=4, hidden_act="gelu_new", pad_token_id=2, classifier_dropout=0.3)
l("qwen3_1", "Qwen3ForCausalLM", "Qwen3Config", X, **D, head_dim=8)
l("qwen3_2", "Qwen3ForCausalLM", "Qwen3Config", Y, **E, head_dim=6, attention_bias=True, tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1000000.0))
l("phi3_1", "Phi3ForCausalLM", "Phi3Config", X, **D, pad_token_id=0)
l("phi3_2", "Phi3ForCausalLM", "Phi3Config", Y, **E, pad_token_id=3, sliding_window=5, resid_pdrop=0.1, rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.5))
l("gemma2_1", "Gemma2ForCausalLM", "Gemma2Config", X, **D, head_dim=8, sliding_window=4, query_pre_attn_scalar=24, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)
l("gemma2_2", "Gemma2ForCausalLM", "Gemma2Config", Y, **E, head_dim=6, tie_word_embeddings=False, pad_token_id=3, attn_logit_softcapping=None, final_logit_softcapping=None, attention_bias=True, rms_norm_eps=1e-4, rope_parameters=dict(rope_type="default", rope_theta=5000.0))
I = dict(image_size=24, patch_size=6, hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50)
Z = [[V, [2, 3, 24, 24]]]
l("deit_1", "DeiTForImageClassification", "DeiTConfig", Z, 0.5, **I, num_labels=4)
l("deit_2", "DeiTForImageClassificationWithTeacher", "DeiTConfig", Z, 0.5, **dict(I, num_hidden_layers=1), num_labels=3, qkv_bias=False, layer_norm_eps=1e-5)
l("deit_3", "DeiTModel", "DeiTConfig", Z, 0.5, **dict(I, num_hidden_layers=1), hidden_act="relu")
l("convnextv2_1", "ConvNextV2ForImageClassification", "ConvNextV2Config", [[V, [2, 3, 32, 32]]], 0.5, hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, num_labels=5)
l("convnextv2_2", "ConvNextV2ForImageClassification", "ConvNextV2Config", [[V, [2, 1, 48, 48]]], 0.5, hidden_sizes=[6, 10, 14], depths=[2, 1, 1], num_stages=3, num_channels=1, patch_size=2, num_labels=3, hidden_act="relu", layer_norm_eps=1e-5, drop_path_rate=0.1)
def scales(layers, name, prefix=""):
    """Scales of layers as trained ones are: not all alike, far from 0."""
    return {prefix + name % (i, k): [0.5, 0.25] for i in range(layers) for k in (1, 2)}
J = dict(I); J.pop("intermediate_size")
dino = "encoder.layer.%d.layer_scale%d.lambda1"
l("dinov2_1", "Dinov2ForImageClassification", "Dinov2Config", Z, 0.5, scales(3, dino, "dinov2."), **J, num_labels=4, mlp_ratio=2, drop_path_rate=0.1, layerscale_value=0.3)
l("dinov2_2", "Dinov2Model", "Dinov2Config", [[V, [2, 1, 30, 18]]], 0.5, scales(2, dino), **dict(J, num_hidden_layers=2), num_channels=1, qkv_bias=False, use_swiglu_ffn=True, use_mask_token=False, layer_norm_eps=1e-5)
l("dinov2_3", "Dinov2ForImageClassification", "Dinov2Config", Z, 0.5, scales(1, dino, "dinov2."), **dict(J, num_hidden_layers=1, image_size=42), hidden_act="relu", num_labels=3)

t = dict(vocab_size=61, d_model=24, d_kv=5, d_ff=40, num_layers=2, num_heads=3, dropout_rate=0.1)
l("t5_1", "T5ForConditionalGeneration", "T5Config", [[T, [2, 11], 61], [T, [2, 7], 61]], **t, relative_attention_num_buckets=8, relative_attention_max_distance=9)
l("t5_2", "T5ForConditionalGeneration", "T5Config", [[T, [2, 5], 61], [T, [2, 12], 61]], **dict(t, num_heads=4), num_decoder_layers=3, feed_forward_proj="gated-gelu", tie_word_embeddings=False, layer_norm_epsilon=1e-4)
l("t5_3", "T5EncoderModel", "T5Config", X, **t, feed_forward_proj="gated-silu")

ct = dict(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=12)
cv = dict(hidden_size=36, intermediate_size=50, num_hidden_layers=2, num_attention_heads=4, image_size=24, patch_size=6)
l("clip_1", "CLIPModel", "CLIPConfig", [[T, [3, 9], 61], [V, [2, 3, 24, 24]]], 0.5, text_config=dict(ct, eos_token_id=2), vision_config=cv, projection_dim=20)
l("clip_2", "CLIPModel", "CLIPConfig", [[T, [2, 12], 61], [V, [3, 1, 18, 18]]], 0.5, text_config=dict(ct, eos_token_id=24, hidden_act="gelu", layer_norm_eps=1e-4), vision_config=dict(cv, image_size=18, num_channels=1, num_hidden_layers=1, hidden_act="relu"), projection_dim=7, logit_scale_init_value=1.5)
l("clip_3", "CLIPTextModel", "CLIPTextConfig", [[T, [2, 9], 61]], 0.5, **ct)
l("clip_4", "CLIPVisionModel", "CLIPVisionConfig", [[V, [2, 3, 24, 24]]], 0.5, **cv)
l("clip_5", "CLIPForImageClassification", "CLIPConfig", [[V, [2, 3, 24, 24]]], 0.5, text_config=ct, vision_config=cv, num_labels=3)

ls = "layers.%d.lambda_%d"
l("beit_1", "BeitForImageClassification", "BeitConfig", Z, 0.5, scales(3, ls, "beit."), **I, use_relative_position_bias=True, num_labels=4)
l("beit_2", "BeitModel", "BeitConfig", [[V, [2, 1, 30, 24]]], 0.5, **dict(I, num_hidden_layers=2), num_channels=1, layer_scale_init_value=0.0, drop_path_rate=0.0, use_shared_relative_position_bias=True, use_absolute_position_embeddings=True, use_mean_pooling=False, layer_norm_eps=1e-5, hidden_act="relu")
l("beit_3", "BeitForMaskedImageModeling", "BeitConfig", Z, 0.5, scales(3, ls, "beit."), **I, use_mask_token=True, use_relative_position_bias=True, use_shared_relative_position_bias=True, use_mean_pooling=False, vocab_size=23)

w = dict(vocab_size=61, d_model=24, num_mel_bins=10, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=40, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=30, max_source_positions=8, max_target_positions=12, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3)
l("whisper_1", "WhisperForConditionalGeneration", "WhisperConfig", [[V, [2, 10, 16]], [T, [2, 7], 61]], **w)
l("whisper_2", "WhisperForConditionalGeneration", "WhisperConfig", [[V, [1, 6, 24]], [T, [1, 9], 61]], **dict(w, num_mel_bins=6, max_source_positions=12, encoder_layers=1, decoder_layers=3), tie_word_embeddings=False, activation_function="relu", dropout=0.1)
l("whisper_3", "WhisperModel", "WhisperConfig", [[V, [2, 10, 16]], [T, [2, 5], 61]], **w, scale_embedding=True)

mv = dict(hidden_sizes=[12, 16, 20], neck_hidden_sizes=[6, 8, 10, 12, 14, 16, 24])
l("mobilevit_1", "MobileViTForImageClassification", "MobileViTConfig", [[V, [2, 3, 64, 64]]], gain=7.0, **mv, num_labels=4)
l("mobilevit_2", "MobileViTForImageClassification", "MobileViTConfig", [[V, [2, 1, 72, 56]]], gain=7.0, **mv, num_labels=3, num_channels=1, num_attention_heads=2, qkv_bias=False, expand_ratio=1.5, mlp_ratio=1.3, output_stride=8, hidden_act="relu", layer_norm_eps=1e-4)
l("mobilevit_3", "MobileViTModel", "MobileViTConfig", [[V, [2, 3, 48, 48]]], gain=7.0, **mv, output_stride=16, conv_kernel_size=5, patch_size=3)

v("efficientnet_v2_1", "efficientnet_v2_s", S, num_classes=5)


# Constructors that take blocks as objects, which are data in the cases.
v("resnet_blocks_1", "ResNet", S, block="Bottleneck", layers=[1, 2, 1, 1], num_classes=4)
v("resnet_blocks_2", "ResNet", S, block="BasicBlock", layers=[2, 1, 1, 1], num_classes=3)
v("convnext_blocks_1", "ConvNeXt", S, block_setting=[[16, 24, 1], [24, 32, 2], [32, None, 1]], num_classes=4)
v("convnext_blocks_2", "ConvNeXt", S, block_setting=[[12, 20, 2], [20, None, 1]], num_classes=3, stochastic_depth_prob=0.2, layer_scale=0.5)
v("regnet_blocks_1", "RegNet", S, block_params=dict(depth=6, w_0=16, w_a=12.5, w_m=2.1, group_width=8, se_ratio=0.25), num_classes=4)
v("regnet_blocks_2", "RegNet", S, block_params=dict(depth=5, w_0=24, w_a=20.0, w_m=2.5, group_width=8), num_classes=3, stem_width=16)
v("efficientnet_blocks_1", "EfficientNet", S, inverted_residual_setting=[["MBConv", 1, 3, 1, 16, 8, 1], ["MBConv", 6, 5, 2, 8, 16, 2]], dropout=0.1, num_classes=4)
v("efficientnet_blocks_2", "EfficientNet", S, inverted_residual_setting=[["FusedMBConv", 1, 3, 1, 16, 16, 1], ["MBConv", 4, 3, 2, 16, 24, 2]], dropout=0.2, last_channel=64, num_classes=3)
v("mobilenet_v3_blocks_1", "MobileNetV3", S, inverted_residual_setting=[[16, 3, 16, 16, True, "RE", 2, 1], [16, 5, 72, 24, False, "HS", 1, 1]], last_channel=40, num_classes=4)
v("mobilenet_v3_blocks_2", "MobileNetV3", S, inverted_residual_setting=[[8, 3, 16, 16, False, "HS", 1, 1], [16, 3, 40, 16, True, "HS", 2, 2], [16, 3, 48, 16, True, "RE", 1, 1]], last_channel=24, num_classes=3)
v("unet_1", "UNet", [1, 3, 32, 32], n_channels=3, n_classes=4)
v("unet_2", "UNet", [2, 1, 28, 20], n_channels=1, n_classes=1, bilinear=True)
v("vgg_plan_1", "VGG", [2, 3, 32, 32], cfg=[16, "M", 24, 24, "M", 512, "M"], batch_norm=True, num_classes=4)


def with_objects(build):
    """A build() for vision.py that makes the objects."""
    import functools

    from torchvision.models import convnext, efficientnet, mobilenetv3, regnet, resnet, vgg

    def rebuilt(case):
        name, args = case["builder"], dict(case.get("args", {}))
        if name == "ResNet":
            args["block"] = getattr(resnet, args["block"])
        elif name == "ConvNeXt":
            args["block_setting"] = [convnext.CNBlockConfig(*row) for row in args["block_setting"]]
        elif name == "RegNet":
            args["block_params"] = regnet.BlockParams.from_init_params(**args["block_params"])
        elif name == "EfficientNet":
            args["inverted_residual_setting"] = [getattr(efficientnet, row[0] + "Config")(*row[1:]) for row in args["inverted_residual_setting"]]
        elif name == "MobileNetV3":
            args["inverted_residual_setting"] = [mobilenetv3.InvertedResidualConfig(*row, 1.0) for row in args["inverted_residual_setting"]]
        elif name == "UNet":
            from unet import UNet
            return UNet(**args)
        elif name == "VGG":
            args = dict(features=vgg.make_layers(args["cfg"], args["batch_norm"]), num_classes=args["num_classes"])
        else:
            return build(case)
        module = {"ResNet": resnet, "ConvNeXt": convnext, "RegNet": regnet, "EfficientNet": efficientnet, "MobileNetV3": mobilenetv3, "VGG": vgg}[name]
        return getattr(module, name)(**args)

    return functools.wraps(build)(rebuilt)


PAIRS = {"T5ForConditionalGeneration": ("input_ids", "decoder_input_ids"), "CLIPModel": ("input_ids", "pixel_values"),
         "WhisperModel": ("input_features", "decoder_input_ids"), "WhisperForConditionalGeneration": ("input_features", "decoder_input_ids")}


def with_pairs(generator):
    """Models of two inputs are called with both, which their forward has by these names."""
    import transformers

    def taking_both(plain, names):
        return lambda self, *xs, **more: plain(self, **dict(zip(names, xs)), **more)

    for name, names in PAIRS.items():
        model = getattr(transformers, name)
        model.forward = taking_both(model.forward, names)
    plain = generator.forward
    generator.forward = lambda model, xs, nano=False: generator.F.primary(model(*xs)) if len(xs) == 2 else plain(model, xs, nano)


def make_language(configs, out):
    sys.argv = ["language.py", "--out", out, "--configs", configs]
    import language as generator
    with_pairs(generator)
    generator.main()


def make_vision(configs, out):
    sys.argv = ["vision.py", "--out", out, "--configs", configs]
    import vision as generator
    generator.build = with_objects(generator.build)
    dump = generator.F.dump
    generator.F.dump = lambda doc, path: dump({**doc, "constructor": doc["constructor"].replace("torchvision.models.UNet", "unet.UNet")}, path)
    generator.main()


def main():
    generators, folder, *names = sys.argv[1:]
    clone = None
    if "--unet" in names:
        at = names.index("--unet")
        clone = names[at + 1]
        del names[at:at + 2]
        sys.path.insert(0, clone)
    out = os.path.join(folder, "zoo")
    os.makedirs(out, exist_ok=True)
    for case in small:
        if case["loss"] is None:
            del case["loss"]
    for kind, cases in (("small", small), ("language", language), ("vision", vision)):
        cases = [case for case in cases if (not names or case["name"].startswith(tuple(names))) and (clone or case.get("builder") != "UNet")]
        if not cases:
            continue
        configs = os.path.join(folder, kind + ".configs.json")
        with open(configs, "w") as f:
            json.dump(cases, f)
        if kind != "small":
            sys.path.insert(0, generators)
            (make_vision if kind == "vision" else make_language)(configs, out)
        else:
            subprocess.run([sys.executable, os.path.join(generators, kind + ".py"), "--out", out, "--configs", configs], check=True)
        os.remove(configs)


if __name__ == "__main__":
    main()

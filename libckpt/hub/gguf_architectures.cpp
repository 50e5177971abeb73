// Facts: gguf-py's constants.py and tensor_mapping.py and llama.cpp's converter, as llama-cpp-python 0.3.36 has them.

#include "libckpt/hub/gguf_architectures.h"

#include <algorithm>

namespace ckpt::detail {
namespace {

using Type = GgufValueType;

constexpr std::string_view kLlamaClasses[] = {"LlamaForCausalLM", "MistralForCausalLM", "LlamaModel"};
constexpr std::string_view kQwen2Classes[] = {"Qwen2ForCausalLM", "Qwen2Model"};
constexpr std::string_view kQwen3Classes[] = {"Qwen3ForCausalLM", "Qwen3Model"};
constexpr std::string_view kPhi3Classes[] = {"Phi3ForCausalLM"};
constexpr std::string_view kGpt2Classes[] = {"GPT2LMHeadModel"};
constexpr std::string_view kGptNeoxClasses[] = {"GPTNeoXForCausalLM"};
constexpr std::string_view kBertClasses[] = {"BertModel", "BertForMaskedLM", "BertForSequenceClassification"};
constexpr std::string_view kDistilBertClasses[] = {"DistilBertModel", "DistilBertForMaskedLM",
                                                   "DistilBertForSequenceClassification"};
constexpr std::string_view kRobertaClasses[] = {"RobertaModel", "RobertaForMaskedLM",
                                                "RobertaForSequenceClassification"};
constexpr std::string_view kT5Classes[] = {"T5ForConditionalGeneration"};
constexpr std::string_view kGemma2Classes[] = {"Gemma2ForCausalLM"};

constexpr std::string_view kHeadDim = "hidden_size/num_attention_heads";

constexpr GgufField kLayers = {"block_count", Type::u32, "num_hidden_layers"};
constexpr GgufField kWidth = {"embedding_length", Type::u32, "hidden_size"};
constexpr GgufField kFeedForward = {"feed_forward_length", Type::u32, "intermediate_size"};
constexpr GgufField kHeads = {"attention.head_count", Type::u32, "num_attention_heads"};
constexpr GgufField kKvHeads = {"attention.head_count_kv", Type::u32, "num_key_value_heads", "num_attention_heads"};
constexpr GgufField kTheta = {"rope.freq_base", Type::f32, "rope_theta", "10000"};
constexpr GgufField kRmsEpsilon = {"attention.layer_norm_rms_epsilon", Type::f32, "rms_norm_eps", "1e-6"};
constexpr GgufField kPartialRotary = {"rope.dimension_count", Type::u32, "",
                                      "partial_rotary_factor*hidden_size/num_attention_heads"};

constexpr GgufField kLlamaFields[] = {
    kLayers,
    {"context_length", Type::u32, "max_position_embeddings", "2048"},
    kWidth,
    kFeedForward,
    kHeads,
    kKvHeads,
    kTheta,
    kRmsEpsilon,
    {"attention.key_length", Type::u32, "head_dim", kHeadDim},
    {"attention.value_length", Type::u32, "head_dim", kHeadDim},
    {"vocab_size", Type::u32, "vocab_size"},
    {"rope.dimension_count", Type::u32, "head_dim", kHeadDim},
};

constexpr GgufField kQwen2Fields[] = {
    kLayers,
    {"context_length", Type::u32, "max_position_embeddings", "32768"},
    kWidth,
    kFeedForward,
    kHeads,
    kKvHeads,
    kTheta,
    kRmsEpsilon,
    {"attention.key_length", Type::u32, "head_dim", "-"},
    {"attention.value_length", Type::u32, "head_dim", "-"},
};

constexpr GgufField kQwen3Fields[] = {
    kLayers,
    {"context_length", Type::u32, "max_position_embeddings", "32768"},
    kWidth,
    kFeedForward,
    kHeads,
    kKvHeads,
    kTheta,
    kRmsEpsilon,
    {"attention.key_length", Type::u32, "head_dim", "128"},
    {"attention.value_length", Type::u32, "head_dim", "128"},
};

constexpr GgufField kPhi3Fields[] = {
    {"context_length", Type::u32, "max_position_embeddings", "4096"},
    {"rope.scaling.original_context_length", Type::u32, "original_max_position_embeddings", "4096"},
    kWidth,
    kFeedForward,
    kLayers,
    kHeads,
    kKvHeads,
    {"attention.layer_norm_rms_epsilon", Type::f32, "rms_norm_eps", "1e-5"},
    kPartialRotary,
    kTheta,
    {"attention.sliding_window", Type::u32, "sliding_window", "0"},
};

constexpr GgufField kGpt2Fields[] = {
    {"block_count", Type::u32, "n_layer"},
    {"context_length", Type::u32, "n_positions", "n_ctx"},
    {"embedding_length", Type::u32, "n_embd"},
    {"feed_forward_length", Type::u32, "n_inner", "4*n_embd"},
    {"attention.head_count", Type::u32, "n_head"},
    {"attention.layer_norm_epsilon", Type::f32, "layer_norm_epsilon", "1e-5"},
};

constexpr GgufField kGptNeoxFields[] = {
    {"context_length", Type::u32, "max_position_embeddings", "2048"},
    kWidth,
    kLayers,
    kFeedForward,
    kPartialRotary,
    kHeads,
    {"use_parallel_residual", Type::boolean, "use_parallel_residual", "1"},
    {"attention.layer_norm_epsilon", Type::f32, "layer_norm_eps", "1e-5"},
};

constexpr GgufField kBertFields[] = {
    kLayers, {"context_length", Type::u32, "max_position_embeddings", "512"},        kWidth, kFeedForward,
    kHeads,  {"attention.layer_norm_epsilon", Type::f32, "layer_norm_eps", "1e-12"},
};

constexpr GgufField kDistilBertFields[] = {
    {"block_count", Type::u32, "n_layers"},         {"context_length", Type::u32, "max_position_embeddings", "512"},
    {"embedding_length", Type::u32, "dim"},         {"feed_forward_length", Type::u32, "hidden_dim"},
    {"attention.head_count", Type::u32, "n_heads"}, {"attention.layer_norm_epsilon", Type::f32, "", "1e-12"},
};

constexpr GgufField kGemma2Fields[] = {
    {"context_length", Type::u32, "max_position_embeddings", "8192"},
    kWidth,
    kLayers,
    kFeedForward,
    kHeads,
    {"attention.head_count_kv", Type::u32, "num_key_value_heads", "4"},
    kRmsEpsilon,
    {"attention.key_length", Type::u32, "head_dim", "256"},
    {"attention.value_length", Type::u32, "head_dim", "256"},
    {"attn_logit_softcapping", Type::f32, "attn_logit_softcapping", "50"},
    {"final_logit_softcapping", Type::f32, "final_logit_softcapping", "30"},
    {"attention.sliding_window", Type::u32, "sliding_window", "4096"},
};

constexpr GgufField kT5Fields[] = {
    {"context_length", Type::u32, "n_positions", "512"},
    {"embedding_length", Type::u32, "d_model"},
    {"feed_forward_length", Type::u32, "d_ff"},
    {"block_count", Type::u32, "num_layers"},
    {"decoder_block_count", Type::u32, "num_decoder_layers", "num_layers"},
    {"attention.head_count", Type::u32, "num_heads"},
    {"attention.key_length", Type::u32, "d_kv", "64"},
    {"attention.value_length", Type::u32, "d_kv", "64"},
    {"attention.layer_norm_epsilon", Type::f32, "layer_norm_epsilon", "1e-6"},
    {"attention.relative_buckets_count", Type::u32, "relative_attention_num_buckets", "32"},
    {"attention.layer_norm_rms_epsilon", Type::f32, "layer_norm_epsilon", "1e-6"},
    {"decoder_start_token_id", Type::u32, "decoder_start_token_id", "0"},
};

constexpr GgufSetting kSilu[] = {{"hidden_act", "\"silu\""}};
constexpr GgufSetting kQwen2Settings[] = {{"hidden_act", "\"silu\""}, {"use_sliding_window", "false"}};
constexpr GgufSetting kGpt2Settings[] = {{"activation_function", "\"gelu_new\" \"gelu_pytorch_tanh\""},
                                         {"scale_attn_weights", "true"},
                                         {"scale_attn_by_inverse_layer_idx", "false"},
                                         {"add_cross_attention", "false"}};
constexpr GgufSetting kGptNeoxSettings[] = {{"hidden_act", "\"gelu\" \"gelu_fast\" \"gelu_new\""}};
constexpr GgufSetting kBertSettings[] = {{"hidden_act", "\"gelu\""}, {"position_embedding_type", "\"absolute\""}};

constexpr GgufSetting kRobertaSettings[] = {
    {"hidden_act", "\"gelu\""}, {"position_embedding_type", "\"absolute\""}, {"add_cross_attention", "false"}};
/// The second one is that of models with gates.
constexpr GgufSetting kT5Settings[] = {{"feed_forward_proj", "\"relu\" \"gated-gelu\""}};
constexpr GgufSetting kDistilBertSettings[] = {{"activation", "\"gelu\""}};
constexpr GgufSetting kGemma2Settings[] = {{"hidden_activation", "\"gelu_pytorch_tanh\""},
                                           {"attention_bias", "false"},
                                           {"use_bidirectional_attention", "false"}};

constexpr std::string_view kLlamaRules = R"(
[about]
from = "Hugging Face"
to = "llama.cpp"
from_key = "model.embed_tokens.weight"
to_key = "token_embd.weight"
from_prefix = "model."

[[rule]]
rename = [
  ["model.embed_tokens.weight", "token_embd.weight"],
  ["model.norm.weight", "output_norm.weight"],
  ["lm_head.weight", "output.weight"],
  ["model.layers.{#i}.input_layernorm.weight", "blk.{i}.attn_norm.weight"],
  ["model.layers.{#i}.self_attn.q_proj.*", "blk.{i}.attn_q.*"],
  ["model.layers.{#i}.self_attn.k_proj.*", "blk.{i}.attn_k.*"],
  ["model.layers.{#i}.self_attn.v_proj.*", "blk.{i}.attn_v.*"],
  ["model.layers.{#i}.self_attn.o_proj.*", "blk.{i}.attn_output.*"],
  ["model.layers.{#i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"],
  ["model.layers.{#i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"],
  ["model.layers.{#i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight"],
  ["model.layers.{#i}.mlp.gate_proj.*", "blk.{i}.ffn_gate.*"],
  ["model.layers.{#i}.mlp.up_proj.*", "blk.{i}.ffn_up.*"],
  ["model.layers.{#i}.mlp.down_proj.*", "blk.{i}.ffn_down.*"],
]
)";

/// llama.cpp turns neighbouring rows of a head of the Llama family, transformers those that are half a head apart.
constexpr std::string_view kLlamaTurns = R"(
[[rule]]
reshape = "blk.*.attn_q.weight"
shape = [@heads@, 2, @half@, @width@]
was = [-1, @width@]
[[rule]]
reshape = "blk.*.attn_k.weight"
shape = [@kv_heads@, 2, @half@, @width@]
was = [-1, @width@]
[[rule]]
transpose = "blk.*.attn_?.weight @ndim=4"
dims = [0, 2, 1, 3]
[[rule]]
reshape = "blk.*.attn_q.weight"
shape = [-1, @width@]
was = [@heads@, @half@, 2, @width@]
[[rule]]
reshape = "blk.*.attn_k.weight"
shape = [-1, @width@]
was = [@kv_heads@, @half@, 2, @width@]
[[rule]]
reshape = "blk.*.attn_q.bias"
shape = [@heads@, 2, @half@]
was = [-1]
[[rule]]
reshape = "blk.*.attn_k.bias"
shape = [@kv_heads@, 2, @half@]
was = [-1]
[[rule]]
transpose = "blk.*.attn_?.bias @ndim=3"
dims = [0, 2, 1]
[[rule]]
reshape = "blk.*.attn_q.bias"
shape = [-1]
was = [@heads@, @half@, 2]
[[rule]]
reshape = "blk.*.attn_k.bias"
shape = [-1]
was = [@kv_heads@, @half@, 2]
)";

constexpr std::string_view kPhi3Rules = R"(
[about]
from = "Hugging Face"
to = "llama.cpp"
from_key = "model.embed_tokens.weight"
to_key = "token_embd.weight"
from_prefix = "model."

[[rule]]
rename = [
  ["model.embed_tokens.weight", "token_embd.weight"],
  ["model.norm.weight", "output_norm.weight"],
  ["lm_head.weight", "output.weight"],
  ["model.layers.{#i}.input_layernorm.weight", "blk.{i}.attn_norm.weight"],
  ["model.layers.{#i}.self_attn.qkv_proj.weight", "blk.{i}.attn_qkv.weight"],
  ["model.layers.{#i}.self_attn.o_proj.weight", "blk.{i}.attn_output.weight"],
  ["model.layers.{#i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight"],
  ["model.layers.{#i}.mlp.gate_up_proj.weight", "blk.{i}.ffn_up.weight"],
  ["model.layers.{#i}.mlp.down_proj.weight", "blk.{i}.ffn_down.weight"],
]
)";

constexpr std::string_view kGpt2Rules = R"(
[about]
from = "Hugging Face"
to = "llama.cpp"
from_key = "transformer.wte.weight"
to_key = "token_embd.weight"
from_prefix = "transformer."

[[rule]]
rename = [
  ["transformer.wte.weight", "token_embd.weight"],
  ["transformer.wpe.weight", "position_embd.weight"],
  ["transformer.ln_f.*", "output_norm.*"],
  ["lm_head.weight", "output.weight"],
  ["transformer.h.{#i}.ln_1.*", "blk.{i}.attn_norm.*"],
  ["transformer.h.{#i}.attn.c_attn.*", "blk.{i}.attn_qkv.*"],
  ["transformer.h.{#i}.attn.c_proj.*", "blk.{i}.attn_output.*"],
  ["transformer.h.{#i}.ln_2.*", "blk.{i}.ffn_norm.*"],
  ["transformer.h.{#i}.mlp.c_fc.*", "blk.{i}.ffn_up.*"],
  ["transformer.h.{#i}.mlp.c_proj.*", "blk.{i}.ffn_down.*"],
]
[[rule]]
transpose = "blk.*.weight @ndim=2"
dims = [1, 0]
)";

/// transformers keeps query, key and value of one head together, llama.cpp the queries of all heads.
constexpr std::string_view kGptNeoxRules = R"(
[about]
from = "Hugging Face"
to = "llama.cpp"
from_key = "gpt_neox.embed_in.weight"
to_key = "token_embd.weight"
from_prefix = "gpt_neox."

[[rule]]
rename = [
  ["gpt_neox.embed_in.weight", "token_embd.weight"],
  ["gpt_neox.final_layer_norm.*", "output_norm.*"],
  ["embed_out.weight", "output.weight"],
  ["gpt_neox.layers.{#i}.input_layernorm.*", "blk.{i}.attn_norm.*"],
  ["gpt_neox.layers.{#i}.attention.query_key_value.*", "blk.{i}.attn_qkv.*"],
  ["gpt_neox.layers.{#i}.attention.dense.*", "blk.{i}.attn_output.*"],
  ["gpt_neox.layers.{#i}.post_attention_layernorm.*", "blk.{i}.ffn_norm.*"],
  ["gpt_neox.layers.{#i}.mlp.dense_h_to_4h.*", "blk.{i}.ffn_up.*"],
  ["gpt_neox.layers.{#i}.mlp.dense_4h_to_h.*", "blk.{i}.ffn_down.*"],
]
[[rule]]
reshape = "blk.*.attn_qkv.weight"
shape = [@heads@, 3, @head_dim@, @width@]
was = [-1, @width@]
[[rule]]
transpose = "blk.*.attn_qkv.weight"
dims = [1, 0, 2, 3]
[[rule]]
reshape = "blk.*.attn_qkv.weight"
shape = [-1, @width@]
was = [3, @heads@, @head_dim@, @width@]
[[rule]]
reshape = "blk.*.attn_qkv.bias"
shape = [@heads@, 3, @head_dim@]
was = [-1]
[[rule]]
transpose = "blk.*.attn_qkv.bias"
dims = [1, 0, 2]
[[rule]]
reshape = "blk.*.attn_qkv.bias"
shape = [-1]
was = [3, @heads@, @head_dim@]
)";

constexpr std::string_view kBertRules = R"(
[about]
from = "Hugging Face"
to = "llama.cpp"
from_key = "embeddings.word_embeddings.weight"
to_key = "token_embd.weight"

[[rule]]
rename = [
  ["embeddings.word_embeddings.weight", "token_embd.weight"],
  ["embeddings.position_embeddings.weight", "position_embd.weight"],
  ["embeddings.token_type_embeddings.weight", "token_types.weight"],
  ["embeddings.LayerNorm.*", "token_embd_norm.*"],
  ["encoder.layer.{#i}.attention.self.query.*", "blk.{i}.attn_q.*"],
  ["encoder.layer.{#i}.attention.self.key.*", "blk.{i}.attn_k.*"],
  ["encoder.layer.{#i}.attention.self.value.*", "blk.{i}.attn_v.*"],
  ["encoder.layer.{#i}.attention.output.dense.*", "blk.{i}.attn_output.*"],
  ["encoder.layer.{#i}.attention.output.LayerNorm.*", "blk.{i}.attn_output_norm.*"],
  ["encoder.layer.{#i}.intermediate.dense.*", "blk.{i}.ffn_up.*"],
  ["encoder.layer.{#i}.output.dense.*", "blk.{i}.ffn_down.*"],
  ["encoder.layer.{#i}.output.LayerNorm.*", "blk.{i}.layer_output_norm.*"],
]
)";

constexpr std::string_view kDistilBertRules = R"(
[about]
from = "Hugging Face"
to = "llama.cpp"
from_key = "embeddings.word_embeddings.weight"
to_key = "token_embd.weight"

[[rule]]
rename = [
  ["embeddings.word_embeddings.weight", "token_embd.weight"],
  ["embeddings.position_embeddings.weight", "position_embd.weight"],
  ["embeddings.LayerNorm.*", "token_embd_norm.*"],
  ["transformer.layer.{#i}.attention.q_lin.*", "blk.{i}.attn_q.*"],
  ["transformer.layer.{#i}.attention.k_lin.*", "blk.{i}.attn_k.*"],
  ["transformer.layer.{#i}.attention.v_lin.*", "blk.{i}.attn_v.*"],
  ["transformer.layer.{#i}.attention.out_lin.*", "blk.{i}.attn_output.*"],
  ["transformer.layer.{#i}.sa_layer_norm.*", "blk.{i}.attn_output_norm.*"],
  ["transformer.layer.{#i}.ffn.lin1.*", "blk.{i}.ffn_up.*"],
  ["transformer.layer.{#i}.ffn.lin2.*", "blk.{i}.ffn_down.*"],
  ["transformer.layer.{#i}.output_layer_norm.*", "blk.{i}.layer_output_norm.*"],
]
)";

constexpr std::string_view kGemma2Rules = R"(
[about]
from = "Hugging Face"
to = "llama.cpp"
from_key = "model.embed_tokens.weight"
to_key = "token_embd.weight"
from_prefix = "model."

[[rule]]
rename = [
  ["model.embed_tokens.weight", "token_embd.weight"],
  ["model.norm.weight", "output_norm.weight"],
  ["model.layers.{#i}.input_layernorm.weight", "blk.{i}.attn_norm.weight"],
  ["model.layers.{#i}.self_attn.q_proj.weight", "blk.{i}.attn_q.weight"],
  ["model.layers.{#i}.self_attn.k_proj.weight", "blk.{i}.attn_k.weight"],
  ["model.layers.{#i}.self_attn.v_proj.weight", "blk.{i}.attn_v.weight"],
  ["model.layers.{#i}.self_attn.o_proj.weight", "blk.{i}.attn_output.weight"],
  ["model.layers.{#i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"],
  ["model.layers.{#i}.pre_feedforward_layernorm.weight", "blk.{i}.ffn_norm.weight"],
  ["model.layers.{#i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight"],
  ["model.layers.{#i}.mlp.gate_proj.weight", "blk.{i}.ffn_gate.weight"],
  ["model.layers.{#i}.mlp.up_proj.weight", "blk.{i}.ffn_up.weight"],
  ["model.layers.{#i}.mlp.down_proj.weight", "blk.{i}.ffn_down.weight"],
]
)";

/// Heads that tell texts apart. Of BERT llama.cpp has no pooler, and the head by the name that its labels give it.
constexpr std::string_view kBertHead = R"([[rule]]
rename = [["classifier.*", "@classes@.*"]]
)";
constexpr std::string_view kDistilBertHead = R"([[rule]]
rename = [
  ["pre_classifier.weight", "cls.weight"], ["pre_classifier.bias", "cls.bias"],
  ["classifier.weight", "cls.output.weight"], ["classifier.bias", "cls.output.bias"],
]
)";
constexpr std::string_view kRobertaHead = R"([[rule]]
rename = [
  ["classifier.dense.weight", "cls.weight"], ["classifier.dense.bias", "cls.bias"],
  ["classifier.out_proj.weight", "cls.output.weight"], ["classifier.out_proj.bias", "cls.output.bias"],
]
)";

constexpr std::string_view kT5Rules = R"(
[about]
from = "Hugging Face"
to = "llama.cpp"
from_key = "shared.weight"
to_key = "token_embd.weight"

[[rule]]
rename = [
  ["shared.weight", "token_embd.weight"], ["lm_head.weight", "output.weight"],
  ["encoder.final_layer_norm.weight", "enc.output_norm.weight"],
  ["encoder.block.{#i}.layer.0.layer_norm.weight", "enc.blk.{i}.attn_norm.weight"],
  ["encoder.block.{#i}.layer.0.SelfAttention.relative_attention_bias.weight", "enc.blk.{i}.attn_rel_b.weight"],
  ["encoder.block.{#i}.layer.0.SelfAttention.q.weight", "enc.blk.{i}.attn_q.weight"],
  ["encoder.block.{#i}.layer.0.SelfAttention.k.weight", "enc.blk.{i}.attn_k.weight"],
  ["encoder.block.{#i}.layer.0.SelfAttention.v.weight", "enc.blk.{i}.attn_v.weight"],
  ["encoder.block.{#i}.layer.0.SelfAttention.o.weight", "enc.blk.{i}.attn_o.weight"],
  ["encoder.block.{#i}.layer.1.layer_norm.weight", "enc.blk.{i}.ffn_norm.weight"],
  ["encoder.block.{#i}.layer.1.DenseReluDense.wi_0.weight", "enc.blk.{i}.ffn_gate.weight"],
  ["encoder.block.{#i}.layer.1.DenseReluDense.@up@.weight", "enc.blk.{i}.ffn_up.weight"],
  ["encoder.block.{#i}.layer.1.DenseReluDense.wo.weight", "enc.blk.{i}.ffn_down.weight"],
  ["decoder.final_layer_norm.weight", "dec.output_norm.weight"],
  ["decoder.block.{#i}.layer.0.layer_norm.weight", "dec.blk.{i}.attn_norm.weight"],
  ["decoder.block.{#i}.layer.0.SelfAttention.relative_attention_bias.weight", "dec.blk.{i}.attn_rel_b.weight"],
  ["decoder.block.{#i}.layer.0.SelfAttention.q.weight", "dec.blk.{i}.attn_q.weight"],
  ["decoder.block.{#i}.layer.0.SelfAttention.k.weight", "dec.blk.{i}.attn_k.weight"],
  ["decoder.block.{#i}.layer.0.SelfAttention.v.weight", "dec.blk.{i}.attn_v.weight"],
  ["decoder.block.{#i}.layer.0.SelfAttention.o.weight", "dec.blk.{i}.attn_o.weight"],
  ["decoder.block.{#i}.layer.1.layer_norm.weight", "dec.blk.{i}.cross_attn_norm.weight"],
  ["decoder.block.{#i}.layer.1.EncDecAttention.relative_attention_bias.weight", "dec.blk.{i}.cross_attn_rel_b.weight"],
  ["decoder.block.{#i}.layer.1.EncDecAttention.q.weight", "dec.blk.{i}.cross_attn_q.weight"],
  ["decoder.block.{#i}.layer.1.EncDecAttention.k.weight", "dec.blk.{i}.cross_attn_k.weight"],
  ["decoder.block.{#i}.layer.1.EncDecAttention.v.weight", "dec.blk.{i}.cross_attn_v.weight"],
  ["decoder.block.{#i}.layer.1.EncDecAttention.o.weight", "dec.blk.{i}.cross_attn_o.weight"],
  ["decoder.block.{#i}.layer.2.layer_norm.weight", "dec.blk.{i}.ffn_norm.weight"],
  ["decoder.block.{#i}.layer.2.DenseReluDense.wi_0.weight", "dec.blk.{i}.ffn_gate.weight"],
  ["decoder.block.{#i}.layer.2.DenseReluDense.@up@.weight", "dec.blk.{i}.ffn_up.weight"],
  ["decoder.block.{#i}.layer.2.DenseReluDense.wo.weight", "dec.blk.{i}.ffn_down.weight"],
]
)";

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "llama",
     .model_type = "llama",
     .classes = kLlamaClasses,
     .fields = kLlamaFields,
     .settings = kSilu,
     .rules = kLlamaRules,
     .left_out = "*.rotary_emb.inv_freq",
     .turns = kLlamaTurns,
     .spare_biases = "*_proj.bias",
     .sentence_pieces = true},
    {.name = "qwen2",
     .model_type = "qwen2",
     .classes = kQwen2Classes,
     .fields = kQwen2Fields,
     .settings = kQwen2Settings,
     .rules = kLlamaRules,
     .left_out = "*.rotary_emb.inv_freq",
     .spare_biases = "*.o_proj.bias *.mlp.*_proj.bias",
     .sentence_pieces = true},
    {.name = "qwen3",
     .model_type = "qwen3",
     .classes = kQwen3Classes,
     .fields = kQwen3Fields,
     .settings = kQwen2Settings,
     .rules = kLlamaRules,
     .left_out = "*.rotary_emb.inv_freq",
     .spare_biases = "*_proj.bias",
     .sentence_pieces = true},
    {.name = "phi3",
     .model_type = "phi3",
     .classes = kPhi3Classes,
     .fields = kPhi3Fields,
     .settings = kSilu,
     .rules = kPhi3Rules,
     .left_out = "*.rotary_emb.inv_freq",
     .spare_biases = "*_proj.bias",
     .sentence_pieces = true},
    {.name = "gpt2",
     .model_type = "gpt2",
     .classes = kGpt2Classes,
     .fields = kGpt2Fields,
     .settings = kGpt2Settings,
     .rules = kGpt2Rules,
     .left_out = "*.attn.bias *.attn.masked_bias",
     .tied = true},
    {.name = "gptneox",
     .model_type = "gpt_neox",
     .classes = kGptNeoxClasses,
     .fields = kGptNeoxFields,
     .settings = kGptNeoxSettings,
     .rules = kGptNeoxRules,
     .left_out = "*.attention.masked_bias *.attention.bias *.rotary_emb.inv_freq"},
    {.name = "bert",
     .model_type = "bert",
     .classes = kBertClasses,
     .fields = kBertFields,
     .settings = kBertSettings,
     .rules = kBertRules,
     .left_out = "embeddings.position_ids pooler.* cls.*",
     .old_prefix = "bert.",
     .turns = kBertHead,
     .tied = true,
     .has_head = false},
    {.name = "bert",
     .model_type = "distilbert",
     .classes = kDistilBertClasses,
     .fields = kDistilBertFields,
     .settings = kDistilBertSettings,
     .rules = kDistilBertRules,
     .left_out = "vocab_*",
     .old_prefix = "distilbert.",
     .turns = kDistilBertHead,
     .tied = true,
     .has_head = false},
    {.name = "bert",
     .model_type = "roberta",
     .classes = kRobertaClasses,
     .fields = kBertFields,
     .settings = kRobertaSettings,
     .rules = kBertRules,
     .left_out = "embeddings.position_ids pooler.* lm_head.*",
     .old_prefix = "roberta.",
     .turns = kRobertaHead,
     .chopped_positions = true,
     .tied = true,
     .has_head = false},
    {.name = "gemma2",
     .model_type = "gemma2",
     .classes = kGemma2Classes,
     .fields = kGemma2Fields,
     .settings = kGemma2Settings,
     .rules = kGemma2Rules,
     .left_out = "*.rotary_emb.inv_freq lm_head.weight",
     .spare_biases = "*_proj.bias",
     .shifted_norms = true,
     .tied = true,
     .sentence_pieces = true},
    {.name = "t5",
     .model_type = "t5",
     .classes = kT5Classes,
     .fields = kT5Fields,
     .settings = kT5Settings,
     .rules = kT5Rules,
     .left_out = "encoder.embed_tokens.weight decoder.embed_tokens.weight",
     .tied = true,
     .sentence_pieces = true},
};

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() {
  return kArchitectures;
}

const GgufArchitecture* find_gguf_class(std::string_view hub_class) {
  for (const GgufArchitecture& known : kArchitectures) {
    if (std::ranges::find(known.classes, hub_class) != known.classes.end()) return &known;
  }
  return nullptr;
}

const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  for (const GgufArchitecture& known : kArchitectures) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

const GgufArchitecture* find_gguf_architecture(std::string_view name, std::string_view tokenizer, bool token_types) {
  if (name != "bert") return find_gguf_architecture(name);
  return find_gguf_class(tokenizer == "gpt2" ? "RobertaModel" : token_types ? "BertModel" : "DistilBertModel");
}

}  // namespace ckpt::detail

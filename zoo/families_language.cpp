// Models of texts under Hugging Face's names, by the fields of their config.json, and nanoGPT by its arguments.

#include <cmath>

#include "libckpt/io/json.h"
#include "zoo/bert.h"
#include "zoo/distilbert.h"
#include "zoo/family.h"
#include "zoo/gpt2.h"
#include "zoo/gpt_neox.h"
#include "zoo/hf_fields.h"
#include "zoo/llama.h"
#include "zoo/nanogpt.h"

namespace zoo::detail {
namespace {

GPT2Model::Options read_gpt2(Fields& f) {
  GPT2Model::Options o;
  pass_beside(f);
  f.pass({"n_ctx", "pad_token_id", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
          "summary_first_dropout", "id2label", "num_labels"});
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  o.n_positions = f.count("n_positions", o.n_positions);
  o.n_embd = f.count("n_embd", o.n_embd);
  o.n_layer = f.depth("n_layer", o.n_layer);
  o.n_head = f.count("n_head", o.n_head);
  o.n_inner = f.count("n_inner", o.n_inner);
  o.activation = read_activation(f, "activation_function", o.activation);
  o.layer_norm_epsilon = f.number("layer_norm_epsilon", o.layer_norm_epsilon);
  o.resid_pdrop = f.probability("resid_pdrop", o.resid_pdrop);
  o.embd_pdrop = f.probability("embd_pdrop", o.embd_pdrop);
  o.attn_pdrop = f.probability("attn_pdrop", o.attn_pdrop);
  o.scale_attn_weights = f.flag("scale_attn_weights", o.scale_attn_weights);
  o.scale_attn_by_inverse_layer_idx = f.flag("scale_attn_by_inverse_layer_idx", o.scale_attn_by_inverse_layer_idx);
  o.tie_word_embeddings = f.flag("tie_word_embeddings", o.tie_word_embeddings);
  f.only("reorder_and_upcast_attn", "false");
  f.divides("n_head", o.n_head, "n_embd", o.n_embd);
  return o;
}

NanoGPT::Options read_nanogpt(Fields& f) {
  NanoGPT::Options o;
  o.block_size = f.count("block_size", o.block_size);
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  o.n_layer = f.depth("n_layer", o.n_layer);
  o.n_head = f.count("n_head", o.n_head);
  o.n_embd = f.count("n_embd", o.n_embd);
  o.dropout = f.probability("dropout", o.dropout);
  o.bias = f.flag("bias", o.bias);
  const bool exact = f.choice("approximate", "none", {"none", "tanh"}) == "none";
  o.gelu = exact ? core::GeluForm::exact : core::GeluForm::tanh;
  f.divides("n_head", o.n_head, "n_embd", o.n_embd);
  return o;
}

BertOptions read_encoder(Fields& f, BertOptions o) {
  pass_beside(f);
  f.pass({"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
          "pooler_size_per_head", "pooler_type"});
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  read_layers(f, o);
  o.max_position_embeddings = f.count("max_position_embeddings", o.max_position_embeddings);
  o.type_vocab_size = f.count("type_vocab_size", o.type_vocab_size);
  o.num_labels = read_labels(f, o.num_labels);
  o.layer_norm_eps = f.number("layer_norm_eps", o.layer_norm_eps);
  o.pad_token_id = read_padding(f, o.pad_token_id, o.vocab_size);
  o.dropout = f.probability("hidden_dropout_prob", o.dropout);
  o.attention_dropout = f.probability("attention_probs_dropout_prob", o.attention_dropout);
  o.classifier_dropout = f.probability("classifier_dropout", o.dropout);
  o.tie_word_embeddings = f.flag("tie_word_embeddings", o.tie_word_embeddings);
  f.only("position_embedding_type", "\"absolute\"");
  f.divides("num_attention_heads", o.num_attention_heads, "hidden_size", o.hidden_size);
  return o;
}

BertOptions read_bert(Fields& f) {
  return read_encoder(f, {});
}

BertOptions read_roberta(Fields& f) {
  BertOptions o = read_encoder(f, {.vocab_size = 50265, .pad_token_id = 1, .kind = "Roberta"});
  if (o.pad_token_id < 0) f.refuse("pad_token_id", "is null, and positions are counted from it");
  return o;
}

DistilBertOptions read_distilbert(Fields& f) {
  DistilBertOptions o;
  pass_beside(f);
  f.only("tie_weights_", "true");
  f.pass({"qa_dropout", "sinusoidal_pos_embds"});  // the table of positions is in the weights either way
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  o.max_position_embeddings = f.count("max_position_embeddings", o.max_position_embeddings);
  o.n_layers = f.depth("n_layers", o.n_layers);
  o.n_heads = f.count("n_heads", o.n_heads);
  o.dim = f.count("dim", o.dim);
  o.hidden_dim = f.count("hidden_dim", o.hidden_dim);
  o.dropout = f.probability("dropout", o.dropout);
  o.attention_dropout = f.probability("attention_dropout", o.attention_dropout);
  o.seq_classif_dropout = f.probability("seq_classif_dropout", o.seq_classif_dropout);
  o.activation = read_activation(f, "activation", o.activation);
  o.pad_token_id = read_padding(f, o.pad_token_id, o.vocab_size);
  o.num_labels = read_labels(f, o.num_labels);
  o.tie_word_embeddings = f.flag("tie_word_embeddings", o.tie_word_embeddings);
  f.divides("n_heads", o.n_heads, "dim", o.dim);
  return o;
}

void read_rotary_object(Fields& f, std::string_view name, RotaryOptions& o) {
  const auto value = f.value(name);
  if (!value) return;
  const Config config = Config::parse(value->text(), name);
  Fields inner(f.family() + "'s " + std::string(name), config);
  o.type = inner.choice("type", o.type, {"default", "linear", "llama3"});
  o.type = inner.choice("rope_type", o.type, {"default", "linear", "llama3"});
  o.theta = inner.number("rope_theta", o.theta);
  o.part = inner.probability("partial_rotary_factor", o.part);
  o.factor = inner.number("factor", o.factor);
  o.low_freq_factor = inner.number("low_freq_factor", o.low_freq_factor);
  o.high_freq_factor = inner.number("high_freq_factor", o.high_freq_factor);
  o.original_max_position_embeddings =
      inner.count("original_max_position_embeddings", o.original_max_position_embeddings);
  inner.finish();
}

/// As release 5 writes them (rope_parameters) and as those before did (rope_theta, rope_scaling).
RotaryOptions read_rotary(Fields& f, const RotaryOptions& own) {
  RotaryOptions o = own;
  o.theta = f.number("rope_theta", o.theta);
  o.part = f.probability("partial_rotary_factor", o.part);
  read_rotary_object(f, "rope_scaling", o);
  read_rotary_object(f, "rope_parameters", o);
  if (!(o.theta > 0)) f.refuse("rope_theta", "is not above 0");
  if (!(o.factor > 0)) f.refuse("rope_scaling", "has a factor that is not above 0");
  return o;
}

/// Which layers see so many positions and no more.
void read_windows(Fields& f, LlamaOptions& o, std::int64_t window, std::int64_t first_layer) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(o.num_hidden_layers), 0);
  for (std::int64_t i = first_layer; i < o.num_hidden_layers; ++i) windows[static_cast<std::size_t>(i)] = window;
  if (const auto types = f.value("layer_types")) {
    const bool fits = types->root().is(ckpt::JsonView::Kind::array) && types->root().items().size() == windows.size();
    if (!fits) f.refuse("layer_types", "is no list with an entry for every layer");
    std::size_t at = 0;
    for (const ckpt::JsonView& type : types->root().items()) {
      const std::string_view word = type.is(ckpt::JsonView::Kind::text) ? type.as_text() : "";
      if (word != "full_attention" && word != "sliding_attention") {
        f.refuse("layer_types", "has an entry that is neither \"full_attention\" nor \"sliding_attention\"");
      }
      windows[at++] = word == "full_attention" ? 0 : window;
    }
  }
  o.windows = std::move(windows);
}

LlamaOptions read_decoder(Fields& f, LlamaOptions o) {
  pass_beside(f);
  f.pass({"max_position_embeddings", "attention_dropout", "id2label", "num_labels"});
  f.only("pretraining_tp", "1");
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  read_layers(f, o);
  const bool own = o.num_key_value_heads != 0 && !f.is_null("num_key_value_heads");
  const std::int64_t groups = own ? o.num_key_value_heads : o.num_attention_heads;
  o.num_key_value_heads = f.count("num_key_value_heads", groups);
  o.head_dim = f.count("head_dim", o.head_dim);
  o.rms_norm_eps = f.number("rms_norm_eps", o.rms_norm_eps);
  o.tie_word_embeddings = f.flag("tie_word_embeddings", o.tie_word_embeddings);
  o.pad_token_id = read_padding(f, o.pad_token_id, o.vocab_size);
  o.rotary = read_rotary(f, o.rotary);
  if (o.head_dim == 0) f.divides("num_attention_heads", o.num_attention_heads, "hidden_size", o.hidden_size);
  f.divides("num_key_value_heads", o.num_key_value_heads, "num_attention_heads", o.num_attention_heads);
  if (o.head_width() % 2 != 0) f.refuse("head_dim", "is odd, and positions turn pairs of values");
  return o;
}

LlamaOptions read_llama(Fields& f) {
  LlamaOptions o = read_decoder(f, {.num_key_value_heads = 0});
  o.qkv_bias = o.output_bias = f.flag("attention_bias", false);
  o.mlp_bias = f.flag("mlp_bias", false);
  return o;
}

GPTNeoXOptions read_gpt_neox(Fields& f) {
  GPTNeoXOptions o;
  pass_beside(f);
  f.pass({"max_position_embeddings", "classifier_dropout", "pad_token_id", "id2label", "num_labels"});
  f.pass({"attention_probs_dropout_prob", "hidden_dropout_prob"});  // which its code does not read
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  read_layers(f, o);
  o.layer_norm_eps = f.number("layer_norm_eps", o.layer_norm_eps);
  o.hidden_dropout = f.probability("hidden_dropout", o.hidden_dropout);
  o.attention_dropout = f.probability("attention_dropout", o.attention_dropout);
  o.attention_bias = f.flag("attention_bias", o.attention_bias);
  o.use_parallel_residual = f.flag("use_parallel_residual", o.use_parallel_residual);
  o.tie_word_embeddings = f.flag("tie_word_embeddings", o.tie_word_embeddings);
  o.rotary.part = f.probability("rotary_pct", o.rotary.part);  // the names before release 5
  o.rotary.theta = f.number("rotary_emb_base", o.rotary.theta);
  o.rotary = read_rotary(f, o.rotary);
  f.divides("num_attention_heads", o.num_attention_heads, "hidden_size", o.hidden_size);
  return o;
}

LlamaOptions read_mistral(Fields& f) {
  f.only("attention_bias", "false");
  LlamaOptions o = read_decoder(f, {.intermediate_size = 14336, .num_key_value_heads = 8, .kind = "Mistral"});
  read_windows(f, o, f.count("sliding_window", f.is_null("sliding_window") ? 0 : 4096), 0);
  return o;
}

/// Windows of Qwen's decoders: from a layer on, where they are used at all.
void read_late_windows(Fields& f, LlamaOptions& o) {
  f.only("use_mrope", "false");
  const std::int64_t window = f.count("sliding_window", f.is_null("sliding_window") ? 0 : 4096);
  const std::int64_t first = f.count("max_window_layers", 28, 0);
  read_windows(f, o, f.flag("use_sliding_window", false) ? window : 0, first);
}

LlamaOptions read_qwen2(Fields& f) {
  LlamaOptions o =
      read_decoder(f, {.vocab_size = 151936, .intermediate_size = 22016, .kind = "Qwen2", .qkv_bias = true});
  read_late_windows(f, o);
  return o;
}

LlamaOptions read_qwen3(Fields& f) {
  LlamaOptions o =
      read_decoder(f, {.vocab_size = 151936, .intermediate_size = 22016, .head_dim = 128, .kind = "Qwen3"});
  o.qkv_bias = o.output_bias = f.flag("attention_bias", false);
  o.head_norm = true;
  read_late_windows(f, o);
  return o;
}

LlamaOptions read_phi3(Fields& f) {
  f.pass({"original_max_position_embeddings", "embd_pdrop"});
  f.only("attention_bias", "false");
  LlamaOptions o = read_decoder(f, {.vocab_size = 32064,
                                    .hidden_size = 3072,
                                    .intermediate_size = 8192,
                                    .num_key_value_heads = 0,
                                    .rms_norm_eps = 1e-5,
                                    .pad_token_id = 32000,
                                    .kind = "Phi3",
                                    .fused = true});
  o.resid_pdrop = f.probability("resid_pdrop", 0);
  read_windows(f, o, f.count("sliding_window", 0), 0);
  return o;
}

/// Every other layer sees a window, the first too, and the name of the activation has a field of its own.
LlamaOptions read_gemma2(Fields& f) {
  f.pass({"hidden_act", "cache_implementation"});
  f.only("use_bidirectional_attention", "false");
  LlamaOptions o = read_decoder(f, {.vocab_size = 256000,
                                    .hidden_size = 2304,
                                    .intermediate_size = 9216,
                                    .num_hidden_layers = 26,
                                    .num_attention_heads = 8,
                                    .num_key_value_heads = 4,
                                    .head_dim = 256,
                                    .tie_word_embeddings = true,
                                    .pad_token_id = 0,
                                    .kind = "Gemma2",
                                    .gemma = true});
  o.hidden_act = read_activation(f, "hidden_activation", "gelu_pytorch_tanh");
  o.qkv_bias = o.output_bias = f.flag("attention_bias", false);
  const double wide = f.number("query_pre_attn_scalar", 256);
  if (!(wide > 0)) f.refuse("query_pre_attn_scalar", "is not above 0");
  o.attention_scale = 1 / std::sqrt(wide);
  o.attention_cap = f.number("attn_logit_softcapping", f.is_null("attn_logit_softcapping") ? 0 : 50);
  o.logit_cap = f.number("final_logit_softcapping", f.is_null("final_logit_softcapping") ? 0 : 30);
  const std::int64_t window = f.count("sliding_window", f.is_null("sliding_window") ? 0 : 4096);
  read_windows(f, o, window, 0);
  if (f.has("layer_types")) return o;
  for (std::size_t i = 1; i < o.windows.size(); i += 2) o.windows[i] = 0;
  return o;
}

using enum Input;
using enum Answer;

constexpr Family kFamilies[] = {
    {"GPT2LMHeadModel", tokens, next_token, made<GPT2LMHeadModel, read_gpt2>, "vocab_size"},
    {"GPT2Model", tokens, values, made<GPT2Model, read_gpt2>},
    {"GPT", tokens, next_token, made<NanoGPT, read_nanogpt>, "vocab_size"},
    {"BertModel", tokens, values, made<BertModel, read_bert>},
    {"BertForMaskedLM", tokens, hidden_tokens, made<BertForMaskedLM, read_bert>, "vocab_size"},
    {"BertForPreTraining", tokens, hidden_tokens, made<BertForPreTraining, read_bert>, "vocab_size"},
    {"BertForSequenceClassification", tokens, classes, made<BertForSequenceClassification, read_bert>, "num_labels"},
    {"LlamaForCausalLM", tokens, next_token, made<LlamaForCausalLM, read_llama>, "vocab_size"},
    {"RobertaModel", tokens, values, made<BertModel, read_roberta>},
    {"RobertaForMaskedLM", tokens, hidden_tokens, made<RobertaForMaskedLM, read_roberta>, "vocab_size"},
    {"RobertaForSequenceClassification", tokens, classes, made<RobertaForSequenceClassification, read_roberta>,
     "num_labels"},
    {"DistilBertModel", tokens, values, made<DistilBertModel, read_distilbert>},
    {"DistilBertForMaskedLM", tokens, hidden_tokens, made<DistilBertForMaskedLM, read_distilbert>, "vocab_size"},
    {"DistilBertForSequenceClassification", tokens, classes, made<DistilBertForSequenceClassification, read_distilbert>,
     "num_labels"},
    {"GPTNeoXForCausalLM", tokens, next_token, made<GPTNeoXForCausalLM, read_gpt_neox>, "vocab_size"},
    {"MistralForCausalLM", tokens, next_token, made<LlamaForCausalLM, read_mistral>, "vocab_size"},
    {"Qwen2ForCausalLM", tokens, next_token, made<LlamaForCausalLM, read_qwen2>, "vocab_size"},
    {"Qwen3ForCausalLM", tokens, next_token, made<LlamaForCausalLM, read_qwen3>, "vocab_size"},
    {"Phi3ForCausalLM", tokens, next_token, made<LlamaForCausalLM, read_phi3>, "vocab_size"},
    {"Gemma2ForCausalLM", tokens, next_token, made<LlamaForCausalLM, read_gemma2>, "vocab_size"},
};

}  // namespace

std::span<const Family> language_families() {
  return kFamilies;
}

}  // namespace zoo::detail

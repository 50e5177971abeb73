// Models that take two inputs, and their parts, under Hugging Face's names, by the fields of their config.json.

#include <string>

#include "libckpt/io/json.h"
#include "zoo/clip.h"
#include "zoo/family.h"
#include "zoo/hf_fields.h"
#include "zoo/t5.h"
#include "zoo/whisper.h"

namespace zoo::detail {
namespace {

/// An activation, or one of a gate, where "gelu" is the approximate form.
void read_feed_forward(Fields& f, T5Options& o) {
  o.activation = f.choice("feed_forward_proj", "relu",
                          {"relu", "gelu", "gelu_new", "silu", "gated-relu", "gated-gelu", "gated-silu"});
  o.gated = o.activation.starts_with("gated-");
  if (o.gated) o.activation = o.activation == "gated-gelu" ? "gelu_new" : o.activation.substr(6);
}

T5Options read_t5(Fields& f) {
  T5Options o;
  pass_around(f);
  f.only("is_decoder", "false");
  // What follows from feed_forward_proj, and what the models were trained with; no number of positions holds them.
  f.pass({"is_encoder_decoder", "n_positions", "initializer_factor", "pad_token_id", "dense_act_fn", "is_gated_act",
          "classifier_dropout", "id2label", "num_labels"});
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  o.d_model = f.count("d_model", o.d_model);
  o.d_kv = f.count("d_kv", o.d_kv);
  o.d_ff = f.count("d_ff", o.d_ff);
  o.num_layers = f.depth("num_layers", o.num_layers);
  o.num_decoder_layers = f.depth("num_decoder_layers", o.num_layers);
  o.num_heads = f.count("num_heads", o.num_heads);
  o.buckets = f.count("relative_attention_num_buckets", o.buckets, 4);
  o.max_distance = f.count("relative_attention_max_distance", o.max_distance);
  o.dropout = f.probability("dropout_rate", o.dropout);
  o.layer_norm_epsilon = f.number("layer_norm_epsilon", o.layer_norm_epsilon);
  read_feed_forward(f, o);
  o.scale_outputs = f.flag("scale_decoder_outputs", true);
  if (!f.flag("tie_word_embeddings", true)) o.scale_outputs = false;
  o.own_head = f.flag("own_lm_head", false);
  if (o.max_distance <= o.buckets / 2) f.refuse("relative_attention_max_distance", "is within the exact buckets");
  return o;
}

CLIPTowerOptions read_tower(Fields& f, CLIPTowerOptions o) {
  pass_around(f);
  f.pass({"initializer_factor", "pad_token_id", "dropout", "is_encoder_decoder", "is_decoder", "add_cross_attention",
          "bad_words_ids", "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "id2label"});
  read_layers(f, o);
  o.projection_dim = f.count("projection_dim", o.projection_dim);
  o.layer_norm_eps = f.number("layer_norm_eps", o.layer_norm_eps);
  o.attention_dropout = f.probability("attention_dropout", o.attention_dropout);
  f.divides("num_attention_heads", o.num_attention_heads, "hidden_size", o.hidden_size);
  return o;
}

CLIPTowerOptions read_text_tower(Fields& f) {
  const auto end = f.value("eos_token_id");
  CLIPTowerOptions o = read_tower(f, {});
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  o.max_position_embeddings = f.count("max_position_embeddings", o.max_position_embeddings);
  if (end && !end->root().is(ckpt::JsonView::Kind::integer)) f.refuse("eos_token_id", "is no single number");
  if (end) o.eos_token_id = end->root().as_integer();
  return o;
}

CLIPTowerOptions read_vision_tower(Fields& f) {
  CLIPTowerOptions o = read_tower(f, CLIPOptions().vision);
  f.pass({"num_labels"});
  o.num_channels = f.count("num_channels", o.num_channels);
  o.image_size = f.square("image_size", o.image_size);
  o.patch_size = f.square("patch_size", o.patch_size);
  if (o.image_size < o.patch_size) f.refuse("patch_size", "is larger than 'image_size'");
  return o;
}

/// A tower's fields stand in an object of their own; older files have those that differ from the usual ones in another.
template <auto read>
void read_part(Fields& f, const std::string& name, CLIPTowerOptions& o) {
  Config config;
  for (const std::string& part : {name, name + "_dict"}) {
    if (const auto value = f.value(part)) config = config.with(Config::parse(value->text(), part));
  }
  Fields inner(f.family() + "'s " + name, config);
  o = read(inner);
  inner.finish();
}

CLIPOptions read_clip(Fields& f) {
  CLIPOptions o;
  pass_around(f);
  f.pass({"initializer_factor", "is_encoder_decoder", "is_decoder", "add_cross_attention"});
  read_part<read_text_tower>(f, "text_config", o.text);
  read_part<read_vision_tower>(f, "vision_config", o.vision);
  o.projection_dim = f.count("projection_dim", o.projection_dim);
  o.logit_scale = f.number("logit_scale_init_value", o.logit_scale);
  o.num_labels = read_labels(f, o.num_labels);
  return o;
}

/// Layers that are left out of steps of training.
void refuse_layerdrop(Fields& f, std::string_view name) {
  if (f.number(name, 0) != 0) f.refuse(name, "is not 0, and no layer is left out in training here");
}

WhisperOptions read_whisper(Fields& f) {
  WhisperOptions o;
  pass_around(f);
  f.only("apply_spec_augment", "false");
  refuse_layerdrop(f, "encoder_layerdrop");
  refuse_layerdrop(f, "decoder_layerdrop");
  // Initial values, what follows from the others, generation, masks for training, and classes of sounds.
  f.pass({"is_encoder_decoder", "is_decoder", "init_std", "scale_embedding", "num_hidden_layers", "suppress_tokens",
          "begin_suppress_tokens", "forced_decoder_ids", "mask_time_prob", "mask_time_length", "mask_time_min_masks",
          "mask_feature_prob", "mask_feature_length", "mask_feature_min_masks", "use_weighted_layer_sum",
          "classifier_proj_size", "median_filter_width", "id2label", "num_labels"});
  o.vocab_size = f.count("vocab_size", o.vocab_size);
  o.num_mel_bins = f.count("num_mel_bins", o.num_mel_bins);
  o.d_model = f.count("d_model", o.d_model, 4);
  o.encoder_layers = f.depth("encoder_layers", o.encoder_layers);
  o.encoder_attention_heads = f.count("encoder_attention_heads", o.encoder_attention_heads);
  o.encoder_ffn_dim = f.count("encoder_ffn_dim", o.encoder_ffn_dim);
  o.decoder_layers = f.depth("decoder_layers", o.decoder_layers);
  o.decoder_attention_heads = f.count("decoder_attention_heads", o.decoder_attention_heads);
  o.decoder_ffn_dim = f.count("decoder_ffn_dim", o.decoder_ffn_dim);
  o.max_source_positions = f.count("max_source_positions", o.max_source_positions);
  o.max_target_positions = f.count("max_target_positions", o.max_target_positions);
  o.pad_token_id = read_padding(f, o.pad_token_id, o.vocab_size);
  o.activation_function = read_activation(f, "activation_function", o.activation_function);
  o.dropout = f.probability("dropout", o.dropout);
  o.attention_dropout = f.probability("attention_dropout", o.attention_dropout);
  o.activation_dropout = f.probability("activation_dropout", o.activation_dropout);
  o.tie_word_embeddings = f.flag("tie_word_embeddings", o.tie_word_embeddings);
  f.divides("encoder_attention_heads", o.encoder_attention_heads, "d_model", o.d_model);
  f.divides("decoder_attention_heads", o.decoder_attention_heads, "d_model", o.d_model);
  if (o.d_model % 2 != 0) f.refuse("d_model", "is odd, and positions are sines beside cosines");
  return o;
}

using enum Input;
using enum Answer;

constexpr Family kFamilies[] = {
    {"T5ForConditionalGeneration", tokens, next_token, made<T5ForConditionalGeneration, read_t5>, "vocab_size"},
    {"T5EncoderModel", tokens, values, made<T5EncoderModel, read_t5>},
    {"WhisperModel", numbers, values, made<WhisperModel, read_whisper>},
    {"WhisperForConditionalGeneration", numbers, values, made<WhisperForConditionalGeneration, read_whisper>},
    {"CLIPModel", numbers, values, made<CLIPModel, read_clip>},
    {"CLIPTextModel", tokens, values, made<CLIPTextModel, read_text_tower>},
    {"CLIPTextModelWithProjection", tokens, values, made<CLIPTextModelWithProjection, read_text_tower>},
    {"CLIPVisionModel", images, values, made<CLIPVisionModel, read_vision_tower>, {}, "num_channels"},
    {"CLIPVisionModelWithProjection",
     images,
     values,
     made<CLIPVisionModelWithProjection, read_vision_tower>,
     {},
     "num_channels"},
    {"CLIPForImageClassification", images, classes, made<CLIPForImageClassification, read_clip>, "num_labels"},
};

}  // namespace

std::span<const Family> pair_families() {
  return kFamilies;
}

}  // namespace zoo::detail

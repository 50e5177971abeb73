#include "zoo/measure.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "libcore/base/text.h"

namespace zoo {
namespace {

constexpr int kLayers = -1;   ///< how many keys there are in a row: the number stands where the key has a '#'
constexpr int kPresent = -2;  ///< true where the key is there
constexpr int kAbsent = -3;   ///< true where it is not

/// A field, and the size that says it.
struct Row {
  std::string_view family;  ///< what the names of families begin with
  std::string_view field, key;
  int dim;  ///< of the key's shape, or one of the above
};

// clang-format off
constexpr Row kRows[] = {
    {"GPT2", "n_embd", "wte.weight", 1},
    {"GPT2", "vocab_size", "wte.weight", 0},
    {"GPT2", "n_positions", "wpe.weight", 0},
    {"GPT2", "n_layer", "h.#.ln_1.weight", kLayers},
    {"GPT2", "n_inner", "h.0.mlp.c_fc.weight", 1},
    {"Bert", "hidden_size", "embeddings.word_embeddings.weight", 1},
    {"Bert", "vocab_size", "embeddings.word_embeddings.weight", 0},
    {"Bert", "max_position_embeddings", "embeddings.position_embeddings.weight", 0},
    {"Bert", "type_vocab_size", "embeddings.token_type_embeddings.weight", 0},
    {"Bert", "num_hidden_layers", "encoder.layer.#.attention.self.query.weight", kLayers},
    {"Bert", "intermediate_size", "encoder.layer.0.intermediate.dense.weight", 0},
    {"BertForSequence", "num_labels", "classifier.weight", 0},
    {"RobertaForSequence", "num_labels", "classifier.out_proj.weight", 0},
    {"DistilBert", "dim", "embeddings.word_embeddings.weight", 1},
    {"DistilBert", "vocab_size", "embeddings.word_embeddings.weight", 0},
    {"DistilBert", "max_position_embeddings", "embeddings.position_embeddings.weight", 0},
    {"DistilBert", "n_layers", "transformer.layer.#.attention.q_lin.weight", kLayers},
    {"DistilBert", "hidden_dim", "transformer.layer.0.ffn.lin1.weight", 0},
    {"DistilBertForSequence", "num_labels", "classifier.weight", 0},
    {"Llama", "attention_bias", "layers.0.self_attn.q_proj.bias", kPresent},
    {"Llama", "mlp_bias", "layers.0.mlp.up_proj.bias", kPresent},
    {"Qwen3", "attention_bias", "layers.0.self_attn.q_proj.bias", kPresent},
    {"Gemma2", "attention_bias", "layers.0.self_attn.q_proj.bias", kPresent},
    {"Qwen3", "head_dim", "layers.0.self_attn.q_norm.weight", 0},
    {"GPTNeoX", "hidden_size", "embed_in.weight", 1},
    {"GPTNeoX", "vocab_size", "embed_in.weight", 0},
    {"GPTNeoX", "num_hidden_layers", "layers.#.attention.dense.weight", kLayers},
    {"GPTNeoX", "intermediate_size", "layers.0.mlp.dense_h_to_4h.weight", 0},
    {"GPTNeoX", "attention_bias", "layers.0.attention.dense.bias", kPresent},
    {"ViT", "hidden_size", "embeddings.patch_embeddings.projection.weight", 0},
    {"ViT", "num_channels", "embeddings.patch_embeddings.projection.weight", 1},
    {"ViT", "patch_size", "embeddings.patch_embeddings.projection.weight", 2},
    {"ViT", "num_hidden_layers", "layers.#.attention.q_proj.weight", kLayers},
    {"ViT", "intermediate_size", "layers.0.mlp.fc1.weight", 0},
    {"ViT", "qkv_bias", "layers.0.attention.q_proj.bias", kPresent},
    {"ViTFor", "num_labels", "classifier.weight", 0},
    {"DeiTForImageClassification", "num_labels", "classifier.weight", 0},
    {"DeiTForImageClassificationWithTeacher", "num_labels", "cls_classifier.weight", 0},
    {"Dinov2", "hidden_size", "embeddings.patch_embeddings.projection.weight", 0},
    {"Dinov2", "num_channels", "embeddings.patch_embeddings.projection.weight", 1},
    {"Dinov2", "patch_size", "embeddings.patch_embeddings.projection.weight", 2},
    {"Dinov2", "num_hidden_layers", "encoder.layer.#.attention.q_proj.weight", kLayers},
    {"Dinov2", "qkv_bias", "encoder.layer.0.attention.q_proj.bias", kPresent},
    {"Dinov2", "use_swiglu_ffn", "encoder.layer.0.mlp.gate_proj.weight", kPresent},
    {"Dinov2", "use_mask_token", "embeddings.mask_token", kPresent},
    {"Dinov2ForImageClassification", "num_labels", "classifier.weight", 0},
    {"Beit", "hidden_size", "embeddings.patch_embeddings.projection.weight", 0},
    {"Beit", "num_channels", "embeddings.patch_embeddings.projection.weight", 1},
    {"Beit", "patch_size", "embeddings.patch_embeddings.projection.weight", 2},
    {"Beit", "num_hidden_layers", "layers.#.attention.q_proj.weight", kLayers},
    {"Beit", "intermediate_size", "layers.0.mlp.fc1.weight", 0},
    {"Beit", "use_mask_token", "embeddings.mask_token", kPresent},
    {"Beit", "use_absolute_position_embeddings", "embeddings.position_embeddings", kPresent},
    {"Beit", "use_relative_position_bias", "layers.0.relative_position_bias.relative_position_bias_table", kPresent},
    {"Beit", "use_shared_relative_position_bias", "shared_position_bias.relative_position_bias_table", kPresent},
    {"BeitModel", "use_mean_pooling", "pooler.layernorm.weight", kPresent},
    {"BeitForImageClassification", "use_mean_pooling", "pooler.layernorm.weight", kPresent},
    {"BeitForImageClassification", "num_labels", "classifier.weight", 0},
    {"BeitForMaskedImageModeling", "use_mean_pooling", "beit.layernorm.weight", kAbsent},
    {"BeitForMaskedImageModeling", "vocab_size", "lm_head.weight", 0},
    {"CLIPText", "hidden_size", "embeddings.token_embedding.weight", 1},
    {"CLIPText", "vocab_size", "embeddings.token_embedding.weight", 0},
    {"CLIPText", "max_position_embeddings", "embeddings.position_embedding.weight", 0},
    {"CLIPTextModelWithProjection", "projection_dim", "text_projection.weight", 0},
    {"CLIPVision", "hidden_size", "embeddings.patch_embedding.weight", 0},
    {"CLIPVision", "num_channels", "embeddings.patch_embedding.weight", 1},
    {"CLIPVision", "patch_size", "embeddings.patch_embedding.weight", 2},
    {"CLIPVisionModelWithProjection", "projection_dim", "visual_projection.weight", 0},
    {"CLIPText", "num_hidden_layers", "encoder.layers.#.mlp.fc1.weight", kLayers},
    {"CLIPText", "intermediate_size", "encoder.layers.0.mlp.fc1.weight", 0},
    {"CLIPVision", "num_hidden_layers", "encoder.layers.#.mlp.fc1.weight", kLayers},
    {"CLIPVision", "intermediate_size", "encoder.layers.0.mlp.fc1.weight", 0},
    {"Whisper", "d_model", "decoder.embed_tokens.weight", 1},
    {"Whisper", "vocab_size", "decoder.embed_tokens.weight", 0},
    {"Whisper", "num_mel_bins", "encoder.conv1.weight", 1},
    {"Whisper", "encoder_layers", "encoder.layers.#.fc1.weight", kLayers},
    {"Whisper", "encoder_ffn_dim", "encoder.layers.0.fc1.weight", 0},
    {"Whisper", "decoder_layers", "decoder.layers.#.fc1.weight", kLayers},
    {"Whisper", "decoder_ffn_dim", "decoder.layers.0.fc1.weight", 0},
    {"Whisper", "max_source_positions", "encoder.embed_positions.weight", 0},
    {"Whisper", "max_target_positions", "decoder.embed_positions.weight", 0},
    {"T5", "d_model", "shared.weight", 1},
    {"T5", "vocab_size", "shared.weight", 0},
    {"T5", "num_layers", "encoder.block.#.layer.0.layer_norm.weight", kLayers},
    {"T5", "d_ff", "encoder.block.0.layer.1.DenseReluDense.wo.weight", 1},
    {"T5", "num_heads", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 1},
    {"T5", "relative_attention_num_buckets", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 0},
    {"T5ForConditionalGeneration", "num_decoder_layers", "decoder.block.#.layer.0.layer_norm.weight", kLayers},
    {"T5ForConditionalGeneration", "own_lm_head", "lm_head.weight", kPresent},
    {"VisionTransformer", "hidden_dim", "conv_proj.weight", 0},
    {"VisionTransformer", "in_channels", "conv_proj.weight", 1},
    {"VisionTransformer", "patch_size", "conv_proj.weight", 2},
    {"VisionTransformer", "num_layers", "encoder.layers.encoder_layer_#.ln_1.weight", kLayers},
    {"VisionTransformer", "mlp_dim", "encoder.layers.encoder_layer_0.mlp.0.weight", 0},
    {"VisionTransformer", "representation_size", "heads.pre_logits.weight", 0},
    {"VisionTransformer", "num_classes", "heads.head.weight", 0},
    {"DenseNet", "num_init_features", "features.conv0.weight", 0},
    {"DenseNet", "in_channels", "features.conv0.weight", 1},
    {"DenseNet", "growth_rate", "features.denseblock1.denselayer1.conv2.weight", 0},
    {"DenseNet", "num_classes", "classifier.weight", 0},
    {"ResNet", "in_channels", "conv1.weight", 1},
    {"ResNet", "num_classes", "fc.weight", 0},
    {"ConvNeXt", "in_channels", "features.0.0.weight", 1},
    {"ConvNeXt", "num_classes", "classifier.2.weight", 0},
    {"SwinTransformer", "embed_dim", "features.0.0.weight", 0},
    {"SwinTransformer", "in_channels", "features.0.0.weight", 1},
    {"SwinTransformer", "patch_size", "features.0.0.weight", 2},
    {"SwinTransformer", "num_classes", "head.weight", 0},
    {"UNet", "width", "inc.double_conv.0.weight", 0},
    {"UNet", "n_channels", "inc.double_conv.0.weight", 1},
    {"UNet", "n_classes", "outc.conv.weight", 0},
    {"UNet", "bilinear", "up1.up.weight", kAbsent},
    {"UNet", "conv_bias", "inc.double_conv.0.bias", kPresent},
    {"MLP", "inputs", "fc1.weight", 1},
    {"MLP", "hidden", "fc1.weight", 0},
    {"MLP", "classes", "fc2.weight", 0},
};

/// What Llama's like have in common, by the field of each.
constexpr Row kDecoder[] = {
    {"", "hidden_size", "embed_tokens.weight", 1},
    {"", "vocab_size", "embed_tokens.weight", 0},
    {"", "num_hidden_layers", "layers.#.self_attn.o_proj.weight", kLayers},
    {"", "intermediate_size", "layers.0.mlp.down_proj.weight", 1},
    {"", "tie_word_embeddings", "lm_head.weight", kAbsent},
};
// clang-format on

/// Families beside those that a row names whose tensors have the same names.
constexpr std::pair<std::string_view, std::string_view> kAlike[] = {{"Bert", "Roberta"}, {"ViT", "DeiT"}};

bool is_of(const Row& row, std::string_view family) {
  return family.starts_with(row.family) || std::any_of(std::begin(kAlike), std::end(kAlike), [&](const auto& alike) {
           return row.family == alike.first && family.starts_with(alike.second);
         });
}

constexpr std::string_view kDecoders[] = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
                                          "Qwen3ForCausalLM", "Phi3ForCausalLM",    "Gemma2ForCausalLM"};

bool is_decoder(std::string_view family) {
  return std::find(std::begin(kDecoders), std::end(kDecoders), family) != std::end(kDecoders);
}

/// How many keys there are in a row, whose number stands in the place of '#'.
std::int64_t count_in_row(const std::string& key, const ShapeOf& shape_of, std::int64_t first = 0) {
  const std::size_t mark = key.find('#');
  std::int64_t count = 0;
  while (shape_of(key.substr(0, mark) + std::to_string(first + count) + key.substr(mark + 1)) != nullptr) ++count;
  return count;
}

/// A size of the tensor of this name; 0 where it has none such. A file may hold anything under a name.
std::int64_t size_at(const ShapeOf& shape_of, const std::string& key, std::size_t dim) {
  const core::Shape* shape = shape_of(key);
  return shape != nullptr && dim < shape->size() ? (*shape)[dim] : 0;
}

/// What the row's key says, in JSON; "" for nothing.
std::string said(const Row& row, const ShapeOf& shape_of) {
  const std::string key(row.key);
  if (row.dim == kLayers) {
    const std::int64_t count = count_in_row(key, shape_of);
    return count > 0 ? std::to_string(count) : "";
  }
  const core::Shape* shape = shape_of(key);
  if (row.dim == kPresent) return shape != nullptr ? "true" : "false";
  if (row.dim == kAbsent) return shape == nullptr ? "true" : "false";
  if (shape == nullptr || shape->size() <= static_cast<std::size_t>(row.dim)) return "";
  return std::to_string((*shape)[static_cast<std::size_t>(row.dim)]);
}

/// The side of the image that so many positions of patches, beside `tokens` others, come from.
void measure_image(Config& config, const core::Shape* positions, std::int64_t tokens, std::int64_t patch) {
  if (positions == nullptr || positions->size() < 2) return;
  const std::int64_t count = (*positions)[positions->size() - 2];
  if (count <= tokens) return;
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(count - tokens))));
  if (side > 0 && patch <= 1 << 20) config.set("image_size", std::to_string(side * patch));
}

std::string list_of(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::int64_t number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text.empty() ? "[]" : text + "]";
}

/// How many there are in a row, from `first` on, in each of the groups that are numbered from 1: "layer" with
/// ".#.conv1.weight".
std::vector<std::int64_t> counts_of(const std::string& group, const std::string& rest, const ShapeOf& shape_of,
                                    std::int64_t first = 0) {
  std::vector<std::int64_t> counts;
  for (int number = 1;; ++number) {
    const std::int64_t count = count_in_row(group + std::to_string(number) + rest, shape_of, first);
    if (count == 0) return counts;
    counts.push_back(count);
  }
}

void measure_resnet(Config& config, const ShapeOf& shape_of) {
  config.set("layers", list_of(counts_of("layer", ".#.conv1.weight", shape_of)));
  const std::int64_t width = size_at(shape_of, "layer1.0.conv2.weight", 0);
  const std::int64_t in_group = size_at(shape_of, "layer1.0.conv2.weight", 1);
  const bool bottleneck = shape_of("layer1.0.conv3.weight") != nullptr;
  config.set("block", bottleneck ? "\"Bottleneck\"" : "\"BasicBlock\"");
  if (!bottleneck || in_group <= 0) return;
  config.set("groups", std::to_string(width / in_group));
  config.set("width_per_group", std::to_string(in_group));
}

void measure_densenet(Config& config, const ShapeOf& shape_of) {
  config.set("block_config", list_of(counts_of("features.denseblock", ".denselayer#.conv1.weight", shape_of, 1)));
  const std::int64_t wide = size_at(shape_of, "features.denseblock1.denselayer1.conv1.weight", 0);
  const std::int64_t narrow = size_at(shape_of, "features.denseblock1.denselayer1.conv2.weight", 0);
  if (narrow > 0) config.set("bn_size", std::to_string(wide / narrow));
}

/// Stages lie at the odd places, between them what halves the image.
std::string stage_key(int stage, const std::string& rest) {
  return "features." + std::to_string(2 * stage + 1) + "." + rest;
}

void measure_convnext(Config& config, const ShapeOf& shape_of) {
  std::string rows;
  for (int stage = 0;; ++stage) {
    const std::int64_t depth = count_in_row(stage_key(stage, "#.block.0.weight"), shape_of);
    if (depth == 0) break;
    const std::int64_t width = size_at(shape_of, stage_key(stage, "0.block.0.weight"), 0);
    const std::int64_t next = size_at(shape_of, stage_key(stage + 1, "0.block.0.weight"), 0);
    rows += (rows.empty() ? "[[" : ", [") + std::to_string(width) + ", " + (next == 0 ? "null" : std::to_string(next)) +
            ", " + std::to_string(depth) + "]";
  }
  if (!rows.empty()) config.set("block_setting", rows + "]");
}

/// A ratio whose product with `width` is `hidden` or a little more, as the fraction behind it is cut off.
double ratio_of(std::int64_t hidden, std::int64_t width) {
  const double wanted = static_cast<double>(hidden), by = static_cast<double>(width);
  const double ratio = wanted / by;
  return ratio * by < wanted ? std::nextafter(ratio, 2 * ratio) : ratio;
}

/// The table of positions says how many heads there are and how wide a window is: ((2 w - 1)^2, heads).
void measure_swin(Config& config, const ShapeOf& shape_of) {
  std::vector<std::int64_t> depths, heads;
  for (int stage = 0;; ++stage) {
    const std::int64_t depth = count_in_row(stage_key(stage, "#.norm1.weight"), shape_of);
    const std::string table = stage_key(stage, "0.attn.relative_position_bias_table");
    if (depth == 0) break;
    depths.push_back(depth);
    heads.push_back(size_at(shape_of, table, 1));
    const auto side = std::lround(std::sqrt(static_cast<double>(size_at(shape_of, table, 0))));
    config.set("window_size", std::to_string((side + 1) / 2));
  }
  config.set("depths", list_of(depths));
  config.set("num_heads", list_of(heads));
  const std::int64_t hidden = size_at(shape_of, stage_key(0, "0.mlp.0.weight"), 0);
  const std::int64_t width = size_at(shape_of, stage_key(0, "0.mlp.0.weight"), 1);
  if (width > 0) config.set("mlp_ratio", core::python_float(ratio_of(hidden, width)));
}

/// Of Qwen3, whose norms say how wide a head is.
void measure_heads(Config& config, const ShapeOf& shape_of) {
  const std::int64_t head = size_at(shape_of, "layers.0.self_attn.q_norm.weight", 0);
  if (head <= 0) return;
  config.set("num_attention_heads", std::to_string(size_at(shape_of, "layers.0.self_attn.o_proj.weight", 1) / head));
  config.set("num_key_value_heads", std::to_string(size_at(shape_of, "layers.0.self_attn.k_proj.weight", 0) / head));
}

/// Of T5, whose heads have a width of their own, and which has a gate or none.
void measure_t5(Config& config, const ShapeOf& shape_of) {
  const std::int64_t heads =
      size_at(shape_of, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 1);
  const std::int64_t wide = size_at(shape_of, "encoder.block.0.layer.0.SelfAttention.q.weight", 0);
  if (heads > 0 && wide >= heads) config.set("d_kv", std::to_string(wide / heads));
  const bool gated = shape_of("encoder.block.0.layer.1.DenseReluDense.wi_0.weight") != nullptr;
  config.set("feed_forward_proj", gated ? "\"gated-gelu\"" : "\"relu\"");
  config.set("scale_decoder_outputs", gated ? "false" : "true");
}

std::int64_t number_in(const Config& config, std::string_view field) {
  const std::string* json = config.json_of(field);
  return json == nullptr ? 0 : std::stoll(*json);
}

/// Of BEiT, whose tables of distances say how many patches and heads there are.
void measure_beit(Config& config, const ShapeOf& shape_of, std::int64_t patch) {
  config.set("layer_scale_init_value", shape_of("layers.0.lambda_1") != nullptr ? "0.1" : "0.0");
  measure_image(config, shape_of("embeddings.position_embeddings"), 1, patch);
  for (const char* key : {"layers.0.relative_position_bias.relative_position_bias_table",
                          "shared_position_bias.relative_position_bias_table"}) {
    const std::int64_t rows = size_at(shape_of, key, 0), heads = size_at(shape_of, key, 1);
    if (rows < 4 || heads <= 0 || patch > 1 << 20) continue;
    const auto wide = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(rows - 3))));
    config.set("image_size", std::to_string((wide + 1) / 2 * patch));
    config.set("num_attention_heads", std::to_string(heads));
  }
}

/// Of DINOv2, whose gated layers have two thirds of the width that the ratio says, in whole eights.
void measure_ratio(Config& config, const ShapeOf& shape_of) {
  const std::int64_t width = number_in(config, "hidden_size");
  const std::int64_t gate = size_at(shape_of, "encoder.layer.0.mlp.gate_proj.weight", 0);
  const std::int64_t wide = gate > 0 ? gate * 3 / 2 : size_at(shape_of, "encoder.layer.0.mlp.fc1.weight", 0);
  if (width <= 0 || wide < width) return;
  config.set("mlp_ratio", std::to_string(wide / width));
}

void measure_rest(std::string_view family, Config& config, const ShapeOf& shape_of) {
  const std::int64_t patch = number_in(config, "patch_size");
  if (family == "ResNet") measure_resnet(config, shape_of);
  if (family == "DenseNet") measure_densenet(config, shape_of);
  if (family == "ConvNeXt") measure_convnext(config, shape_of);
  if (family == "SwinTransformer") measure_swin(config, shape_of);
  if (family.starts_with("T5")) measure_t5(config, shape_of);
  if (family == "Qwen3ForCausalLM") measure_heads(config, shape_of);
  if (family == "VisionTransformer") measure_image(config, shape_of("encoder.pos_embedding"), 1, patch);
  if (family.starts_with("ViT")) measure_image(config, shape_of("embeddings.position_embeddings"), 1, patch);
  if (family.starts_with("Dinov2")) {
    measure_image(config, shape_of("embeddings.position_embeddings"), 1, patch);
    measure_ratio(config, shape_of);
  }
  if (family.starts_with("Beit")) measure_beit(config, shape_of, patch);
  if (family.starts_with("CLIPVision")) {
    measure_image(config, shape_of("embeddings.position_embedding.weight"), 1, patch);
  }
  if (family.starts_with("DeiT")) measure_image(config, shape_of("embeddings.position_embeddings"), 2, patch);
}

}  // namespace

bool ends_with_key(std::string_view name, std::string_view key) {
  return name.ends_with(key) && (name.size() == key.size() || name[name.size() - key.size() - 1] == '.');
}

std::string_view heads_field(std::string_view family) {
  if (family == "VisionTransformer") return "num_heads";
  if (family.starts_with("GPT2") || family == "GPT") return "n_head";
  if (family.starts_with("DistilBert")) return "n_heads";
  if (family.starts_with("Whisper")) return "encoder_attention_heads";
  for (std::string_view start :
       {"Bert", "Roberta", "GPTNeoX", "ViT", "DeiT", "Dinov2", "Beit", "CLIPText", "CLIPVision"}) {
    if (family.starts_with(start)) return "num_attention_heads";
  }
  return is_decoder(family) ? "num_attention_heads" : "";
}

std::optional<Measured> measure(std::string_view family, const ShapeOf& shape_of) {
  Measured measured;
  auto take = [&](const Row& row) {
    const std::string value = said(row, shape_of);
    if (value.empty()) return false;
    if (measured.width.empty()) measured.width = row.field;
    measured.config.set(std::string(row.field), value);
    return true;
  };
  if (is_decoder(family)) {
    for (const Row& row : kDecoder) {
      if (!take(row)) return std::nullopt;
    }
  }
  for (const Row& row : kRows) {
    // A layer that only some have, such as one before the classifier, may be absent; the first size may not.
    if (is_of(row, family) && !take(row) && measured.width.empty()) return std::nullopt;
  }
  if (measured.width.empty()) return std::nullopt;
  measure_rest(family, measured.config, shape_of);
  const std::string heads(heads_field(family));
  if (!heads.empty() && !measured.config.has(heads)) measured.unsaid.push_back(heads);
  if (family.starts_with("Whisper")) measured.unsaid.emplace_back("decoder_attention_heads");
  if (is_decoder(family)) {
    measured.unsaid.emplace_back("rms_norm_eps");
    measured.unsaid.emplace_back("rope_theta");
    if (family == "Gemma2ForCausalLM") measured.unsaid.emplace_back("query_pre_attn_scalar");
  }
  return measured;
}

}  // namespace zoo

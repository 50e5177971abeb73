#include "zoo/beit.h"

#include <algorithm>
#include <vector>

#include "libcore/module/activation.h"
#include "libcore/module/init.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Tensor;

namespace beit {

BeitEmbeddings::BeitEmbeddings(const BeitOptions& o)
    : cls_token(core::zeros({1, 1, o.vit.hidden_size})), patch_embeddings(o.vit), dropout(o.vit.dropout) {
  const std::int64_t side = o.vit.image_size / o.vit.patch_size;
  if (o.use_mask_token) mask_token = core::Parameter(core::zeros({1, 1, o.vit.hidden_size}));
  if (!o.use_absolute_position_embeddings) return;
  position_embeddings = core::Parameter(core::zeros({1, side * side + 1, o.vit.hidden_size}));
}

void BeitEmbeddings::members(core::Members& m) {
  m.parameter("cls_token", cls_token);
  if (mask_token.defined()) m.parameter("mask_token", mask_token);
  if (position_embeddings.defined()) m.parameter("position_embeddings", position_embeddings);
  m.child("patch_embeddings", patch_embeddings).child("dropout", dropout);
}

Tensor BeitEmbeddings::forward(const Tensor& x) {  // (n, c, h, w)
  const Tensor tokens = core::cat({cls_token.expand({x.size(0), -1, -1}), patch_embeddings(x)}, 1);
  if (!position_embeddings.defined()) return dropout(tokens);
  const std::int64_t patch = patch_embeddings.projection.weight.size(2);
  return dropout(tokens + hf_vit::resized_positions(position_embeddings, x.size(2) / patch, x.size(3) / patch));
}

BeitRelativePositionBias::BeitRelativePositionBias(const BeitOptions& o) : side(o.vit.image_size / o.vit.patch_size) {
  const std::int64_t distances = 2 * side - 1;
  relative_position_bias_table = core::Parameter(core::zeros({distances * distances + 3, o.vit.num_attention_heads}));
}

namespace {

/// The row of the table for each pair of tokens, of which the first is no patch.
std::vector<std::int64_t> rows_of_pairs(std::int64_t rows, std::int64_t columns) {
  const std::int64_t distances = (2 * rows - 1) * (2 * columns - 1), patches = rows * columns;
  std::vector<std::int64_t> found;
  found.push_back(distances + 2);  // the first token to itself, then to the patches
  found.insert(found.end(), static_cast<std::size_t>(patches), distances);
  for (std::int64_t from = 0; from < patches; ++from) {
    found.push_back(distances + 1);
    for (std::int64_t to = 0; to < patches; ++to) {
      const std::int64_t down = from / columns - to / columns + rows - 1;
      const std::int64_t right = from % columns - to % columns + columns - 1;
      found.push_back(down * (2 * columns - 1) + right);
    }
  }
  return found;
}

}  // namespace

Tensor BeitRelativePositionBias::forward(std::int64_t rows, std::int64_t columns) const {
  Tensor table = relative_position_bias_table;  // (distances + 3, heads)
  const std::int64_t wide = 2 * side - 1, distances = wide * wide;
  if (rows != side || columns != side) {
    Tensor image = table.slice(0, 0, distances).reshape({1, wide, wide, -1}).permute({0, 3, 1, 2});
    image = core::interpolate(image, {.size = {2 * rows - 1, 2 * columns - 1}, .mode = "bilinear"});
    const Tensor resized = image.permute({0, 2, 3, 1}).reshape({(2 * rows - 1) * (2 * columns - 1), -1});
    table = core::cat({resized, table.slice(0, distances, distances + 3)}, 0);
  }
  const std::int64_t tokens = rows * columns + 1;
  const Tensor pairs = core::from_values(rows_of_pairs(rows, columns)).to(table.device());
  return core::index_select(table, 0, pairs).reshape({tokens, tokens, -1}).permute({2, 0, 1}).unsqueeze(0);
}

BeitPooler::BeitPooler(const BeitOptions& o) {
  if (!o.use_mean_pooling) return;
  layernorm = std::make_shared<core::LayerNorm>(core::Shape{o.vit.hidden_size},
                                                core::LayerNormOptions{.eps = o.vit.layer_norm_eps});
}

Tensor BeitPooler::forward(const Tensor& x) {
  return layernorm ? (*layernorm)(x.slice(1, 1, x.size(1)).mean({1})) : x.select(1, 0);
}

/// (n, tokens, hidden) -> the same.
struct BeitLayer : core::ModuleOf<BeitLayer> {
  hf_vit::ViTAttention attention;
  core::LayerNorm layernorm_before, layernorm_after;
  hf_vit::ViTMLP mlp;
  core::Dropout dropout;
  std::shared_ptr<core::Module> drop_path;
  core::Parameter lambda_1, lambda_2;  ///< (hidden)
  std::shared_ptr<BeitRelativePositionBias> relative_position_bias;

  BeitLayer(const BeitOptions& o, double drop)
      : attention(o.vit),
        layernorm_before({o.vit.hidden_size}, {.eps = o.vit.layer_norm_eps}),
        layernorm_after({o.vit.hidden_size}, {.eps = o.vit.layer_norm_eps}),
        mlp(o.vit),
        dropout(o.vit.dropout),
        drop_path(detail::drop_path("Beit", drop)) {
    if (o.layer_scale_init_value > 0) {
      lambda_1 = core::Parameter(core::full({o.vit.hidden_size}, o.layer_scale_init_value));
      lambda_2 = core::Parameter(core::full({o.vit.hidden_size}, o.layer_scale_init_value));
    }
    if (o.use_relative_position_bias) relative_position_bias = std::make_shared<BeitRelativePositionBias>(o);
  }
  void members(core::Members& m) override {
    if (lambda_1.defined()) m.parameter("lambda_1", lambda_1).parameter("lambda_2", lambda_2);
    m.child("attention", attention).child("layernorm_before", layernorm_before);
    m.child("layernorm_after", layernorm_after).child("mlp", mlp).child("dropout", dropout);
    m.child("drop_path", drop_path);
    if (relative_position_bias) m.child("relative_position_bias", relative_position_bias);
  }
  /// `shared` is what all layers add to the scores; undefined: nothing.
  Tensor forward(const Tensor& x, const Tensor& shared, std::int64_t rows, std::int64_t columns) {
    Tensor bias = shared;
    if (relative_position_bias) {
      const Tensor own = relative_position_bias->forward(rows, columns);
      bias = bias.defined() ? own + bias : own;
    }
    auto scaled = [](const Tensor& y, const core::Parameter& by) { return by.defined() ? y * by : y; };
    Tensor h = drop_path->call(scaled(dropout(attention(layernorm_before(x), bias)), lambda_1)) + x;
    return drop_path->call(scaled(dropout(mlp(layernorm_after(h))), lambda_2)) + h;
  }
};

}  // namespace beit

BeitModel::BeitModel(const BeitOptions& o, bool pooling) : embeddings(o) {
  if (o.use_shared_relative_position_bias) {
    shared_position_bias = std::make_shared<beit::BeitRelativePositionBias>(o);
  }
  const std::int64_t depth = o.vit.num_hidden_layers;
  const auto steps = static_cast<double>(std::max<std::int64_t>(depth - 1, 1));
  for (std::int64_t i = 0; i < depth; ++i) {
    layers.push_back(beit::BeitLayer(o, o.drop_path_rate * static_cast<double>(i) / steps));
  }
  if (o.use_mean_pooling) {
    layernorm = std::make_shared<core::Identity>();
  } else {
    layernorm = std::make_shared<core::LayerNorm>(core::Shape{o.vit.hidden_size},
                                                  core::LayerNormOptions{.eps = o.vit.layer_norm_eps});
  }
  if (pooling) pooler = std::make_shared<beit::BeitPooler>(o);
  detail::init_language(*this, 0.02);
}

void BeitModel::members(core::Members& m) {
  m.child("embeddings", embeddings);
  if (shared_position_bias) m.child("shared_position_bias", shared_position_bias);
  m.child("layers", layers).child("layernorm", layernorm);
  if (pooler) m.child("pooler", pooler);
}

Tensor BeitModel::forward(const Tensor& x) {
  const std::int64_t patch = embeddings.patch_embeddings.projection.weight.size(2);
  const std::int64_t rows = x.size(2) / patch, columns = x.size(3) / patch;
  const Tensor bias = shared_position_bias ? shared_position_bias->forward(rows, columns) : Tensor();
  Tensor h = embeddings(x);  // (n, patches + 1, hidden)
  for (const auto& layer : layers) h = static_cast<beit::BeitLayer&>(*layer.second)(h, bias, rows, columns);
  return layernorm->call(h);
}

BeitForImageClassification::BeitForImageClassification(const BeitOptions& o)
    : beit(o), classifier(o.vit.hidden_size, o.vit.num_labels) {
  detail::init_language(classifier, 0.02);
}

BeitForMaskedImageModeling::BeitForMaskedImageModeling(const BeitOptions& o)
    : beit(o, false),
      layernorm({o.vit.hidden_size}, {.eps = o.vit.layer_norm_eps}),
      lm_head(o.vit.hidden_size, o.vocab_size) {
  detail::init_language(lm_head, 0.02);
}

Tensor BeitForMaskedImageModeling::forward(const Tensor& x) {
  const Tensor states = layernorm(beit(x));
  return lm_head(states.slice(1, 1, states.size(1)));
}

}  // namespace zoo

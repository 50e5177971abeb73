#include "zoo/convnextv2.h"

#include <memory>

#include "libcore/base/text.h"
#include "libcore/module/activation.h"
#include "libcore/module/init.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Conv2d;
using core::Linear;
using core::Tensor;

namespace convnextv2 {

Tensor ConvNextV2LayerNorm::forward(const Tensor& x) const {
  return first ? norm.forward(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2}) : norm.forward(x);
}

ConvNextV2Embeddings::ConvNextV2Embeddings(const ConvNextV2Options& o)
    : patch_embeddings(o.num_channels, o.hidden_sizes[0], o.patch_size, {.stride = o.patch_size}),
      layernorm(o.hidden_sizes[0], true) {}

/// Each channel scaled by how strong it is beside the others. (n, h, w, c) -> the same.
struct ConvNextV2GRN : core::ModuleOf<ConvNextV2GRN> {
  core::Parameter weight, bias;  ///< (1, 1, 1, c)
  explicit ConvNextV2GRN(std::int64_t channels)
      : weight(core::zeros({1, 1, 1, channels})), bias(core::zeros({1, 1, 1, channels})) {}
  void members(core::Members& m) override { m.parameter("weight", weight).parameter("bias", bias); }
  Tensor forward(const Tensor& x) const {
    Tensor strength = core::sqrt((x * x).sum({1, 2}, true));  // (n, 1, 1, c)
    Tensor share = strength / (strength.mean({-1}, true) + 1e-6);
    return weight * (x * share) + bias + x;
  }
};

/// (n, width, h, w) -> the same.
struct ConvNextV2Layer : core::ModuleOf<ConvNextV2Layer> {
  Conv2d dwconv;
  ConvNextV2LayerNorm layernorm;
  Linear pwconv1;
  std::shared_ptr<core::Module> act;
  ConvNextV2GRN grn;
  Linear pwconv2;
  std::shared_ptr<core::Module> drop_path;

  ConvNextV2Layer(std::int64_t width, float drop, const ConvNextV2Options& o)
      : dwconv(width, width, 7, {.padding = 3, .groups = width}),
        layernorm(width, false),
        pwconv1(width, 4 * width),
        act(detail::text_activation(o.hidden_act)),
        grn(4 * width),
        pwconv2(4 * width, width),
        drop_path(detail::drop_path("ConvNextV2", drop)) {}
  void members(core::Members& m) override {
    m.child("dwconv", dwconv).child("layernorm", layernorm).child("pwconv1", pwconv1).child("act", act);
    m.child("grn", grn).child("pwconv2", pwconv2).child("drop_path", drop_path);
  }
  Tensor forward(const Tensor& x) {                                  // (n, c, h, w)
    Tensor h = pwconv1(layernorm(dwconv(x).permute({0, 2, 3, 1})));  // (n, h, w, 4 * c)
    return x + drop_path->call(pwconv2(grn(act->call(h))).permute({0, 3, 1, 2}));
  }
};

/// (n, in, h, w) -> (n, out, h / 2, w / 2); the first stage keeps the size.
struct ConvNextV2Stage : core::ModuleOf<ConvNextV2Stage> {
  core::ModuleList downsampling_layer, layers;

  void members(core::Members& m) override { m.child("downsampling_layer", downsampling_layer).child("layers", layers); }
  Tensor forward(const Tensor& x) {
    Tensor h = x;
    for (const auto& layer : downsampling_layer) h = layer.second->call(h);
    for (const auto& layer : layers) h = layer.second->call(h);
    return h;
  }
};

ConvNextV2Encoder::ConvNextV2Encoder(const ConvNextV2Options& o) {
  std::int64_t total = 0, done = 0;
  for (std::int64_t depth : o.depths) total += depth;
  // Rates that rise in equal steps, as linspace makes them in f32.
  const float step = total > 1 ? static_cast<float>(o.drop_path_rate) / static_cast<float>(total - 1) : 0;
  auto rate = [&](std::int64_t i) {
    if (i < total / 2) return step * static_cast<float>(i);
    return static_cast<float>(o.drop_path_rate) - step * static_cast<float>(total - 1 - i);
  };
  for (std::size_t i = 0; i < o.depths.size(); ++i) {
    ConvNextV2Stage stage;
    const std::int64_t width = o.hidden_sizes[i];
    if (i > 0) {
      stage.downsampling_layer.push_back(ConvNextV2LayerNorm(o.hidden_sizes[i - 1], true));
      stage.downsampling_layer.push_back(Conv2d(o.hidden_sizes[i - 1], width, 2, {.stride = 2}));
    }
    for (std::int64_t j = 0; j < o.depths[i]; ++j) stage.layers.push_back(ConvNextV2Layer(width, rate(done++), o));
    stages.push_back(std::move(stage));
  }
}

Tensor ConvNextV2Encoder::forward(const Tensor& x) {
  Tensor h = x;
  for (const auto& stage : stages) h = stage.second->call(h);
  return h;
}

}  // namespace convnextv2

ConvNextV2Model::ConvNextV2Model(const ConvNextV2Options& o)
    : embeddings(o), encoder(o), layernorm({o.hidden_sizes.back()}, {.eps = o.layer_norm_eps}) {
  detail::init_language(*this, 0.02);
}

Tensor ConvNextV2Model::forward(const Tensor& x) {
  return layernorm(encoder(embeddings(x)).mean({-2, -1}));
}

ConvNextV2ForImageClassification::ConvNextV2ForImageClassification(const ConvNextV2Options& o)
    : convnextv2(o), classifier(o.hidden_sizes.back(), o.num_labels) {
  detail::init_language(classifier, 0.02);
}

}  // namespace zoo

#include "zoo/mobilevit.h"

#include <cmath>

#include "libcore/module/init.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"
#include "zoo/language_blocks.h"

namespace zoo {

using core::Linear;
using core::Tensor;

namespace mobilevit {

MobileViTConvLayer::MobileViTConvLayer(std::int64_t in, std::int64_t out, const ConvLayerOptions& how,
                                       const MobileViTOptions& o)
    : convolution(in, out, how.kernel,
                  {.stride = how.stride,
                   .padding = (how.kernel - 1) / 2 * how.dilation,
                   .dilation = how.dilation,
                   .groups = how.groups,
                   .bias = false}) {
  if (how.normalization) normalization = std::make_shared<core::BatchNorm2d>(out);
  if (how.activation) activation = detail::text_activation(o.hidden_act);
}

void MobileViTConvLayer::members(core::Members& m) {
  m.child("convolution", convolution);
  if (normalization) m.child("normalization", normalization);
  if (activation) m.child("activation", activation);
}

Tensor MobileViTConvLayer::forward(const Tensor& x) {
  Tensor h = convolution(x);
  if (normalization) h = (*normalization)(h);
  return activation ? activation->call(h) : h;
}

struct MobileViTInvertedResidual : core::ModuleOf<MobileViTInvertedResidual> {
  bool residual;
  MobileViTConvLayer expand_1x1, conv_3x3, reduce_1x1;

  MobileViTInvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t dilation,
                            const MobileViTOptions& o)
      : MobileViTInvertedResidual(in, out, wide_of(in, o), {.kernel = 3, .stride = stride, .dilation = dilation}, o) {}
  void members(core::Members& m) override {
    m.child("expand_1x1", expand_1x1).child("conv_3x3", conv_3x3).child("reduce_1x1", reduce_1x1);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = reduce_1x1(conv_3x3(expand_1x1(x)));
    return residual ? x + h : h;
  }

 private:
  static std::int64_t wide_of(std::int64_t in, const MobileViTOptions& o) {
    return detail::make_divisible(std::nearbyint(static_cast<double>(in) * o.expand_ratio), 8);
  }
  MobileViTInvertedResidual(std::int64_t in, std::int64_t out, std::int64_t wide, ConvLayerOptions middle,
                            const MobileViTOptions& o)
      : residual(middle.stride == 1 && in == out),
        expand_1x1(in, wide, {}, o),
        conv_3x3(wide, wide,
                 {.kernel = middle.kernel, .stride = middle.stride, .groups = wide, .dilation = middle.dilation}, o),
        reduce_1x1(wide, out, {.activation = false}, o) {}
};

struct MobileViTMobileNetLayer : core::ModuleOf<MobileViTMobileNetLayer> {
  core::ModuleList layer;

  MobileViTMobileNetLayer(std::int64_t in, std::int64_t out, std::int64_t stride, int stages,
                          const MobileViTOptions& o) {
    for (int i = 0; i < stages; ++i) {
      layer.push_back(MobileViTInvertedResidual(i == 0 ? in : out, out, i == 0 ? stride : 1, 1, o));
    }
  }
  void members(core::Members& m) override { m.child("layer", layer); }
  Tensor forward(const Tensor& x) {
    Tensor h = x;
    for (const auto& each : layer) h = each.second->call(h);
    return h;
  }
};

struct MobileViTSelfAttention : core::ModuleOf<MobileViTSelfAttention> {
  std::int64_t heads;
  Linear query, key, value;
  core::Dropout dropout;

  MobileViTSelfAttention(std::int64_t width, const MobileViTOptions& o)
      : heads(o.num_attention_heads),
        query(width, width, {.bias = o.qkv_bias}),
        key(width, width, {.bias = o.qkv_bias}),
        value(width, width, {.bias = o.qkv_bias}),
        dropout(o.attention_dropout) {}
  void members(core::Members& m) override {
    m.child("query", query).child("key", key).child("value", value).child("dropout", dropout);
  }
  Tensor forward(const Tensor& x) {
    Tensor q = detail::split_heads(query(x), heads), k = detail::split_heads(key(x), heads);
    Tensor v = detail::split_heads(value(x), heads);
    const double p = is_training() ? dropout.p : 0.0;
    return detail::join_heads(core::scaled_dot_product_attention(q, k, v, {.dropout = p}));
  }
};

struct MobileViTSelfOutput : core::ModuleOf<MobileViTSelfOutput> {
  Linear dense;
  core::Dropout dropout;
  MobileViTSelfOutput(std::int64_t width, const MobileViTOptions& o) : dense(width, width), dropout(o.hidden_dropout) {}
  void members(core::Members& m) override { m.child("dense", dense).child("dropout", dropout); }
  Tensor forward(const Tensor& x) { return dropout(dense(x)); }
};

struct MobileViTAttention : core::ModuleOf<MobileViTAttention> {
  MobileViTSelfAttention attention;
  MobileViTSelfOutput output;
  MobileViTAttention(std::int64_t width, const MobileViTOptions& o) : attention(width, o), output(width, o) {}
  void members(core::Members& m) override { m.child("attention", attention).child("output", output); }
  Tensor forward(const Tensor& x) { return output(attention(x)); }
};

struct MobileViTIntermediate : core::ModuleOf<MobileViTIntermediate> {
  Linear dense;
  std::shared_ptr<core::Module> intermediate_act_fn;
  MobileViTIntermediate(std::int64_t width, std::int64_t wide, const MobileViTOptions& o)
      : dense(width, wide), intermediate_act_fn(detail::text_activation(o.hidden_act)) {}
  void members(core::Members& m) override { m.child("dense", dense).child("intermediate_act_fn", intermediate_act_fn); }
  Tensor forward(const Tensor& x) { return intermediate_act_fn->call(dense(x)); }
};

struct MobileViTOutput : core::ModuleOf<MobileViTOutput> {
  Linear dense;
  core::Dropout dropout;
  MobileViTOutput(std::int64_t width, std::int64_t wide, const MobileViTOptions& o)
      : dense(wide, width), dropout(o.hidden_dropout) {}
  void members(core::Members& m) override { m.child("dense", dense).child("dropout", dropout); }
  Tensor forward(const Tensor& x, const Tensor& before) { return dropout(dense(x)) + before; }
};

/// (n, patches, width) -> the same.
struct MobileViTTransformerLayer : core::ModuleOf<MobileViTTransformerLayer> {
  MobileViTAttention attention;
  MobileViTIntermediate intermediate;
  MobileViTOutput output;
  core::LayerNorm layernorm_before, layernorm_after;

  MobileViTTransformerLayer(std::int64_t width, std::int64_t wide, const MobileViTOptions& o)
      : attention(width, o),
        intermediate(width, wide, o),
        output(width, wide, o),
        layernorm_before({width}, {.eps = o.layer_norm_eps}),
        layernorm_after({width}, {.eps = o.layer_norm_eps}) {}
  void members(core::Members& m) override {
    m.child("attention", attention).child("intermediate", intermediate).child("output", output);
    m.child("layernorm_before", layernorm_before).child("layernorm_after", layernorm_after);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = attention(layernorm_before(x)) + x;
    return output(intermediate(layernorm_after(h)), h);
  }
};

struct MobileViTTransformer : core::ModuleOf<MobileViTTransformer> {
  core::ModuleList layer;

  MobileViTTransformer(std::int64_t width, int stages, const MobileViTOptions& o) {
    const auto wide = static_cast<std::int64_t>(static_cast<double>(width) * o.mlp_ratio);
    for (int i = 0; i < stages; ++i) layer.push_back(MobileViTTransformerLayer(width, wide, o));
  }
  void members(core::Members& m) override { m.child("layer", layer); }
  Tensor forward(const Tensor& x) {
    Tensor h = x;
    for (const auto& each : layer) h = each.second->call(h);
    return h;
  }
};

struct StageOptions {
  std::int64_t width = 1;  ///< of the transformer
  int depth = 1;
  std::int64_t dilation = 1;
};
/// (n, in, h, w) -> (n, out, h / 2, w / 2), or the same size where it is dilated.
struct MobileViTLayer : core::ModuleOf<MobileViTLayer> {
  std::int64_t patch;
  MobileViTInvertedResidual downsampling_layer;
  MobileViTConvLayer conv_kxk, conv_1x1;
  MobileViTTransformer transformer;
  core::LayerNorm layernorm;
  MobileViTConvLayer conv_projection, fusion;

  MobileViTLayer(std::int64_t in, std::int64_t out, const StageOptions& stage, const MobileViTOptions& o)
      : patch(o.patch_size),
        downsampling_layer(in, out, stage.dilation == 1 ? 2 : 1, stage.dilation > 1 ? stage.dilation / 2 : 1, o),
        conv_kxk(out, out, {.kernel = o.conv_kernel_size}, o),
        conv_1x1(out, stage.width, {.normalization = false, .activation = false}, o),
        transformer(stage.width, stage.depth, o),
        layernorm({stage.width}, {.eps = o.layer_norm_eps}),
        conv_projection(stage.width, out, {}, o),
        fusion(2 * out, out, {.kernel = o.conv_kernel_size}, o) {}
  void members(core::Members& m) override {
    m.child("downsampling_layer", downsampling_layer).child("conv_kxk", conv_kxk).child("conv_1x1", conv_1x1);
    m.child("transformer", transformer).child("layernorm", layernorm).child("conv_projection", conv_projection);
    m.child("fusion", fusion);
  }
  Tensor forward(const Tensor& x) {
    Tensor smaller = downsampling_layer(x);
    Tensor global = conv_projection(mixed(conv_1x1(conv_kxk(smaller))));
    return fusion(core::cat({smaller, global}, 1));
  }

 private:
  /// The transformer over the pixels of the same place in their patches. (n, width, h, w) -> the same; a size that is
  /// no multiple of the patches' is resized there and back.
  Tensor mixed(const Tensor& x) {
    auto resized = [](const Tensor& image, const core::Shape& size) {
      return core::interpolate(image, {.size = size, .mode = "bilinear", .align_corners = false});
    };
    const std::int64_t n = x.size(0), width = x.size(1), h = x.size(2), w = x.size(3);
    const std::int64_t rows = (h + patch - 1) / patch, columns = (w + patch - 1) / patch, area = patch * patch;
    const bool fits = rows * patch == h && columns * patch == w;
    Tensor y = fits ? x : resized(x, {rows * patch, columns * patch});
    y = y.reshape({n * width * rows, patch, columns, patch}).transpose(1, 2);
    y = y.reshape({n, width, rows * columns, area}).transpose(1, 3).reshape({n * area, rows * columns, width});
    y = layernorm(transformer(y));
    y = y.reshape({n, area, rows * columns, width}).transpose(1, 3);
    y = y.reshape({n * width * rows, columns, patch, patch}).transpose(1, 2);
    y = y.reshape({n, width, rows * patch, columns * patch});
    return fits ? y : resized(y, {h, w});
  }
};

MobileViTEncoder::MobileViTEncoder(const MobileViTOptions& o) {
  const std::vector<std::int64_t>& neck = o.neck_hidden_sizes;
  layer.push_back(MobileViTMobileNetLayer(neck[0], neck[1], 1, 1, o));
  layer.push_back(MobileViTMobileNetLayer(neck[1], neck[2], 2, 3, o));
  layer.push_back(MobileViTLayer(neck[2], neck[3], {.width = o.hidden_sizes[0], .depth = 2}, o));
  const std::int64_t fourth = o.output_stride == 8 ? 2 : 1, fifth = o.output_stride == 32 ? 1 : 2 * fourth;
  layer.push_back(MobileViTLayer(neck[3], neck[4], {.width = o.hidden_sizes[1], .depth = 4, .dilation = fourth}, o));
  layer.push_back(MobileViTLayer(neck[4], neck[5], {.width = o.hidden_sizes[2], .depth = 3, .dilation = fifth}, o));
}

Tensor MobileViTEncoder::forward(const Tensor& x) {
  Tensor h = x;
  for (const auto& each : layer) h = each.second->call(h);
  return h;
}

}  // namespace mobilevit

MobileViTModel::MobileViTModel(const MobileViTOptions& o)
    : conv_stem(o.num_channels, o.neck_hidden_sizes[0], {.kernel = 3, .stride = 2}, o),
      encoder(o),
      conv_1x1_exp(o.neck_hidden_sizes[5], o.neck_hidden_sizes[6], {}, o) {
  detail::init_language(*this, 0.02);
  for (core::BatchNorm2d* norm : detail::modules_of<core::BatchNorm2d>(*this)) {
    core::init::normal_(norm->weight, 0, 0.02);
  }
}

MobileViTForImageClassification::MobileViTForImageClassification(const MobileViTOptions& o)
    : mobilevit(o), dropout(o.classifier_dropout, {.inplace = true}), classifier(o.neck_hidden_sizes[6], o.num_labels) {
  detail::init_language(classifier, 0.02);
}

Tensor MobileViTForImageClassification::forward(const Tensor& x) {
  return classifier(dropout(mobilevit(x).mean({-2, -1})));
}

}  // namespace zoo

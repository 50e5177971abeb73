#include "zoo/swin.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "libcore/module/init.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Tensor;

namespace swin {

struct BlockOptions {
  std::int64_t width = 1;
  std::int64_t heads = 1;
  std::int64_t window = 7;
  std::int64_t shift = 0;  ///< of the windows, in tokens
  double stochastic_depth = 0;
  std::int64_t hidden = 4;  ///< of the block's linear layers
  double dropout = 0;
  double attention_dropout = 0;
};

/// Which row of the bias table stands for each pair of tokens of a window: (window^4), int64.
Tensor make_relative_index(std::int64_t window) {
  std::vector<std::int64_t> index;
  const std::int64_t tokens = window * window;
  for (std::int64_t a = 0; a < tokens; ++a) {
    for (std::int64_t b = 0; b < tokens; ++b) {
      const std::int64_t dy = a / window - b / window + window - 1;
      const std::int64_t dx = a % window - b % window + window - 1;
      index.push_back(dy * (2 * window - 1) + dx);
    }
  }
  return core::from_values(index);
}

/// Where the windows of an image lie. All numbers in tokens.
struct Grid {
  std::int64_t h, w;  ///< of the padded image
  std::int64_t window;
  std::int64_t shift_h, shift_w;  ///< 0 where one window covers the image
  std::int64_t count() const { return (h / window) * (w / window); }
};

/// (n, h, w, c) -> (n * windows, window^2, c).
Tensor partition(const Tensor& x, const Grid& g) {
  const std::int64_t c = x.size(3);
  Tensor squares = x.view({x.size(0), g.h / g.window, g.window, g.w / g.window, g.window, c});
  return squares.permute({0, 1, 3, 2, 4, 5}).reshape({x.size(0) * g.count(), g.window * g.window, c});
}

/// The way back.
Tensor merge(const Tensor& windows, const Grid& g) {
  const std::int64_t c = windows.size(2);
  const std::int64_t n = windows.size(0) / g.count();
  Tensor squares = windows.view({n, g.h / g.window, g.w / g.window, g.window, g.window, c});
  return squares.permute({0, 1, 3, 2, 4, 5}).reshape({n, g.h, g.w, c});
}

/// -100 between tokens that the shift brought into one window from different sides: (windows, window^2, window^2).
Tensor shift_mask(const Grid& g, const core::TensorOptions& options) {
  auto zone = [&](std::int64_t at, std::int64_t size, std::int64_t shift) {
    return at < size - g.window ? 0 : at < size - shift ? 1 : 2;
  };
  std::vector<float> zones;
  for (std::int64_t y = 0; y < g.h; ++y) {
    for (std::int64_t x = 0; x < g.w; ++x) {
      zones.push_back(static_cast<float>(zone(y, g.h, g.shift_h) * 3 + zone(x, g.w, g.shift_w)));
    }
  }
  Tensor image = core::from_values(zones).view({1, g.h, g.w, 1});
  Tensor windows = partition(image, g).squeeze(2);                        // (windows, window^2)
  Tensor differs = core::ne(windows.unsqueeze(1), windows.unsqueeze(2));  // (windows, window^2, window^2)
  return core::where(differs, core::Scalar(-100.0), core::zeros(differs.sizes())).to(*options.device, *options.dtype);
}

/// Attention within windows that overlap those of the layer before. (n, h, w, width) -> the same.
struct ShiftedWindowAttention : core::ModuleOf<ShiftedWindowAttention> {
  BlockOptions options;
  core::Linear qkv;
  core::Linear proj;
  core::Parameter relative_position_bias_table;  ///< ((2 * window - 1)^2, heads)
  Tensor relative_position_index;                ///< (window^4), int64

  explicit ShiftedWindowAttention(const BlockOptions& o)
      : options(o),
        qkv(o.width, 3 * o.width),
        proj(o.width, o.width),
        relative_position_bias_table(core::zeros({(2 * o.window - 1) * (2 * o.window - 1), o.heads})),
        relative_position_index(make_relative_index(o.window)) {
    core::trunc_normal_(relative_position_bias_table.detach(), {.std = 0.02});
  }
  void members(core::Members& m) override {
    m.child("qkv", qkv).child("proj", proj).parameter("relative_position_bias_table", relative_position_bias_table);
    m.buffer("relative_position_index", relative_position_index);
  }
  Tensor forward(const Tensor& x) {
    const std::int64_t h = x.size(1), w = x.size(2), window = options.window;
    const std::int64_t pad_h = (window - h % window) % window, pad_w = (window - w % window) % window;
    Tensor padded = core::pad_constant(x, {0, 0, 0, pad_w, 0, pad_h});
    Grid g{h + pad_h, w + pad_w, window, options.shift, options.shift};
    if (window >= g.h) g.shift_h = 0;
    if (window >= g.w) g.shift_w = 0;
    const bool shifted = g.shift_h > 0 || g.shift_w > 0;
    if (shifted) padded = core::roll(padded, {-g.shift_h, -g.shift_w}, {1, 2});
    Tensor projected = proj(attend(partition(padded, g), g));
    if (options.dropout > 0) projected = core::dropout(projected, options.dropout, is_training());
    Tensor merged = merge(projected, g);  // (n, h + pad, w + pad, width)
    if (shifted) merged = core::roll(merged, {g.shift_h, g.shift_w}, {1, 2});
    return merged.slice(1, 0, h).slice(2, 0, w).contiguous();
  }

 private:
  /// (n * windows, window^2, width) -> the same.
  Tensor attend(const Tensor& x, const Grid& g) {
    const std::int64_t tokens = x.size(1), heads = options.heads;
    Tensor all = qkv(x).reshape({x.size(0), tokens, 3, heads, options.width / heads}).permute({2, 0, 3, 1, 4});
    Tensor q = all[0] * std::pow(static_cast<double>(options.width / heads), -0.5);  // (n * windows, heads, tokens, d)
    Tensor scores = q.matmul(all[1].transpose(-2, -1)) + bias(tokens);               // (..., tokens, tokens)
    if (g.shift_h > 0 || g.shift_w > 0) {
      Tensor mask = shift_mask(g, {.dtype = x.dtype(), .device = x.device()}).unsqueeze(1).unsqueeze(0);
      scores = scores.view({x.size(0) / g.count(), g.count(), heads, tokens, tokens}) + mask;
      scores = scores.view({-1, heads, tokens, tokens});
    }
    Tensor seen = core::softmax(scores, -1);
    if (options.attention_dropout > 0) seen = core::dropout(seen, options.attention_dropout, is_training());
    Tensor mixed = seen.matmul(all[2]);  // (n * windows, heads, tokens, d)
    return mixed.transpose(1, 2).reshape({x.size(0), tokens, options.width});
  }
  /// (1, heads, tokens, tokens).
  Tensor bias(std::int64_t tokens) {
    Tensor rows = core::index_select(relative_position_bias_table, 0, relative_position_index);
    return rows.view({tokens, tokens, -1}).permute({2, 0, 1}).contiguous().unsqueeze(0);
  }
};

/// (n, h, w, width) -> the same.
struct SwinTransformerBlock : core::ModuleOf<SwinTransformerBlock> {
  core::LayerNorm norm1;
  ShiftedWindowAttention attn;
  detail::StochasticDepth stochastic_depth;
  core::LayerNorm norm2;
  detail::MLP mlp;

  explicit SwinTransformerBlock(const BlockOptions& o)
      : norm1({o.width}),
        attn(o),
        stochastic_depth(o.stochastic_depth),
        norm2({o.width}),
        mlp({.width = o.width, .hidden = o.hidden, .dropout = o.dropout}) {}
  void members(core::Members& m) override {
    m.child("norm1", norm1).child("attn", attn).child("stochastic_depth", stochastic_depth);
    m.child("norm2", norm2).child("mlp", mlp);
  }
  Tensor forward(const Tensor& x) {
    Tensor h = x + stochastic_depth(attn(norm1(x)));
    return h + stochastic_depth(mlp(norm2(h)));
  }
};

/// Four neighbours become one token. (n, h, w, width) -> (n, h / 2, w / 2, 2 * width), rounded up.
struct PatchMerging : core::ModuleOf<PatchMerging> {
  core::Linear reduction;
  core::LayerNorm norm;

  explicit PatchMerging(std::int64_t width) : reduction(4 * width, 2 * width, {.bias = false}), norm({4 * width}) {}
  void members(core::Members& m) override { m.child("reduction", reduction).child("norm", norm); }
  Tensor forward(const Tensor& x) {
    Tensor even = core::pad_constant(x, {0, 0, 0, x.size(2) % 2, 0, x.size(1) % 2});
    auto quarter = [&](std::int64_t y, std::int64_t at) { return even.slice(1, y, {}, 2).slice(2, at, {}, 2); };
    Tensor four = core::cat({quarter(0, 0), quarter(1, 0), quarter(0, 1), quarter(1, 1)}, -1);
    return reduction(norm(four));
  }
};

std::int64_t last_width(const SwinTransformer::Options& o) {
  return o.width << (o.depths.size() - 1);
}

core::Sequential make_features(const SwinTransformer::Options& o) {
  core::Sequential features;
  features.push_back(std::make_shared<core::Sequential>(
      core::Sequential{core::Conv2d(o.in_channels, o.width, o.patch_size, {.stride = o.patch_size}),
                       detail::Permute({0, 2, 3, 1}), core::LayerNorm({o.width})}));
  std::int64_t total = 0;
  for (std::int64_t depth : o.depths) total += depth;
  std::int64_t done = 0;
  std::int64_t width = o.width;
  for (std::size_t i = 0; i < o.depths.size(); ++i) {
    core::Sequential stage;
    for (std::int64_t block = 0; block < o.depths[i]; ++block) {
      const double p =
          o.stochastic_depth * static_cast<double>(done++) / static_cast<double>(std::max<std::int64_t>(1, total - 1));
      stage.push_back(
          SwinTransformerBlock({.width = width,
                                .heads = o.heads[i],
                                .window = o.window,
                                .shift = block % 2 == 0 ? 0 : o.window / 2,
                                .stochastic_depth = p,
                                .hidden = static_cast<std::int64_t>(static_cast<double>(width) * o.mlp_ratio),
                                .dropout = o.dropout,
                                .attention_dropout = o.attention_dropout}));
    }
    features.push_back(std::make_shared<core::Sequential>(std::move(stage)));
    if (i + 1 == o.depths.size()) break;
    features.push_back(PatchMerging(width));
    width *= 2;
  }
  return features;
}

}  // namespace swin

SwinTransformer::SwinTransformer(const Options& o)
    : features(swin::make_features(o)),
      norm({swin::last_width(o)}),
      permute({0, 3, 1, 2}),
      avgpool(1),
      flatten(1),
      head(swin::last_width(o), o.num_classes) {
  for (core::Linear* linear : detail::modules_of<core::Linear>(*this)) {
    core::trunc_normal_(linear->weight, {.std = 0.02});
    if (linear->bias.defined()) core::init::zeros_(linear->bias);
  }
}

void SwinTransformer::members(core::Members& m) {
  m.child("features", features).child("norm", norm).child("permute", permute);
  m.child("avgpool", avgpool).child("flatten", flatten).child("head", head);
}

Tensor SwinTransformer::forward(const Tensor& x) {  // (n, c, h, w)
  Tensor h = permute(norm(features(x)));            // (n, last width, h / 32, w / 32)
  return head(flatten(avgpool(h)));                 // (n, classes)
}

}  // namespace zoo

#include "zoo/language_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "libcore/module/activation.h"
#include "libcore/module/embedding.h"
#include "libcore/module/init.h"
#include "libcore/module/linear.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/tensor.h"

namespace zoo::detail {

using core::Tensor;

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Tensor join_heads(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor positions(const Tensor& tokens, std::int64_t start) {
  return core::arange(start, start + tokens.size(1), {.device = tokens.device()});
}

namespace {

/// `room` with `more` behind its first `used` positions, in twice the memory where it is full.
Tensor with_more(const Tensor& room, std::int64_t used, const Tensor& more) {  // (n, heads, t, d)
  const std::int64_t wanted = used + more.size(2);
  Tensor held = room;
  if (!room.defined() || room.size(2) < wanted) {
    constexpr std::int64_t kLeast = 32;
    core::Shape shape = more.sizes();
    shape[2] = std::max({kLeast, wanted, 2 * used});
    held = core::empty(shape, {.dtype = more.dtype(), .device = more.device()});
    if (used > 0) held.slice(2, 0, used).copy_(room.slice(2, 0, used));
  }
  held.slice(2, used, wanted).copy_(more);
  return held;
}

/// Which of `all` positions each of the last `now` sees: (now, all), boolean.
Tensor seen(std::int64_t now, std::int64_t all, std::int64_t window, core::Device device) {
  const core::TensorOptions where{.dtype = core::DType::boolean, .device = device};
  const std::int64_t before = all - now;
  Tensor mask = core::tril(core::ones({now, all}, where), before);
  return window > 0 ? core::triu(mask, before - window + 1) : mask;
}

/// In steps, since the scores are changed between: in f32 from there on, as the reference does.
Tensor capped_attention(const Heads& heads, const CausalOptions& options, const Tensor& mask) {
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(heads.queries.size(3)));
  Tensor scores = capped(core::matmul(heads.queries, heads.keys.transpose(2, 3)) * scale, options.cap);
  const core::DType dtype = scores.dtype();
  if (dtype != core::DType::f64) scores = scores.to(core::DType::f32);
  Tensor hidden = core::masked_fill(scores, core::logical_not(mask), -std::numeric_limits<double>::infinity());
  return core::matmul(core::dropout(core::softmax(hidden, -1).to(dtype), options.dropout), heads.values);
}

}  // namespace

Tensor capped(const Tensor& x, double cap) {
  return cap == 0 ? x : core::tanh(x / cap) * cap;
}

Tensor causal_attention(const Heads& heads, const CausalOptions& options, DecoderCache::Layer* cache) {
  const std::int64_t before = cache == nullptr ? 0 : cache->length, now = heads.queries.size(2), all = before + now;
  core::AttentionOptions how{.dropout = options.dropout, .is_causal = before == 0};
  if (options.scale != 0) how.scale = options.scale;
  const bool narrow = options.window > 0 && all > options.window;
  if (options.cap != 0 || options.bias.defined() || narrow || (before > 0 && now > 1)) {
    how.is_causal = false;
    how.mask = seen(now, all, options.window, heads.queries.device());
  }
  if (options.bias.defined()) {
    how.mask = core::masked_fill(options.bias, core::logical_not(how.mask), -std::numeric_limits<double>::infinity());
  }
  Heads read = heads;
  if (cache != nullptr) {
    cache->keys = with_more(cache->keys, before, heads.keys);
    cache->values = with_more(cache->values, before, heads.values);
    cache->length = all;
    read.keys = cache->keys.slice(2, 0, all);
    read.values = cache->values.slice(2, 0, all);
  }
  if (options.cap != 0) return capped_attention(read, options, how.mask);
  return core::scaled_dot_product_attention(read.queries, read.keys, read.values, how);
}

Tensor cross_attention(const Tensor& queries, const std::function<Heads()>& make, const CausalOptions& options,
                       DecoderCache::Layer* cache) {
  core::AttentionOptions how{.dropout = options.dropout};
  if (options.scale != 0) how.scale = options.scale;
  if (cache == nullptr) {
    const Heads read = make();
    return core::scaled_dot_product_attention(queries, read.keys, read.values, how);
  }
  if (!cache->keys.defined()) {
    const Heads read = make();
    *cache = {read.keys, read.values, read.keys.size(2)};
  }
  return core::scaled_dot_product_attention(queries, cache->keys, cache->values, how);
}

HeadsAttention::HeadsAttention(HeadsAttentionOptions o)
    : options(std::move(o)),
      k_proj(options.width, options.width, {.bias = options.key_bias}),
      v_proj(options.width, options.width),
      q_proj(options.width, options.width),
      out_proj(options.width, options.width) {}

Tensor HeadsAttention::causal(const Tensor& x, DecoderCache::Layer* cache) {
  const Heads parts{split_heads(q_proj(x), options.heads), split_heads(k_proj(x), options.heads),
                    split_heads(v_proj(x), options.heads)};
  return out_proj(join_heads(causal_attention(parts, how(), cache)));
}

Tensor HeadsAttention::across(const Tensor& x, const Tensor& states, DecoderCache::Layer* cache) {
  const auto make = [&] {
    return Heads{{}, split_heads(k_proj(states), options.heads), split_heads(v_proj(states), options.heads)};
  };
  return out_proj(join_heads(cross_attention(split_heads(q_proj(x), options.heads), make, how(), cache)));
}

Tensor QuickGELUActivation::forward(const Tensor& x) const {
  return x * core::sigmoid(x * 1.702);
}

std::shared_ptr<core::Module> text_activation(std::string_view name) {
  if (name == "gelu") return std::make_shared<GELUActivation>();
  if (name == "gelu_new") return std::make_shared<NewGELUActivation>();
  if (name == "gelu_pytorch_tanh") return std::make_shared<GELUTanh>();
  if (name == "quick_gelu") return std::make_shared<QuickGELUActivation>();
  if (name == "silu") return std::make_shared<SiLUActivation>();
  if (name == "swish") return std::make_shared<core::SiLU>();
  if (name == "tanh") return std::make_shared<core::Tanh>();
  return std::make_shared<core::ReLU>();
}

namespace {

DecoderCache::Layer* at(std::vector<DecoderCache::Layer>& layers, std::size_t layer) {
  if (layers.size() <= layer) layers.resize(layer + 1);
  return &layers[layer];
}

}  // namespace

Tensor bias_of_mask(const Tensor& mask, core::DType dtype) {
  if (!mask.defined()) return {};
  const Tensor hidden = core::eq(mask, core::Scalar(0)).unsqueeze(1).unsqueeze(1);
  return core::masked_fill(core::zeros(hidden.sizes(), {.dtype = dtype, .device = mask.device()}), hidden,
                           core::finfo(dtype).min);
}

DecoderCache::Layer* layer_of(DecoderCache* cache, std::size_t layer) {
  return cache == nullptr ? nullptr : at(cache->layers, layer);
}

DecoderCache::Layer* source_of(DecoderCache* cache, std::size_t layer) {
  return cache == nullptr ? nullptr : at(cache->sources, layer);
}

core::EmbeddingOptions padded_by(std::int64_t pad) {
  core::EmbeddingOptions options;
  if (pad >= 0) options.padding_idx = pad;
  return options;
}

void init_language(core::Module& model, double std) {
  model.apply([std](core::Module& module) {
    if (auto* linear = dynamic_cast<core::Linear*>(&module)) {
      core::init::normal_(linear->weight, 0, std);
      if (linear->bias.defined()) core::init::zeros_(linear->bias);
    } else if (auto* embedding = dynamic_cast<core::Embedding*>(&module)) {
      core::init::normal_(embedding->weight, 0, std);
      if (embedding->padding_idx) core::init::zeros_(embedding->weight.detach().select(0, *embedding->padding_idx));
    }
  });
}

}  // namespace zoo::detail

#include "zoo/language_blocks.h"

#include <algorithm>

#include "libcore/module/embedding.h"
#include "libcore/module/init.h"
#include "libcore/module/linear.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
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

}  // namespace

Tensor causal_attention(const Heads& heads, double dropout, DecoderCache::Layer* cache) {
  if (cache == nullptr) {
    return core::scaled_dot_product_attention(heads.queries, heads.keys, heads.values,
                                              {.dropout = dropout, .is_causal = true});
  }
  const std::int64_t before = cache->length, now = heads.queries.size(2), all = before + now;
  cache->keys = with_more(cache->keys, before, heads.keys);
  cache->values = with_more(cache->values, before, heads.values);
  cache->length = all;
  core::AttentionOptions options{.dropout = dropout, .is_causal = before == 0};
  if (before > 0 && now > 1) {
    const core::TensorOptions where{.dtype = core::DType::boolean, .device = heads.queries.device()};
    options.mask = core::tril(core::ones({now, all}, where), before);
  }
  return core::scaled_dot_product_attention(heads.queries, cache->keys.slice(2, 0, all), cache->values.slice(2, 0, all),
                                            options);
}

DecoderCache::Layer* layer_of(DecoderCache* cache, std::size_t layer) {
  if (cache == nullptr) return nullptr;
  if (cache->layers.size() <= layer) cache->layers.resize(layer + 1);
  return &cache->layers[layer];
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

#include "zoo/language_blocks.h"

#include <algorithm>

#include "libcore/module/activation.h"
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

/// Which of `all` positions each of the last `now` sees: (now, all), boolean.
Tensor seen(std::int64_t now, std::int64_t all, std::int64_t window, core::Device device) {
  const core::TensorOptions where{.dtype = core::DType::boolean, .device = device};
  const std::int64_t before = all - now;
  Tensor mask = core::tril(core::ones({now, all}, where), before);
  return window > 0 ? core::triu(mask, before - window + 1) : mask;
}

}  // namespace

Tensor causal_attention(const Heads& heads, const CausalOptions& options, DecoderCache::Layer* cache) {
  const std::int64_t before = cache == nullptr ? 0 : cache->length, now = heads.queries.size(2), all = before + now;
  core::AttentionOptions how{.dropout = options.dropout, .is_causal = before == 0};
  if (options.scale != 0) how.scale = options.scale;
  const bool narrow = options.window > 0 && all > options.window;
  if (narrow || (before > 0 && now > 1)) {
    how.is_causal = false;
    how.mask = seen(now, all, options.window, heads.queries.device());
  }
  if (cache == nullptr) return core::scaled_dot_product_attention(heads.queries, heads.keys, heads.values, how);
  cache->keys = with_more(cache->keys, before, heads.keys);
  cache->values = with_more(cache->values, before, heads.values);
  cache->length = all;
  return core::scaled_dot_product_attention(heads.queries, cache->keys.slice(2, 0, all), cache->values.slice(2, 0, all),
                                            how);
}

std::shared_ptr<core::Module> text_activation(std::string_view name) {
  if (name == "gelu") return std::make_shared<GELUActivation>();
  if (name == "gelu_new") return std::make_shared<NewGELUActivation>();
  if (name == "gelu_pytorch_tanh") return std::make_shared<GELUTanh>();
  if (name == "silu") return std::make_shared<SiLUActivation>();
  if (name == "swish") return std::make_shared<core::SiLU>();
  if (name == "tanh") return std::make_shared<core::Tanh>();
  return std::make_shared<core::ReLU>();
}

DecoderCache::Layer* layer_of(DecoderCache* cache, std::size_t layer) {
  if (cache == nullptr) return nullptr;
  if (cache->layers.size() <= layer) cache->layers.resize(layer + 1);
  return &cache->layers[layer];
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

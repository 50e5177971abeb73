#pragma once
// Parts that language models share: activations under the names that Hugging Face prints, causal attention with and
// without what was read before, initial values.
// Thread safety: as core::Module. Use: zoo::detail::GELUActivation act; core::Tensor y = act(states);

#include <cstdint>

#include "libcore/module/module.h"
#include "libcore/ops/activation.h"
#include "libcore/tensor/tensor.h"
#include "zoo/decoder.h"

namespace zoo::detail {

struct GELUActivation : core::ModuleOf<GELUActivation> {
  void members(core::Members&) override {}
  core::Tensor forward(const core::Tensor& x) const { return core::gelu(x); }
};
/// By the hyperbolic tangent.
struct NewGELUActivation : core::ModuleOf<NewGELUActivation> {
  void members(core::Members&) override {}
  core::Tensor forward(const core::Tensor& x) const { return core::gelu(x, core::GeluForm::tanh); }
};
struct SiLUActivation : core::ModuleOf<SiLUActivation> {
  void members(core::Members&) override {}
  core::Tensor forward(const core::Tensor& x) const { return core::silu(x); }
};

/// (n, t, heads * d) -> (n, heads, t, d), and back.
core::Tensor split_heads(const core::Tensor& x, std::int64_t heads);
core::Tensor join_heads(const core::Tensor& x);
/// Positions start .. start + t - 1 beside tokens (n, t), on their device.
core::Tensor positions(const core::Tensor& tokens, std::int64_t start = 0);
/// Heads of an attention, (n, heads, t, d) each.
struct Heads {
  core::Tensor queries, keys, values;
};
/// Each position sees itself and those before it, those in `cache` too, to which keys and values are added; null: none.
/// (n, heads, t, d).
core::Tensor causal_attention(const Heads& heads, double dropout, DecoderCache::Layer* cache);
/// The layer of a cache, null for null.
DecoderCache::Layer* layer_of(DecoderCache* cache, std::size_t layer);
/// Linear and embedding weights from N(0, std) and biases 0, children before their parents.
void init_language(core::Module& model, double std);

}  // namespace zoo::detail

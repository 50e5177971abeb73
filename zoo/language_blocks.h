#pragma once
// Parts that language models share: activations under the names that Hugging Face prints, causal attention with and
// without what was read before, initial values.
// Thread safety: as core::Module. Use: zoo::detail::GELUActivation act; core::Tensor y = act(states);

#include <cstdint>
#include <memory>
#include <string_view>

#include "libcore/module/embedding.h"
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
/// The same as Hugging Face prints it where a configuration says "gelu_pytorch_tanh".
struct GELUTanh : core::ModuleOf<GELUTanh> {
  void members(core::Members&) override {}
  core::Tensor forward(const core::Tensor& x) const { return core::gelu(x, core::GeluForm::tanh); }
};
struct SiLUActivation : core::ModuleOf<SiLUActivation> {
  void members(core::Members&) override {}
  core::Tensor forward(const core::Tensor& x) const { return core::silu(x); }
};

/// The activation that a configuration calls so: "gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "swish", "tanh", else
/// "relu".
std::shared_ptr<core::Module> text_activation(std::string_view name);

/// (n, t, heads * d) -> (n, heads, t, d), and back.
core::Tensor split_heads(const core::Tensor& x, std::int64_t heads);
core::Tensor join_heads(const core::Tensor& x);
/// Positions start .. start + t - 1 beside tokens (n, t), on their device.
core::Tensor positions(const core::Tensor& tokens, std::int64_t start = 0);
/// Heads of an attention, (n, heads, t, d) each.
struct Heads {
  core::Tensor queries, keys, values;
};
struct CausalOptions {
  double dropout = 0;
  double scale = 0;         ///< of the scores; 0: 1 / sqrt(d)
  std::int64_t window = 0;  ///< how many positions each sees, itself among them; 0: all before it
};
/// Each position sees itself and those before it, those in `cache` too, to which keys and values are added; null: none.
/// (n, heads, t, d).
core::Tensor causal_attention(const Heads& heads, const CausalOptions& options, DecoderCache::Layer* cache);
/// The layer of a cache, null for null.
DecoderCache::Layer* layer_of(DecoderCache* cache, std::size_t layer);
/// The options of an embedding whose row `pad` begins as 0; negative: none does.
core::EmbeddingOptions padded_by(std::int64_t pad);
/// Linear and embedding weights from N(0, std) and biases 0, children before their parents.
void init_language(core::Module& model, double std);

}  // namespace zoo::detail

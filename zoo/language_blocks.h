#pragma once
// Parts that language models share: activations under the names that Hugging Face prints, causal attention with and
// without what was read before, initial values.
// Thread safety: as core::Module. Use: zoo::detail::GELUActivation act; core::Tensor y = act(states);

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
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

/// As CLIP has it.
struct QuickGELUActivation : core::ModuleOf<QuickGELUActivation> {
  void members(core::Members&) override {}
  core::Tensor forward(const core::Tensor& x) const;
};

/// The activation that a configuration calls so: "gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "silu",
/// "swish", "tanh", else "relu".
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
  double cap = 0;           ///< scores stay between -cap and cap, as capped() does it; 0: any
  core::Tensor bias = {};   ///< added to the scores: (..., t, all); not beside a cap
};
/// cap * tanh(x / cap); x itself for a cap of 0.
core::Tensor capped(const core::Tensor& x, double cap);
/// Each position sees itself and those before it, those in `cache` too, to which keys and values are added; null: none.
/// (n, heads, t, d).
core::Tensor causal_attention(const Heads& heads, const CausalOptions& options, DecoderCache::Layer* cache);
/// Queries (n, heads, t, d) look at all of the keys and values that `make` gives, which `cache` keeps for later calls;
/// null: none. Of the options dropout and scale count.
core::Tensor cross_attention(const core::Tensor& queries, const std::function<Heads()>& make,
                             const CausalOptions& options, DecoderCache::Layer* cache);
struct HeadsAttentionOptions {
  std::string kind;  ///< what the name of the class begins with
  std::int64_t width = 1;
  std::int64_t heads = 1;
  double dropout = 0;
  bool key_bias = true;
};
/// Attention of CLIP, Whisper and their like. (n, t, width) -> the same.
struct HeadsAttention : core::ModuleOf<HeadsAttention> {
  HeadsAttentionOptions options;
  core::Linear k_proj, v_proj, q_proj, out_proj;
  explicit HeadsAttention(HeadsAttentionOptions o);
  std::string class_name() const override { return options.kind + "Attention"; }
  void members(core::Members& m) override {
    m.child("k_proj", k_proj).child("v_proj", v_proj).child("q_proj", q_proj).child("out_proj", out_proj);
  }
  /// Each sees all.
  core::Tensor forward(const core::Tensor& x) { return across(x, x, nullptr); }
  /// Each sees itself and those before it.
  core::Tensor causal(const core::Tensor& x, DecoderCache::Layer* cache);
  /// Each sees all of `states`, (n, s, width).
  core::Tensor across(const core::Tensor& x, const core::Tensor& states, DecoderCache::Layer* cache);

 private:
  CausalOptions how() const { return {.dropout = is_training() ? options.dropout : 0.0}; }
};
/// What is added to scores where a mask (n, t) hides tokens by 0: 0, or the lowest number of `dtype`: (n, 1, 1, t).
/// Undefined for an undefined mask.
core::Tensor bias_of_mask(const core::Tensor& mask, core::DType dtype);
/// The layer of a cache, null for null; of what an encoder read.
DecoderCache::Layer* layer_of(DecoderCache* cache, std::size_t layer);
DecoderCache::Layer* source_of(DecoderCache* cache, std::size_t layer);
/// The options of an embedding whose row `pad` begins as 0; negative: none does.
core::EmbeddingOptions padded_by(std::int64_t pad);
/// Linear and embedding weights from N(0, std) and biases 0, children before their parents.
void init_language(core::Module& model, double std);

}  // namespace zoo::detail

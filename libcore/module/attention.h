#pragma once
// MultiheadAttention. As torch.nn.MultiheadAttention.
// Thread safety: as Module. Use: core::MultiheadAttention attention(64, 4); auto [y, weights] = attention(q, k, v);

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "libcore/module/linear.h"
#include "libcore/module/module.h"

namespace core {

/// Linear by another name, as PyTorch prints it inside an attention.
struct NonDynamicallyQuantizableLinear : ModuleOf<NonDynamicallyQuantizableLinear> {
  Linear linear;
  NonDynamicallyQuantizableLinear(std::int64_t in, std::int64_t out, const LinearOptions& options)
      : linear(in, out, options) {}
  void members(Members& m) override { linear.members(m); }
  std::string extra_repr() const override { return linear.extra_repr(); }
  Tensor forward(const Tensor& x) const { return linear.forward(x); }
};

struct AttentionLayerOptions {
  double dropout = 0;
  bool bias = true;
  bool add_bias_kv = false;    ///< one learnt key and value behind the others
  bool add_zero_attn = false;  ///< one key and value of zeros behind the others
  std::int64_t kdim = 0;       ///< width of keys; embed_dim unless given
  std::int64_t vdim = 0;       ///< width of values; embed_dim unless given
  bool batch_first = false;    ///< (batch, length, width) instead of (length, batch, width)
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

struct AttentionCall {
  Tensor key_padding_mask = {};  ///< (batch, S); true leaves a key out, numbers are added to the scores
  bool need_weights = true;
  Tensor attn_mask = {};  ///< (L, S) or (batch * heads, L, S); true leaves out, numbers are added
  bool average_attn_weights = true;
  bool is_causal = false;  ///< says that attn_mask is the causal one
};

struct MultiheadAttention : ModuleOf<MultiheadAttention> {
  std::int64_t embed_dim;
  std::int64_t num_heads;
  AttentionLayerOptions options;
  Parameter in_proj_weight;                               ///< (3 * embed, embed), when all widths are equal
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  ///< otherwise
  Parameter in_proj_bias;
  Parameter bias_k, bias_v;
  NonDynamicallyQuantizableLinear out_proj;

  /// Errors: PyTorch's texts for sizes that do not divide.
  MultiheadAttention(std::int64_t embed, std::int64_t heads, const AttentionLayerOptions& given = {});
  void reset_parameters();
  void members(Members& m) override;
  /// q: (L, N, embed), k: (S, N, kdim), v: (S, N, vdim), or without N. Result: (L, N, embed) and, when asked for, the
  /// weights (N, L, S), or (N, heads, L, S) unless averaged.
  std::tuple<Tensor, Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const AttentionCall& call = {}) const;

 private:
  struct Projected {
    Tensor q, k, v;
  };
  bool same_widths() const;
  Projected project(const Tensor& q, const Tensor& k, const Tensor& v) const;
  std::tuple<Tensor, Tensor> attend(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionCall& call) const;
};

// Made once, in the source of this header.
extern template class ModuleOf<NonDynamicallyQuantizableLinear>;
extern template class ModuleOf<MultiheadAttention>;

}  // namespace core

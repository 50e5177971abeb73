#pragma once
// Attention, as torch.nn.functional. Thread safety: pure functions; dropout draws random numbers.
// Use: core::Tensor y = core::scaled_dot_product_attention(q, k, v, {.is_causal = true});

#include <optional>

#include "libcore/tensor/tensor.h"

namespace core {

struct AttentionOptions {
  Tensor mask = {};  ///< bool (true takes part) or added to the scores; broadcasts to (..., L, S)
  double dropout = 0;
  bool is_causal = false;            ///< position i sees those up to i
  std::optional<double> scale = {};  ///< 1 / sqrt(E)
};

/// softmax(q @ k^T * scale + mask) @ v. q: (..., L, E), k: (..., S, E), v: (..., S, Ev). A row that sees no key is 0
/// and has a gradient of 0, as in PyTorch. GPUs make no matrix (L, S) for heads of equal widths up to 512 in f32, f16
/// and bf16, unless the mask is learnt; there dropout draws by the rule of PyTorch's memory-efficient kernel
/// (libcore/backend/attention_params.h) and moves the generator on by the number of weights, in whole fours. Elsewhere
/// it draws as dropout() of the weights does. Second derivatives take the steps, with the same decisions.
/// Error(runtime) for a mask together with is_causal.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace core

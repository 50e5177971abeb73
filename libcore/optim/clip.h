#pragma once
// Clipping gradients. As torch.nn.utils.clip_grad_norm_ and clip_grad_value_.
// Thread safety: none. Use: core::clip_grad_norm_(model.parameters(), 1.0);

#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

/// Scales all gradients together so that their common norm is at most max_norm; returns the norm before. `norm_type`
/// may be infinite. Parameters without a gradient are left out.
Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, double norm_type = 2);
/// Clamps every gradient to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& params, double clip_value);

}  // namespace core

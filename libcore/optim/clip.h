#pragma once
// Clipping gradients. As torch.nn.utils.clip_grad_norm_ and clip_grad_value_.
// Thread safety: none. Use: core::clip_grad_norm_(model.parameters(), 1.0);

#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

/// Scales all gradients together so that their common norm is at most max_norm; returns the norm before. `norm_type`
/// may be infinite. Parameters without a gradient are left out. With `error_if_nonfinite`, Error(runtime) "The total
/// norm of order 2.0 for gradients from `parameters` is non-finite, ...", and the gradients stay.
Tensor clip_grad_norm_(const std::vector<Tensor>& params, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);
/// The norm that clip_grad_norm_ finds. An empty list has norm 0.
Tensor total_norm(const std::vector<Tensor>& tensors, double norm_type = 2);
/// As total_norm(), by PyTorch's name and with the error of clip_grad_norm_.
Tensor get_total_norm(const std::vector<Tensor>& tensors, double norm_type = 2, bool error_if_nonfinite = false);
/// The other half of clip_grad_norm_: scales the gradients to a norm of `max_norm`, where they had `total_norm`.
void clip_grads_with_norm_(const std::vector<Tensor>& params, double max_norm, const Tensor& total_norm);
/// Clamps every gradient to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& params, double clip_value);

}  // namespace core

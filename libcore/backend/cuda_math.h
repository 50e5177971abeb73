#pragma once
// How GPUs compute. Thread safety: all functions. Use: core::cuda::set_allow_tf32(true);

namespace core::cuda {

/// As torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32: products of f32 matrices, and
/// convolutions, may round their factors to 10 bits of mantissa, which tensor cores compute several times faster. Off
/// by default, for both. Only GPUs have such products.
void set_allow_tf32(bool allowed);
bool is_tf32_allowed();

}  // namespace core::cuda

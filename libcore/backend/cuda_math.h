#pragma once
// How GPUs compute. Thread safety: all functions. Use: core::cuda::set_allow_tf32(true);

namespace core {

namespace cuda {

/// As torch.backends.cuda.matmul.allow_tf32: products of f32 matrices may round their factors to 10 bits of mantissa,
/// which tensor cores compute several times faster. Off by default. Only GPUs have such products.
void set_allow_tf32(bool allowed);
bool is_tf32_allowed();

}  // namespace cuda

namespace cudnn {

/// As torch.backends.cudnn.allow_tf32: the same for the convolutions of f32 that cuDNN computes. On by default, as in
/// PyTorch.
void set_allow_tf32(bool allowed);
bool is_tf32_allowed();

}  // namespace cudnn

}  // namespace core

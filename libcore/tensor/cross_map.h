#pragma once
// The response normalisation of torch.nn.CrossMapLRN2d. Thread safety: pure. Use: core::cross_map_lrn2d(x, 5);

#include "libcore/tensor/norm_ops.h"

namespace core {

/// As the module (module/norm.h), which says what is peculiar. x: (N, C, H, W).
/// Error(value) "CrossMapLRN2d: Expected input to be 4D, got 2D instead."
Tensor cross_map_lrn2d(const Tensor& x, std::int64_t size, const ResponseNormOptions& options = {});

}  // namespace core

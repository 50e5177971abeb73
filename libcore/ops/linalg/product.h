#pragma once
// Products and powers of matrices, as torch.linalg: results, errors and gradients are PyTorch's.
// Thread safety: pure functions. Use: core::Tensor y = core::linalg::multi_dot({a, b, c});

#include <cstdint>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core::linalg {

Tensor matrix_power(const Tensor& a, std::int64_t n);

/// Products in the order that costs least.
Tensor multi_dot(const std::vector<Tensor>& tensors);
Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t dim = -1);
Tensor diagonal(const Tensor& a, std::int64_t offset = 0, std::int64_t dim1 = -2, std::int64_t dim2 = -1);

/// The root of symmetric (Hermitian) positive-definite matrices, of which the lower triangle is read: X with X @ X = a.
Tensor matrix_sqrth(const Tensor& a);

/// The exponential: I + a + a @ a / 2 + ...
Tensor matrix_exp(const Tensor& a);

}  // namespace core::linalg

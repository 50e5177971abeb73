#pragma once
// Views of a tensor beyond the methods of Tensor, as torch.X: results, errors and gradients are PyTorch's.
// Thread safety: pure functions. Use: std::vector<core::Tensor> halves = core::tensor_split(x, 2);

#include <cstdint>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

/// Nearly equal parts: the first ones are longer by one.
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim = 0);

/// Cut at these positions.
std::vector<Tensor> tensor_split(const Tensor& x, const Shape& positions, std::int64_t dim = 0);
std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections);
Tensor movedim(const Tensor& x, const Shape& from, const Shape& to);
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);

/// The last two dimensions swapped. Error(runtime) for fewer than two.
Tensor matrix_transpose(const Tensor& x);
Tensor broadcast_to(const Tensor& x, const Shape& sizes);
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
Tensor ravel(const Tensor& x);

/// The given dimensions of size 1.
Tensor squeeze(const Tensor& x, const Shape& dims);
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor atleast_3d(const Tensor& x);

}  // namespace core

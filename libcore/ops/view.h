#pragma once
// Views of a tensor beyond the methods of Tensor, as torch.X: results, errors and gradients are PyTorch's.
// Thread safety: pure functions; those in place (name_) write their first argument. Use: std::vector<core::Tensor>
// halves = core::tensor_split(x, 2);

#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

/// Nearly equal parts: the first ones are longer by one.
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim = 0);

/// Cut at these positions.
std::vector<Tensor> tensor_split(const Tensor& x, const Shape& positions, std::int64_t dim = 0);
std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> dsplit(const Tensor& x, std::int64_t sections);
Tensor movedim(const Tensor& x, const Shape& from, const Shape& to);
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);

/// The last two dimensions swapped. Error(runtime) for fewer than two.
Tensor matrix_transpose(const Tensor& x);
Tensor broadcast_to(const Tensor& x, const Shape& sizes);
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors);
Tensor ravel(const Tensor& x);

/// The given dimensions of size 1.
Tensor squeeze(const Tensor& x, const Shape& dims);

/// A copy of narrow().
Tensor narrow_copy(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length);
// Copies of views, dense and with history: torch.X_copy.
Tensor alias_copy(const Tensor& x);
Tensor detach_copy(const Tensor& x);
Tensor as_strided_copy(const Tensor& x, const Shape& sizes, const Shape& strides,
                       std::optional<std::int64_t> offset = {});
Tensor diagonal_copy(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1);
Tensor expand_copy(const Tensor& x, const Shape& sizes);
Tensor permute_copy(const Tensor& x, const Shape& dims);
Tensor select_copy(const Tensor& x, std::int64_t dim, std::int64_t index);
Tensor slice_copy(const Tensor& x, std::int64_t dim = 0, std::optional<std::int64_t> start = {},
                  std::optional<std::int64_t> end = {}, std::int64_t step = 1);
Tensor squeeze_copy(const Tensor& x);
Tensor squeeze_copy(const Tensor& x, std::int64_t dim);
Tensor unsqueeze_copy(const Tensor& x, std::int64_t dim);
Tensor t_copy(const Tensor& x);
Tensor transpose_copy(const Tensor& x, std::int64_t a, std::int64_t b);
Tensor unfold_copy(const Tensor& x, std::int64_t dim, std::int64_t size, std::int64_t step);
Tensor view_copy(const Tensor& x, const Shape& sizes);
Tensor view_as_real_copy(const Tensor& x);
Tensor view_as_complex_copy(const Tensor& x);
std::vector<Tensor> split_copy(const Tensor& x, std::int64_t size, std::int64_t dim = 0);
std::vector<Tensor> split_with_sizes_copy(const Tensor& x, const Shape& sizes, std::int64_t dim = 0);
std::vector<Tensor> unbind_copy(const Tensor& x, std::int64_t dim = 0);

/// x summed to a shape that broadcasts to its own. Error(runtime) "size {[4]} is not expandable to size {[2, 3]}.".
Tensor sum_to_size(const Tensor& x, const Shape& sizes);
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor atleast_3d(const Tensor& x);

// In place: x takes other sizes over the same elements. Error(not_implemented) for a view that takes part in a graph.
const Tensor& t_(const Tensor& x);
const Tensor& transpose_(const Tensor& x, std::int64_t a, std::int64_t b);
const Tensor& squeeze_(const Tensor& x);
const Tensor& squeeze_(const Tensor& x, std::int64_t dim);
const Tensor& unsqueeze_(const Tensor& x, std::int64_t dim);
const Tensor& as_strided_(const Tensor& x, const Shape& sizes, const Shape& strides,
                          std::optional<std::int64_t> offset = {});

/// x takes this shape over its memory from its first element on, dense; memory that is new is uninitialised.
/// Error(runtime) "cannot resize variables that require grad"; Error(not_implemented) where several tensors share
/// memory that would have to grow.
const Tensor& resize_(const Tensor& x, const Shape& sizes);
const Tensor& resize_as_(const Tensor& x, const Tensor& other);

}  // namespace core

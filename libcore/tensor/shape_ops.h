#pragma once
// Joining, splitting, turning and spreading tensors, as torch.X: results, views, errors and gradients are PyTorch's.
// cat and stack are in ops.h; the views that are methods of Tensor in tensor.h. Thread safety: pure functions.
// Use: core::Tensor y = core::hstack({a, b}); core::Tensor z = core::rot90(image, 1, {-2, -1});

#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/tensor/ops.h"

namespace core {

// --- joining
Tensor hstack(const std::vector<Tensor>& parts);
Tensor vstack(const std::vector<Tensor>& parts);
Tensor dstack(const std::vector<Tensor>& parts);
Tensor column_stack(const std::vector<Tensor>& parts);
/// Along a diagonal, zeros elsewhere.
Tensor block_diag(const std::vector<Tensor>& parts);
/// Every combination of one element each, a row a combination.
Tensor cartesian_prod(const std::vector<Tensor>& lists);
/// Every choice of r elements of a list, a row a choice.
Tensor combinations(const Tensor& list, std::int64_t r = 2, bool with_replacement = false);

// --- splitting: views
/// Nearly equal parts: the first ones are longer by one.
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, std::int64_t dim = 0);
/// Cut at these positions.
std::vector<Tensor> tensor_split(const Tensor& x, const Shape& positions, std::int64_t dim = 0);
std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections);

// --- views in another shape
Tensor movedim(const Tensor& x, const Shape& from, const Shape& to);
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);
/// The last two dimensions swapped. Error(runtime) for fewer than two.
Tensor matrix_transpose(const Tensor& x);
Tensor broadcast_to(const Tensor& x, const Shape& sizes);
Tensor ravel(const Tensor& x);
/// The given dimensions of size 1.
Tensor squeeze(const Tensor& x, const Shape& dims);
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);
Tensor atleast_3d(const Tensor& x);

// --- turned and mirrored copies
/// k quarter turns from the first towards the second of the two dimensions.
Tensor rot90(const Tensor& x, std::int64_t k = 1, const Shape& dims = {0, 1});
Tensor fliplr(const Tensor& x);
Tensor flipud(const Tensor& x);

// --- diagonals and triangles
/// Zeros with the last dimension of x on a diagonal of two new dimensions.
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = -2, std::int64_t dim2 = -1);
Tensor diagflat(const Tensor& x, std::int64_t offset = 0);
/// Positions of a triangle's elements: (2, count), int64.
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0);
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0);
/// Columns are the powers of x from the highest down.
Tensor vander(const Tensor& x, std::optional<std::int64_t> count = {}, bool increasing = false);

// --- products
/// The sum of the diagonal. Error(runtime) "trace: expected a matrix, but got tensor with dim 3".
Tensor trace(const Tensor& x);
Tensor inner(const Tensor& a, const Tensor& b);
Tensor vdot(const Tensor& a, const Tensor& b);
Tensor kron(const Tensor& a, const Tensor& b);
/// Sums over pairs of dimensions: the last `count` of a with the first of b, or those named.
Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t count = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& dims_a, const Shape& dims_b);
/// Of vectors of three elements along dim; shapes broadcast.
Tensor cross(const Tensor& a, const Tensor& b, std::int64_t dim = -1);
/// beta * c + alpha * outer(a, b)
Tensor addr(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
/// beta * c + alpha * the sum of a[i] @ b[i]
Tensor addbmm(const Tensor& c, const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1);
Tensor matrix_power(const Tensor& x, std::int64_t n);
/// The product of matrices in the given order.
Tensor chain_matmul(const std::vector<Tensor>& matrices);

}  // namespace core

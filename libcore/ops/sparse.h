#pragma once
// Sparse tensors in coordinate form: the rows (or elements) that are not zero and where they are. As torch's
// sparse_coo layout; they come as gradients of Embedding(sparse = true), and SGD, SparseAdam and Adagrad take them.
// Of the operations, add, mul by a number, sum, norm, clone, to, zero_ and printing know them; all others say so.
// Thread safety: as Tensor. No history passes through a sparse tensor.
// Use: core::Tensor g = core::sparse_coo_tensor(indices, values, {1000, 64}); core::Tensor dense = core::to_dense(g);

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "libcore/tensor/tensor.h"

namespace core {

enum class BinaryOp : std::uint8_t;
enum class Layout { strided, sparse_coo };
Layout layout(const Tensor& x);
/// "torch.strided", "torch.sparse_coo".
std::string to_string(Layout layout);
std::ostream& operator<<(std::ostream& out, Layout layout);

/// indices: int64 (sparse dimensions, n); values: (n, remaining sizes). A place that occurs several times stands for
/// the sum. Errors(runtime): PyTorch's texts for sizes that do not fit and places outside.
Tensor sparse_coo_tensor(const Tensor& indices, const Tensor& values, const Shape& sizes);
/// The elements of a dense tensor that are not 0; with sparse_dim the rows of its first so many dimensions that are not
/// all 0. Error(runtime) "dense_to_sparse: sparse_dim argument must be in [0,2] range, but 3 is given".
Tensor to_sparse(const Tensor& x, std::optional<std::int64_t> sparse_dim = {});
/// x, dense, at the places of a sparse tensor of the same sizes.
Tensor sparse_mask(const Tensor& x, const Tensor& mask);
/// Itself when it is dense already.
Tensor to_dense(const Tensor& x);
/// Each place once, in ascending order.
Tensor coalesce(const Tensor& x);
bool is_coalesced(const Tensor& x);
/// Error(runtime) "Cannot get indices on an uncoalesced tensor, please call .coalesce() first".
Tensor sparse_indices(const Tensor& x);
Tensor sparse_values(const Tensor& x);
/// Places held, those that occur several times included.
std::int64_t nnz(const Tensor& x);
std::int64_t sparse_dim(const Tensor& x);
std::int64_t dense_dim(const Tensor& x);

namespace detail {

/// What a sparse tensor holds, as it is.
struct SparseParts {
  Tensor indices;  ///< int64 (sparse dimensions, n)
  Tensor values;   ///< (n, ...)
  bool coalesced = false;
};
/// Costs next to nothing for the usual, dense row-major tensor.
template <class... T>
bool any_sparse(const T&... x) {
  return ((!x.is_contiguous() && x.is_sparse()) || ...);
}
/// REQUIRES: x.is_sparse().
const SparseParts& parts_of(const Tensor& x);
void set_parts(const Tensor& x, SparseParts parts);

/// Error(runtime) "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
Tensor sparse_add(const Tensor& a, const Tensor& b, Scalar alpha);
void sparse_add_into(const Tensor& a, const Tensor& b, Scalar alpha);
/// add, sub (times alpha) and mul, where a or b is sparse; others throw.
Tensor sparse_binary(BinaryOp op, const Tensor& a, const Tensor& b, Scalar alpha);
/// b: one number.
Tensor sparse_mul(const Tensor& x, const Tensor& b);
Tensor sparse_clone(const Tensor& x);
Tensor sparse_to(const Tensor& x, const ToOptions& options);
/// The elements of a dense tensor at the places of a sparse one: (n, ...).
Tensor rows_at(const Tensor& dense, const Tensor& indices);
[[noreturn]] void throw_sparse();

}  // namespace detail
}  // namespace core

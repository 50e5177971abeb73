#pragma once
// Operations without history: checks of shapes, dtypes and devices, then the backend's slot. The functions of ops.h
// call these and record a node; kernels' own code and backward formulas that need no second derivative may call them
// too. Thread safety: pure functions; *_into write their first argument. Errors: PyTorch's texts. Use: core::Tensor y =
// core::raw::binary(core::BinaryOp::mul, a, b);

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "libcore/backend/backend.h"
#include "libcore/tensor/inline_vector.h"
#include "libcore/tensor/ops.h"

namespace core::raw {

using OpArgs = std::array<double, 3>;

// --- allocation and views
/// Dense row-major, uninitialised.
Tensor make(const Shape& sizes, DType dtype, Backend& backend);
Tensor make_strided(const Shape& sizes, const Shape& strides, DType dtype, Backend& backend);
/// Uninitialised, laid out like `like` (its strides when dense, else row-major).
Tensor make_like(const Tensor& like, DType dtype);
/// The same on another device, contents undefined.
Tensor make_like_on(const Tensor& like, Backend& backend);
bool is_row_major(const Shape& sizes, const Shape& strides);
Tensor view(const Tensor& x, const Shape& sizes, const Shape& strides, std::int64_t offset);
/// Shares storage and version counter.
Tensor alias(const Tensor& x);
inline Backend& backend_of(const Tensor& x) {
  return x.storage()->backend();
}

// --- moving
/// Same dtype and device give the same tensor.
Tensor cast(const Tensor& x, DType dtype);
/// non_blocking: between pinned memory and a device the call may return before the bytes have moved; on the way to the
/// host the new tensor is pinned, and may be read after a synchronisation.
enum class Waiting { blocking, non_blocking };
Tensor move(const Tensor& x, Backend& to, Waiting waiting = Waiting::blocking);
Tensor contiguous(const Tensor& x);
/// Keeps dense layouts, as PyTorch's clone.
Tensor clone(const Tensor& x);
/// Broadcasts, casts and crosses devices.
void copy_into(const Tensor& out, const Tensor& in);
void fill_into(const Tensor& out, Scalar value);
/// One element of `dtype` (at most 8 bytes) holding the value.
void store_scalar(void* to, Scalar value, DType dtype);

// --- element by element
Tensor unary(UnaryOp op, const Tensor& x, const OpArgs& args = {});
void unary_into(UnaryOp op, const Tensor& out, const Tensor& x, const OpArgs& args = {});
Tensor predicate(PredicateOp op, const Tensor& x);
Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b, const OpArgs& args = {1, 0, 0});
Tensor binary(BinaryOp op, const Tensor& a, Scalar b, const OpArgs& args = {1, 0, 0});
Tensor binary(BinaryOp op, Scalar a, const Tensor& b, const OpArgs& args = {1, 0, 0});
/// out = op(out, b)
void binary_in_place(BinaryOp op, const Tensor& out, const Tensor& b, const OpArgs& args = {1, 0, 0});
void binary_in_place(BinaryOp op, const Tensor& out, Scalar b, const OpArgs& args = {1, 0, 0});
Tensor compare(CompareOp op, const Tensor& a, const Tensor& b);
Tensor compare(CompareOp op, const Tensor& a, Scalar b);
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
Tensor ternary(TernaryOp op, const Tensor& a, const Tensor& b, const Tensor& c, double value);
/// A 0-dim tensor that is as weak as a number in type promotion.
Tensor wrapped(Scalar value, Backend& backend);

// --- reductions; `dims` as given by the user (negative allowed, empty: all)
Tensor reduce(ReduceOp op, const Tensor& x, const ReduceOptions& options, const std::array<double, 2>& args = {});
/// The sum over the rows of a matrix: one element a column.
Tensor column_sums(const Tensor& x);
ValuesIndices reduce_with_indices(ReduceOp op, const Tensor& x, std::int64_t dim, bool keepdim);
Tensor scan(ScanOp op, const Tensor& x, std::int64_t dim);
ValuesIndices sort(const Tensor& x, std::int64_t dim, bool descending);

// --- products
/// a (m, k) @ b (k, n), or batches of them with equal leading sizes. `name` stands in messages.
struct ProductOptions {
  Scalar beta = 0;
  Scalar alpha = 1;
  Tensor start = {};  ///< broadcast to the result, times beta
};
Tensor product(const Tensor& a, const Tensor& b, const ProductOptions& options = {});
/// x (m, k) @ weight (n, k)^T + bias (n) in one kernel; undefined when types, sizes or layouts ask for the general way,
/// which then has the errors.
Tensor try_linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

// --- indexing along one dimension
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);
/// out[..., index, ...] = or += from, on `out` itself. index: 1-d.
void index_into(IndexOp op, const Tensor& out, std::int64_t dim, const Tensor& index, const Tensor& from);
/// The same with an index of from's rank.
void scatter_into(IndexOp op, const Tensor& out, std::int64_t dim, const Tensor& index, const Tensor& from);
Tensor cat(std::span<const Tensor> parts, std::int64_t dim);
Tensor nonzero(const Tensor& x);

// --- shared checks
/// dim in [-rank, rank) -> [0, rank); a 0-dim tensor counts as rank 1. Error(index) "Dimension out of range ...".
std::int64_t wrap_dim(std::int64_t dim, std::int64_t rank);
/// Flags of the reduced dimensions. Error "dim 0 appears multiple times in the list of dims".
InlineVector<bool, 8> reduced_dims(const Shape& dims, std::int64_t rank);
/// Error(runtime) "Expected all tensors to be on the same device, ..." unless a 0-dim CPU tensor may mix.
Backend& common_backend(std::span<const Tensor* const> tensors);
std::string mixed_device_text(const Backend& first, const Backend& second);
[[noreturn]] void throw_unsupported(std::string_view operation, const Backend& backend, DType dtype);

}  // namespace core::raw

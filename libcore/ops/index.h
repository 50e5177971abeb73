#pragma once
// Elements by their index: Python's brackets (integers, slices, None, Ellipsis and index tensors in one list), and
// torch.gather and its kin. What writes by index is in scatter.h.
// Thread safety: pure functions; index_put_ writes its first argument.
// Use: core::index(x, {core::Slice{1, {}}, core::Ellipsis(), 0});  // x[1:, ..., 0]

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

/// Python's None where one is written: an end of a slice, a new dimension, a tensor that is not there.
struct NoneType {
  template <class T>
  constexpr operator std::optional<T>() const {  // NOLINT(google-explicit-constructor): stands for it
    return std::nullopt;
  }
  operator Tensor() const { return {}; }  // NOLINT(google-explicit-constructor): stands for it
};
inline constexpr NoneType None;

/// start:stop:step. Slice() is `:`, Slice(1, None) is `1:`, Slice(None, 3) is `:3`; unlike Python's slice(3), Slice(3)
/// is `3:`, as libtorch's.
struct Slice {
  std::optional<std::int64_t> start = {};
  std::optional<std::int64_t> stop = {};
  std::int64_t step = 1;

  Slice() = default;
  Slice(std::optional<std::int64_t> first, std::optional<std::int64_t> end = {}, std::int64_t by = 1)
      : start(first), stop(end), step(by) {}
};

struct Ellipsis {};

/// None: a new dimension of size 1.
struct NewAxis {};

class TensorIndex {
 public:
  TensorIndex(std::int64_t at) : item_(at) {}                    // NOLINT(google-explicit-constructor)
  TensorIndex(int at) : item_(static_cast<std::int64_t>(at)) {}  // NOLINT(google-explicit-constructor)
  TensorIndex(Slice slice) : item_(slice) {}                     // NOLINT(google-explicit-constructor)
  TensorIndex(Ellipsis ellipsis) : item_(ellipsis) {}            // NOLINT(google-explicit-constructor)
  TensorIndex(NewAxis axis) : item_(axis) {}                     // NOLINT(google-explicit-constructor)
  TensorIndex(NoneType) : item_(NewAxis()) {}                    // NOLINT(google-explicit-constructor)
  /// Integers (negative ones count from the end) or a bool mask; several broadcast together.
  TensorIndex(Tensor positions) : item_(std::move(positions)) {}  // NOLINT(google-explicit-constructor)

  const auto& item() const { return item_; }

 private:
  std::variant<std::int64_t, Slice, Ellipsis, NewAxis, Tensor> item_;
};

/// A view where only integers, slices, None and Ellipsis are used, else a copy. Errors: Python's and PyTorch's texts
/// ("too many indices for tensor of dimension 2", "index 7 is out of bounds for dimension 0 with size 3").
Tensor index(const Tensor& x, const std::vector<TensorIndex>& items);

/// x[items] = values, or += with accumulate (each of several values for one place counts then). values broadcast.
/// Errors(runtime): "shape mismatch: value tensor of shape [2] cannot be broadcast to indexing result of shape [3]",
/// "Index put requires the source and destination dtypes match, got Float for the destination and Double for the
/// source."
const Tensor& index_put_(const Tensor& x, const std::vector<TensorIndex>& items, const Tensor& values,
                         bool accumulate = false);

const Tensor& index_put_(const Tensor& x, const std::vector<TensorIndex>& items, Scalar value, bool accumulate = false);

/// A copy of x in which that is so.
Tensor index_put(const Tensor& x, const std::vector<TensorIndex>& items, const Tensor& values, bool accumulate = false);
Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);
Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);

/// Elements of the flattened tensor. Error(index) "out of range: tried to access index 9 on a tensor of 6 elements.".
Tensor take(const Tensor& x, const Tensor& index);

/// gather whose other dimensions broadcast; without dim from the flattened tensor.
Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim = {});
Tensor masked_select(const Tensor& x, const Tensor& mask);

/// (count, x.dim()), int64.
Tensor nonzero(const Tensor& x);

/// The first `size` rows of nonzero(), filled up with fill_value.
/// Error(runtime) "nonzero_static: 'size' must be an non-negative integer".
Tensor nonzero_static(const Tensor& x, std::int64_t size, std::int64_t fill_value = -1);

/// The coordinates in a tensor of `sizes` of positions in the flattened one: one tensor a dimension.
/// Errors(value): PyTorch's texts for other dtypes and negative sizes.
std::vector<Tensor> unravel_index(const Tensor& indices, const Shape& sizes);

/// (count, x.dim()): as nonzero.
Tensor argwhere(const Tensor& x);

}  // namespace core

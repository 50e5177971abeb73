#pragma once
// What the files of linear algebra share: checks with PyTorch's texts, and column-major copies for LAPACK.
// Internal to ops.

#include <algorithm>
#include <complex>
#include <string>

#include "libcore/backend/complex_elements.h"
#include "libcore/backend/lapack.h"
#include "libcore/base/error.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

[[noreturn]] inline void linalg_fail(const std::string& text) {
  throw Error(ErrorCode::runtime, text);
}

/// Error(runtime) "linalg.inv: The input tensor A must have at least 2 dimensions."
void check_matrix(const Tensor& a, const char* name);
/// ... and "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices".
void check_square(const Tensor& a, const char* name);
/// Error(not_implemented) "linalg.inv: Expected a floating point or complex tensor as input. Got Long".
void check_linalg_type(const Tensor& a, const char* name, bool allow_low = false);
/// That a x = b (left) or x a = b can hold. Errors: "linalg.solve: Incompatible shapes of A and B for the equation AX =
/// B (3x3 and 2x1)" and that of two dtypes.
void check_equation(const Tensor& a, const Tensor& b, const char* name, bool left);
/// " (Batch element 2):" or ":" behind a name, for matrix `index` of `a`.
std::string batch_text(const Tensor& a, std::size_t index);

/// Matrices of one tensor, each column-major in memory of its own; results come back as tensors on `like`'s device.
template <class T>
class Columns {
 public:
  /// A copy.
  explicit Columns(const Tensor& a) : Columns(a.sizes()) {
    const NoGradGuard no_history;
    const Tensor turned = a.detach().mT().to(Device(), dtype_of<T>).contiguous();
    const T* from = turned.data<T>();
    std::copy(from, from + turned.numel(), data_.begin());
  }
  /// Zeros. sizes: (..., rows, columns)
  explicit Columns(const Shape& sizes)
      : sizes_(sizes),
        rows_(static_cast<int>(sizes[sizes.size() - 2])),
        columns_(static_cast<int>(sizes[sizes.size() - 1])),
        data_(static_cast<std::size_t>(sizes.numel())) {}

  int rows() const { return rows_; }
  int columns() const { return columns_; }
  T* matrix(std::size_t index) { return data_.data() + index * step(); }
  T& at(std::size_t index, int row, int column) {
    return matrix(
        index)[static_cast<std::size_t>(column) * static_cast<std::size_t>(rows_) + static_cast<std::size_t>(row)];
  }
  Tensor tensor(Device device) const {
    Shape turned = sizes_;
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    return from_values(std::span<const T>(data_), turned, {.device = device}).mT().contiguous();
  }

 private:
  std::size_t step() const { return static_cast<std::size_t>(rows_) * static_cast<std::size_t>(columns_); }

  Shape sizes_;
  int rows_, columns_;
  std::vector<T> data_;
};

/// The batch dimensions of matrices.
inline Shape batch_sizes(const Tensor& a) {
  Shape sizes;
  for (std::int64_t d = 0; d + 2 < a.dim(); ++d) sizes.push_back(a.size(d));
  return sizes;
}
inline std::size_t batch_count(const Tensor& a) {
  return static_cast<std::size_t>(batch_sizes(a).numel());
}
/// (batch..., more...)
inline Shape with_sizes(Shape batch, std::initializer_list<std::int64_t> more) {
  for (const std::int64_t size : more) batch.push_back(size);
  return batch;
}
template <class T>
Tensor batch_tensor(const std::vector<T>& values, const Shape& sizes, Device device) {
  return from_values(std::span<const T>(values), sizes, {.device = device});
}

/// Whether LAPACK computes with it.
inline bool is_lapack_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::c64 || dtype == DType::c128;
}
/// The conjugate of the transpose; of real matrices the transpose.
inline Tensor turned(const Tensor& a) {
  return conj(a.mT());
}

/// body.template operator()<T>() in the type of `a`, real or complex.
template <class Body>
auto in_linalg_type(const Tensor& a, Body body) {
  switch (a.dtype()) {
    case DType::f64:
      return body.template operator()<double>();
    case DType::c64:
      return body.template operator()<std::complex<float>>();
    case DType::c128:
      return body.template operator()<std::complex<double>>();
    default:
      return body.template operator()<float>();
  }
}
/// The same of real numbers alone.
template <class Body>
auto in_real_type(const Tensor& a, Body body) {
  if (a.dtype() == DType::f64) return body.template operator()<double>();
  return body.template operator()<float>();
}

/// `seen`: the gradient of complex vectors, whose columns may turn by any phase, seen from these.
void check_phase(const Tensor& seen, const char* what, const char* so);

/// x with its diagonal halved and nothing above it.
Tensor half_lower(const Tensor& x);
/// A column for each matrix: (..., n) -> (..., n, 1).
inline Tensor column(const Tensor& x) {
  return x.unsqueeze(-1);
}
inline Tensor row(const Tensor& x) {
  return x.unsqueeze(-2);
}
/// (...) -> (..., 1, 1)
inline Tensor corner(const Tensor& x) {
  return x.unsqueeze(-1).unsqueeze(-1);
}

/// x_j - x_i off the diagonal, 1 on it.
inline Tensor differences(const Tensor& x) {
  const Tensor all = row(x) - column(x);
  return all + diag_embed(ones_like(x));
}

inline Tensor info_tensor(const std::vector<std::int32_t>& info, const Tensor& a) {
  return batch_tensor(info, batch_sizes(a), a.device());
}

}  // namespace core::detail

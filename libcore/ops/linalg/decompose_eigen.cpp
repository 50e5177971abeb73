#include "libcore/ops/linalg/decompose.h"

#include <span>
#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

void check_complex_result(const Tensor& a, const char* name) {
  if (!is_floating(a.dtype())) {
    linalg_fail(std::string("Unknown Complex ScalarType for ") + scalar_type_name(a.dtype()));
  }
  check_square(a, "linalg.eig");
  if (a.dtype() != DType::f32 && a.dtype() != DType::f64) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"linalg_eig_out_cpu\" not implemented for '") + scalar_type_name(a.dtype()) + "'");
  }
  if (!isfinite(a.detach()).all().item<bool>()) {
    linalg_fail("torch.linalg.eig: input tensor should not contain infs or NaNs.");
  }
  if (!needs_grad(a)) return;
  throw Error(ErrorCode::not_implemented,
              std::string("linalg.") + name +
                  ": eigenvalues of matrices that are not symmetric have no gradients here; use eigh, or detach() the "
                  "matrix");
}

/// Values, and vectors where wanted, as pairs of numbers: (..., n, 2) and (..., n, n, 2).
template <class T>
Eigen eigen_pairs(const Tensor& a, bool wants_vectors) {
  Columns<T> work(a), columns(wants_vectors ? a.sizes() : Shape{0, 0});
  const auto n = static_cast<std::size_t>(work.rows());
  std::vector<T> values, vectors(wants_vectors ? 2 * n * n * batch_count(a) : 0), real(n), imaginary(n);
  for (std::size_t b = 0; b < batch_count(a); ++b) {
    T* of_batch = wants_vectors ? columns.matrix(b) : nullptr;
    const int info = n == 0 ? 0 : lapack::eig(work.rows(), work.matrix(b), real.data(), imaginary.data(), of_batch);
    if (info != 0) {
      linalg_fail("linalg.eig" + batch_text(a, b) +
                  "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
                  "repeated eigenvalues (error code: " +
                  std::to_string(info) + ").");
    }
    for (std::size_t j = 0; j < n; ++j) values.insert(values.end(), {real[j], imaginary[j]});
    for (std::size_t j = 0; wants_vectors && j < n; ++j) {
      const bool first = imaginary[j] > 0, second = imaginary[j] < 0;
      for (std::size_t i = 0; i < n; ++i) {
        T* to = vectors.data() + 2 * ((b * n + i) * n + j);
        to[0] = of_batch[(second ? j - 1 : j) * n + i];
        to[1] = first ? of_batch[(j + 1) * n + i] : second ? -of_batch[j * n + i] : T(0);
      }
    }
  }
  const auto size = static_cast<std::int64_t>(n);
  const auto as_complex = [&](const std::vector<T>& pairs, const Shape& sizes) {
    constexpr DType kComplex = sizeof(T) == 8 ? DType::c128 : DType::c64;
    return from_bytes(std::as_bytes(std::span<const T>(pairs)), sizes, kComplex, {.device = a.device()});
  };
  return {as_complex(values, with_sizes(batch_sizes(a), {size})),
          wants_vectors ? as_complex(vectors, a.sizes()) : Tensor()};
}

Eigen eigen(const Tensor& a, bool wants_vectors) {
  if (a.dtype() == DType::f64) return eigen_pairs<double>(a, wants_vectors);
  return eigen_pairs<float>(a, wants_vectors);
}

}  // namespace

Eigen eig(const Tensor& a) {
  const core::detail::OpScope scope("linalg_eig", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return eig(to(a));
  check_matrix(a, "linalg.eig");
  check_complex_result(a, "eig");
  return eigen(a, true);
}

Tensor eigvals(const Tensor& a) {
  const core::detail::OpScope scope("linalg_eigvals", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return eigvals(to(a));
  check_matrix(a, "linalg.eig");
  check_complex_result(a, "eigvals");
  return eigen(a, false).values;
}

}  // namespace core::linalg

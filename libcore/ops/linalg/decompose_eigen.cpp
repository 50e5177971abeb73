#include "libcore/ops/linalg/decompose.h"

#include <complex>
#include <span>
#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

void check_general(const Tensor& a) {
  if (!is_floating(a.dtype()) && !is_complex(a)) {
    linalg_fail(std::string("Unknown Complex ScalarType for ") + scalar_type_name(a.dtype()));
  }
  check_square(a, "linalg.eig");
  if (!is_lapack_type(a.dtype())) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"linalg_eig_out_cpu\" not implemented for '") + scalar_type_name(a.dtype()) + "'");
  }
  if (!isfinite(a.detach()).all().item<bool>()) {
    linalg_fail("torch.linalg.eig: input tensor should not contain infs or NaNs.");
  }
}

void check_converged(int info, const Tensor& a, std::size_t batch) {
  if (info == 0) return;
  linalg_fail("linalg.eig" + batch_text(a, batch) +
              "The algorithm failed to converge because the input matrix is ill-conditioned or has too many "
              "repeated eigenvalues (error code: " +
              std::to_string(info) + ").");
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
    check_converged(info, a, b);
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

/// Of complex matrices.
template <class T>
Eigen eigen_columns(const Tensor& a, bool wants_vectors) {
  using C = std::complex<T>;
  Columns<C> work(a), vectors(wants_vectors ? a.sizes() : Shape{0, 0});
  const int n = work.rows();
  std::vector<C> values(static_cast<std::size_t>(n) * batch_count(a));
  for (std::size_t b = 0; n > 0 && b < batch_count(a); ++b) {
    C* of_batch = values.data() + b * static_cast<std::size_t>(n);
    check_converged(lapack::eig(n, work.matrix(b), of_batch, wants_vectors ? vectors.matrix(b) : nullptr), a, b);
  }
  return {batch_tensor(values, with_sizes(batch_sizes(a), {n}), a.device()),
          wants_vectors ? vectors.tensor(a.device()) : Tensor()};
}

Eigen eigen(const Tensor& a, bool wants_vectors) {
  switch (a.dtype()) {
    case DType::f64:
      return eigen_pairs<double>(a, wants_vectors);
    case DType::c64:
      return eigen_columns<float>(a, wants_vectors);
    case DType::c128:
      return eigen_columns<double>(a, wants_vectors);
    default:
      return eigen_pairs<float>(a, wants_vectors);
  }
}

/// Source: Boeddeker, Hanebrink, Drude, Heymann, Haeb-Umbach, "On the computation of complex-valued gradients with
/// application to statistically optimum beamforming", 2017, section 4.
struct EigBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "LinalgEigBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor values = saved(0), v = saved(1), back = turned(v);
    const Tensor of_values = g[0].defined() ? diag_embed(g[0]) : Tensor();
    Tensor inner = of_values;
    if (g[1].defined()) {
      const Tensor seen = matmul(back, g[1]);
      check_phase(seen, "linalg_eig_backward: The eigenvectors", "quantity, so it is ill-defined.");
      const Tensor along = real(seen.diagonal(0, -2, -1));  // vectors stay of size 1
      const Tensor across = seen - matmul(back, v * row(along));
      const Tensor gaps = conj(row(values) - column(values));
      const Tensor same = eye(values.size(-1), values.size(-1), {.dtype = DType::boolean, .device = values.device()});
      inner = masked_fill(across / masked_fill(gaps, same, 1), same, 0);
      if (of_values.defined()) inner = inner + of_values;
    }
    return {solve(back, matmul(inner, back))};
  }
};

}  // namespace

Eigen eig(const Tensor& a) {
  const core::detail::OpScope scope("linalg_eig", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return eig(to(a));
  check_matrix(a, "linalg.eig");
  check_general(a);
  Eigen f = eigen(a, true);
  if (!needs_grad(a)) return f;
  auto node = make_node<EigBackward>(a);
  record(f.values, node);
  record(f.vectors, node);
  node->save_output(f.values);
  node->save_output(f.vectors);
  return f;
}

Tensor eigvals(const Tensor& a) {
  if (needs_grad(a)) return eig(a).values;
  const core::detail::OpScope scope("linalg_eigvals", a);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return eigvals(to(a));
  check_matrix(a, "linalg.eig");
  check_general(a);
  return eigen(a, false).values;
}

}  // namespace core::linalg

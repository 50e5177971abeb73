#include "libcore/ops/linalg/product.h"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::linalg {
namespace {

using core::detail::fail;
using namespace detail;  // the file's own helpers

/// sum of x^k / k! for k to 16, in six products: four terms at a time.
Tensor exponential_series(const Tensor& x) {
  const Tensor one = eye(x.size(-1), {}, {.dtype = x.dtype(), .device = x.device()}).expand(x.sizes());
  const Tensor x2 = matmul(x, x), x3 = matmul(x2, x), x4 = matmul(x2, x2);
  double factorial[17] = {1};
  for (int k = 1; k < 17; ++k) factorial[k] = factorial[k - 1] * k;
  Tensor result = x4 * (1 / factorial[16]);
  for (int k = 12; k >= 0; k -= 4) {
    result = result + one * (1 / factorial[k]) + x * (1 / factorial[k + 1]) + x2 * (1 / factorial[k + 2]) +
             x3 * (1 / factorial[k + 3]);
    if (k > 0) result = matmul(x4, result);
  }
  return result;
}

/// Halved until the series is exact (1-norms to 0.7 leave 0.7^17 / 17! out), then squared as often.
Tensor exponential(const Tensor& a) {
  if (a.numel() == 0) return a.clone();
  const double norm = a.detach().abs().sum(Shape{-2}).max().item<double>();
  int halvings = 0;
  if (std::isfinite(norm) && norm > 0.7) halvings = static_cast<int>(std::ceil(std::log2(norm / 0.7)));
  Tensor result = exponential_series(a * std::ldexp(1.0, -halvings));
  for (int i = 0; i < halvings; ++i) result = matmul(result, result);
  return result;
}

void check_chain(const std::vector<Tensor>& tensors) {
  const auto fail = [](const std::string& text) { linalg_fail("multi_dot(): " + text); };
  if (tensors.size() < 2) fail("expected at least 2 tensors but got " + std::to_string(tensors.size()));
  const auto dims = [](const Tensor& t) { return std::to_string(t.dim()) + "D"; };
  const auto is_end = [](const Tensor& t) { return t.dim() == 1 || t.dim() == 2; };
  if (!is_end(tensors.front())) fail("the first tensor must be 1D or 2D but got " + dims(tensors.front()));
  if (!is_end(tensors.back())) fail("the last tensor must be 1D or 2D but got " + dims(tensors.back()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool inside = i > 0 && i + 1 < tensors.size();
    if (inside && tensors[i].dim() != 2) {
      fail("tensor " + std::to_string(i) + " must be 2D but got " + dims(tensors[i]));
    }
    if (i == 0 || tensors[i - 1].size(-1) == tensors[i].size(0)) continue;
    fail("tensors " + std::to_string(i - 1) + " and " + std::to_string(i) + " with shapes " +
         to_list(tensors[i - 1].sizes()) + " and " + to_list(tensors[i].sizes()) + " cannot be multiplied");
  }
}

/// The gradient belongs to symmetric matrices, and is itself one.
struct MatrixSqrthBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "LinalgMatrixSqrthBackward0"; }
  TensorList apply(TensorList g) override {
    const auto [values, v] = eigh(saved(0));
    const Tensor roots = sqrt(clamp(values, 0)), up = (g[0] + turned(g[0])) * 0.5;
    const Tensor inner = matmul(turned(v), matmul(up, v)) / (row(roots) + column(roots));
    return {matmul(v, matmul(inner, turned(v)))};
  }
};

}  // namespace

Tensor matrix_sqrth(const Tensor& a) {
  check_square(a, "linalg.matrix_sqrth");
  check_linalg_type(a, "linalg.matrix_sqrth");
  const auto [values, v] = eigh(a.detach());
  return with_saved_input<MatrixSqrthBackward>(a, matmul(v * row(sqrt(clamp(values, 0))), turned(v)));
}

Tensor matrix_exp(const Tensor& a) {
  check_square(a, "linalg.matrix_exp");
  check_linalg_type(a, "linalg.matrix_exp", true);
  return composed("LinalgMatrixExpBackward0", {a}, [](const TensorList& in) { return exponential(in[0]); });
}

Tensor matrix_power(const Tensor& a, std::int64_t n) {
  check_square(a, "linalg.matrix_power");
  return n < 0 ? core::matrix_power(inv(a), -n) : core::matrix_power(a, n);
}

Tensor multi_dot(const std::vector<Tensor>& tensors) {
  if (const Casts to(CastRule::lower, CastOn::any, tensors); to) return multi_dot(to(tensors));
  check_chain(tensors);
  std::vector<Tensor> chain = tensors;
  const bool from_vector = chain.front().dim() == 1, to_vector = chain.back().dim() == 1;
  if (from_vector) chain.front() = chain.front().unsqueeze(0);
  if (to_vector) chain.back() = chain.back().unsqueeze(-1);
  Tensor result = chain_matmul(chain);
  if (from_vector) result = result.squeeze(0);
  return to_vector ? result.squeeze(-1) : result;
}

Tensor vecdot(const Tensor& a, const Tensor& b, std::int64_t dim) {
  if (const Casts to(CastRule::lower, CastOn::any, {&a, &b}); to) return vecdot(to(a), to(b), dim);
  return (conj(a) * b).sum(Shape{dim});
}

Tensor diagonal(const Tensor& a, std::int64_t offset, std::int64_t dim1, std::int64_t dim2) {
  return a.diagonal(offset, dim1, dim2);
}

}  // namespace core::linalg

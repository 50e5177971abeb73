#include "libcore/ops/linalg/solve.h"

#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

void check_lstsq(const Tensor& a, const Tensor& b, const LstsqOptions& o) {
  const std::string name = "torch.linalg.lstsq: ";
  if (!is_lapack_type(a.dtype())) {
    linalg_fail("This function doesn't handle types other than float and double");
  }
  if (a.dim() < 2) linalg_fail(name + "input must have at least 2 dimensions.");
  if (b.dim() < 1) linalg_fail(name + "other must have at least 1 dimension.");
  if (a.dtype() != b.dtype()) {
    linalg_fail(name + "Expected input and other to have the same dtype, but got input's dtype " +
                scalar_type_name(a.dtype()) + " and other's dtype " + scalar_type_name(b.dtype()));
  }
  static constexpr const char* kDrivers[] = {"gels", "gelsy", "gelsd", "gelss"};
  if (std::find(std::begin(kDrivers), std::end(kDrivers), o.driver) == std::end(kDrivers)) {
    linalg_fail(name + "parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  }
}

struct Solutions {
  Tensor solution, residuals, rank;
};

Solutions least_squares(const Tensor& a, const Tensor& b, double rcond) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> left(a);
    const int m = left.rows(), n = left.columns();
    const Tensor tail =
        zeros(with_sizes(batch_sizes(b), {std::max(m, n) - m, b.size(-1)}), {.dtype = b.dtype(), .device = Device()});
    Columns<T> right(cat(std::vector<Tensor>{b.to(Device()), tail}, -2));
    std::vector<std::int64_t> ranks;
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      ranks.push_back(std::min(m, n) == 0 ? 0
                                          : lapack::lstsq(m, n, right.columns(), left.matrix(k), right.matrix(k),
                                                          static_cast<lapack::Real<T>>(rcond)));
    }
    const Tensor all = right.tensor(b.device());
    const bool full = std::all_of(ranks.begin(), ranks.end(), [&](std::int64_t r) { return r == n; });
    Solutions result{all.narrow(-2, 0, n).contiguous(),
                     empty({0}, {.dtype = parts_type(a.dtype()), .device = a.device()}),
                     batch_tensor(ranks, batch_sizes(a), a.device())};
    if (full && m > n) {
      const Tensor rest = b - matmul(a, result.solution);
      result.residuals = real(rest * conj(rest)).sum(Shape{-2});
    }
    return result;
  });
}

double rounding_of(const Tensor& a) {
  return parts_type(a.dtype()) == DType::f64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
}

/// eps * max(m, n), unless given.
struct Tolerance {
  double absolute, relative;
};
Tolerance tolerance(const Tensor& a, const RankOptions& o) {
  const double usual = rounding_of(a) * static_cast<double>(std::max(a.size(-1), a.size(-2)));
  return {o.atol.value_or(0), o.rtol.value_or(o.atol && *o.atol > 0 ? 0 : usual)};
}

Tensor threshold_of(const Tensor& values, const Tolerance& t) {
  return clamp(amax(values, {.dims = {-1}, .keepdim = true}) * t.relative, Scalar(t.absolute));
}

Tensor plain_pinv(const Tensor& a, const RankOptions& o) {
  const NoGradGuard no_history;
  const Tolerance t = tolerance(a, o);
  if (a.numel() == 0)
    return zeros(with_sizes(batch_sizes(a), {a.size(-1), a.size(-2)}), {.dtype = a.dtype(), .device = a.device()});
  if (o.hermitian) {
    const Eigen f = eigh(a.detach());
    const Tensor sizes = f.values.abs();
    const Tensor inverse = where(sizes > threshold_of(sizes, t), reciprocal(f.values), zeros_like(f.values));
    return matmul(f.vectors * row(inverse), turned(f.vectors));
  }
  const SVD f = svd(a.detach(), false);
  const Tensor inverse = where(f.s > threshold_of(f.s, t), reciprocal(f.s), zeros_like(f.s));
  return matmul(turned(f.vh) * row(inverse), turned(f.u));
}

/// Source: Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems", 1973.
struct PinvBackward final : Node, FollowsConvention {
  std::string_view name() const override { return "LinalgPinvBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor p = saved(0), a = saved(1), back = turned(p), up = turned(g[0]);
    if (a.size(-2) <= a.size(-1)) {
      const Tensor k = matmul(up, p), kp = matmul(k, back);
      return {kp - turned(matmul(p, k)) - matmul(matmul(a, p), kp) + matmul(matmul(back, p), up - matmul(k, a))};
    }
    const Tensor k = matmul(p, up), pk = matmul(back, k);
    return {matmul(matmul(up - matmul(a, k), p), back) - turned(matmul(k, p)) + pk - matmul(matmul(pk, p), a)};
  }
};

}  // namespace

Lstsq lstsq(const Tensor& a, const Tensor& b, const LstsqOptions& o) {
  const core::detail::OpScope scope("linalg_lstsq", a, b);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a, &b}); to) return lstsq(to(a), to(b), o);
  check_lstsq(a, b, o);
  const bool vectors = a.dim() - 1 == b.dim() && b.size(-1) == a.size(-2);
  const Tensor right = vectors ? column(b) : b;
  if (right.dim() < 2 || a.size(-2) != right.size(-2)) {
    linalg_fail(std::string("torch.linalg.lstsq: input.size(-2) should match other.size(-") + (vectors ? "1)" : "2)"));
  }
  const double rcond = o.rcond.value_or(rounding_of(a) * static_cast<double>(std::max(a.size(-1), a.size(-2))));
  const Shape batch = broadcast_shapes(batch_sizes(a), batch_sizes(right));
  const Tensor left = a.expand(with_sizes(batch, {a.size(-2), a.size(-1)}));
  const Tensor sides = right.expand(with_sizes(batch, {right.size(-2), right.size(-1)}));
  Solutions found;
  {
    const NoGradGuard no_history;
    found = least_squares(left.detach(), sides.detach(), rcond);
  }
  const Tensor none = empty({0}, {.dtype = parts_type(a.dtype()), .device = a.device()});
  Lstsq result{found.solution, o.driver == "gelsy" ? none : found.residuals,
               o.driver == "gels" ? empty({0}, {.dtype = DType::i64, .device = a.device()}) : found.rank, none};
  if (o.driver == "gelsd" || o.driver == "gelss") result.singular_values = svdvals(left.detach());
  if (needs_grad(a, b)) {
    const Tensor known = found.solution;
    const RankOptions rank{.rtol = rcond};
    result.solution = composed("LinalgLstsqBackward0", {left, sides}, [known, rank](const TensorList& in) {
      return is_grad_enabled() ? matmul(pinv(in[0], rank), in[1]) : known;
    });
  }
  if (vectors) result.solution = result.solution.squeeze(-1);
  return result;
}

Tensor matrix_rank(const Tensor& a, const RankOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return matrix_rank(to(a), o);
  if (a.dim() < 2) linalg_fail("torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.");
  if (!is_lapack_type(a.dtype())) linalg_fail("This function doesn't handle types other than float and double");
  const NoGradGuard no_history;
  if (a.size(-1) == 0 || a.size(-2) == 0) return zeros(batch_sizes(a), {.dtype = DType::i64, .device = a.device()});
  const Tensor values = o.hermitian ? eigvalsh(a.detach()).abs() : svdvals(a.detach());
  return sum(values > threshold_of(values, tolerance(a, o)), {.dims = {-1}});
}

Tensor pinv(const Tensor& a, const RankOptions& o) {
  if (a.dim() < 2 || !is_lapack_type(a.dtype())) {
    linalg_fail(std::string("linalg.pinv(") + scalar_type_name(a.dtype()) + "{" + to_list(a.sizes()) +
                "}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types");
  }
  Tensor out = plain_pinv(a, o);
  if (!needs_grad(a)) return out;
  auto node = make_node<PinvBackward>(a);
  record(out, node);
  node->save_output(out);
  node->save(a);
  return out;
}

}  // namespace core::linalg

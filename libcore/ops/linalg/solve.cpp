#include "libcore/ops/linalg/solve.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/linalg_checks.h"
#include "libcore/ops/detail/lu_factors.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core::linalg {
namespace {

using namespace detail;  // the file's own helpers

std::int64_t product(const Shape& sizes, std::size_t from, std::size_t to) {
  std::int64_t all = 1;
  for (std::size_t i = from; i < to; ++i) all *= sizes[i];
  return all;
}
Shape part(const Shape& sizes, std::size_t from, std::size_t to) {
  Shape some;
  for (std::size_t i = from; i < to; ++i) some.push_back(sizes[i]);
  return some;
}

/// b as matrices: one more dimension for vectors.
bool is_vector_case(const Tensor& a, const Tensor& b) {
  if (b.dim() == 1) return true;
  if (b.dim() + 1 != a.dim()) return false;
  for (std::int64_t d = 0; d < b.dim(); ++d) {
    if (a.size(d) != b.size(d)) return false;
  }
  return true;
}

/// Both with the same batches.
std::pair<Tensor, Tensor> broadcast_batches(const Tensor& a, const Tensor& b) {
  const Shape batch = broadcast_shapes(batch_sizes(a), batch_sizes(b));
  return {a.expand(with_sizes(batch, {a.size(-2), a.size(-1)})), b.expand(with_sizes(batch, {b.size(-2), b.size(-1)}))};
}

struct Solved {
  Tensor x;
  std::vector<std::int32_t> info;
};

Solved solved(const Tensor& a, const Tensor& b) {
  return in_linalg_type(a, [&]<class T>() {
    Columns<T> left(a), right(b);
    Solved result;
    const int n = left.rows();
    std::vector<int> pivots(static_cast<std::size_t>(n));
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      result.info.push_back(lapack::lu(n, n, left.matrix(k), pivots.data()));
      lapack::lu_solve(n, right.columns(), left.matrix(k), pivots.data(), right.matrix(k));
    }
    result.x = right.tensor(b.device());
    return result;
  });
}

struct SolveBackward final : Node {
  bool vectors = false;
  std::string_view name() const override { return "LinalgSolveExBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor a = saved(0), x = saved(1);
    const Tensor up = solve(a.mT(), vectors ? column(g[0]) : g[0]);
    TensorList result{Tensor(), vectors ? up.squeeze(-1) : up};
    if (wants(0)) result[0] = -matmul(up, (vectors ? column(x) : x).mT());
    return result;
  }
};

Tensor triangular_solved(const Tensor& a, const Tensor& b, const TriangularOptions& o) {
  return in_linalg_type(a, [&]<class T>() {
    // x a = b is a^T x^T = b^T, and a column-major copy of a^T is upper where a is lower.
    Columns<T> left(a), right(o.left ? b : b.mT());
    const lapack::Triangle triangle{o.upper ? 'U' : 'L', o.left ? 'N' : 'T', o.unitriangular ? 'U' : 'N'};
    for (std::size_t k = 0; k < batch_count(a); ++k) {
      lapack::triangular_solve(triangle, left.rows(), right.columns(), left.matrix(k), right.matrix(k));
    }
    const Tensor x = right.tensor(b.device());
    return o.left ? x : x.mT().contiguous();
  });
}

struct SolveTriangularBackward final : Node {
  TriangularOptions how;
  std::string_view name() const override { return "LinalgSolveTriangularBackward0"; }
  TensorList apply(TensorList g) override {
    const Tensor a = saved(0), x = saved(1);
    TriangularOptions other = how;
    other.upper = !how.upper;
    const Tensor up = solve_triangular(a.mT(), g[0], other);
    TensorList result{Tensor(), up};
    if (!wants(0)) return result;
    const Tensor whole = how.left ? -matmul(up, x.mT()) : -matmul(x.mT(), up);
    const std::int64_t inside = how.unitriangular ? 1 : 0;
    result[0] = how.upper ? triu(whole, inside) : tril(whole, -inside);
    return result;
  }
};

void check_pivots(const Tensor& lu, const Tensor& pivots) {
  if (pivots.dtype() != DType::i32) {
    linalg_fail("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
  }
  if (pivots.dim() == 0 || pivots.size(-1) != lu.size(-1)) {
    linalg_fail("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix");
  }
  if (pivots.sizes() != with_sizes(batch_sizes(lu), {lu.size(-1)})) {
    linalg_fail("linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape " +
                to_list(pivots.sizes()) + " instead");
  }
  for (const std::int64_t row : pivots.to_vector<std::int64_t>()) {
    if (row >= 1 && row <= lu.size(-2)) continue;
    linalg_fail(std::string("Pivots given to lu_solve must all be ") +
                (row < 1 ? "greater or equal to 1" : "smaller or equal to LU.size(-2)") +
                ". Did you properly pass the result of lu_factor?");
  }
}

}  // namespace

Tensor lu_solve(const LUFactors& factors, const Tensor& b, const LuSolveOptions& o) {
  check_square(factors.lu, "torch.linalg.lu_solve");
  check_equation(factors.lu, b, "linalg.lu_solve", o.left);
  check_pivots(factors.lu, factors.pivots);
  const Tensor p = permutation(factors.pivots, factors.lu.size(-2), factors.lu);
  return composed("LinalgLuSolveBackward0", {factors.lu, b}, [p, o](const TensorList& in) {
    const auto of = [&](const Tensor& factor) { return o.adjoint ? conj(factor) : factor; };
    const Tensor l = of(lower_factor(in[0])), u = of(upper_factor(in[0])), right = o.left ? in[1] : in[1].mT();
    const TriangularOptions lower{.upper = false, .unitriangular = true}, upper{.upper = true};
    const TriangularOptions lower_turned{.upper = true, .unitriangular = true}, upper_turned{.upper = false};
    const Tensor x =
        o.adjoint == o.left  // the equation as written, or both sides turned, with a^T
            ? matmul(p, solve_triangular(l.mT(), solve_triangular(u.mT(), right, upper_turned), lower_turned))
            : solve_triangular(u, solve_triangular(l, matmul(p.mT(), right), lower), upper);
    return o.left ? x : x.mT();
  });
}

Tensor tensorsolve(const Tensor& a, const Tensor& b, const Shape& dims) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a, &b}); to) return tensorsolve(to(a), to(b), dims);
  Tensor moved = a;
  if (!dims.empty()) {
    Shape end;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      end.push_back(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(dims.size()));
    }
    moved = movedim(a, dims, end);
  }
  const Shape& sizes = moved.sizes();
  const auto known = std::min(static_cast<std::size_t>(b.dim()), sizes.size());
  const std::int64_t rows = product(sizes, 0, known), columns = product(sizes, known, sizes.size());
  if (rows != columns) {
    linalg_fail(
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
        "but got " +
        std::to_string(columns) + " != " + std::to_string(rows));
  }
  return solve(moved.reshape({rows, columns}), b.flatten()).reshape(part(sizes, known, sizes.size()));
}

Tensor tensorinv(const Tensor& a, std::int64_t ind) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a}); to) return tensorinv(to(a), ind);
  if (ind <= 0) linalg_fail("Expected a strictly positive integer for 'ind', but got " + std::to_string(ind));
  const Shape& sizes = a.sizes();
  const auto known = std::min(static_cast<std::size_t>(ind), sizes.size());
  const std::int64_t rows = product(sizes, 0, known), columns = product(sizes, known, sizes.size());
  if (rows != columns) {
    linalg_fail("Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got " +
                std::to_string(columns) + " != " + std::to_string(rows));
  }
  Shape result = part(sizes, known, sizes.size());
  for (std::size_t i = 0; i < known; ++i) result.push_back(sizes[i]);
  return inv(a.reshape({rows, columns})).reshape(result);
}

WithInfo solve_ex(const Tensor& a, const Tensor& b) {
  const core::detail::OpScope scope("linalg_solve_ex", a, b);
  check_square(a, "linalg.solve");
  check_linalg_type(a, "linalg.solve");
  const bool vectors = is_vector_case(a, b);
  const Tensor right = vectors ? column(b) : b;
  check_equation(a, right, "linalg.solve", true);
  const auto [left, sides] = broadcast_batches(a.detach(), right.detach());
  Solved found = solved(left, sides);
  Tensor x = vectors ? found.x.squeeze(-1) : found.x;
  const Tensor info = info_tensor(found.info, left);
  if (!needs_grad(a, b)) return {x, info};
  auto node = make_node<SolveBackward>(a, b);
  node->vectors = vectors;
  node->save(a);
  record(x, node);
  node->save_output(x);
  return {x, info};
}

Tensor solve(const Tensor& a, const Tensor& b) {
  const core::detail::OpScope scope("linalg_solve", a, b);
  if (const Casts to(CastRule::f32, CastOn::cpu, {&a, &b}); to) return solve(to(a), to(b));
  const WithInfo both = solve_ex(a, b);
  const std::vector<std::int64_t> info = both.info.to_vector<std::int64_t>();
  const auto failed = std::find_if(info.begin(), info.end(), [](std::int64_t code) { return code != 0; });
  if (failed == info.end()) return both.result;
  linalg_fail("torch.linalg.solve" + batch_text(a, static_cast<std::size_t>(failed - info.begin())) +
              "The solver failed because the input matrix is singular.");
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& o) {
  const core::detail::OpScope scope("linalg_solve_triangular", a, b);
  check_square(a, "linalg.solve_triangular");
  check_linalg_type(a, "linalg.solve_triangular");
  check_matrix(b, "linalg.solve_triangular");
  check_equation(a, b, "linalg.solve_triangular", o.left);
  const auto [left, sides] = broadcast_batches(a.detach(), b.detach());
  Tensor x = triangular_solved(left, sides, o);
  if (!needs_grad(a, b)) return x;
  auto node = make_node<SolveTriangularBackward>(a, b);
  node->how = o;
  node->save(a);
  record(x, node);
  node->save_output(x);
  return x;
}

}  // namespace core::linalg

namespace core {
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&b, &factor}); to) return cholesky_solve(to(b), to(factor), upper);
  detail::check_square(factor, "cholesky_solve");
  if (b.size(-2) != factor.size(-2)) {
    const auto by = [](const Tensor& t) { return std::to_string(t.size(-2)) + " by " + std::to_string(t.size(-1)); };
    detail::linalg_fail("Incompatible matrix sizes for cholesky_solve: each A matrix is " + by(factor) +
                        " but each b matrix is " + by(b));
  }
  const Tensor lower = upper ? detail::turned(factor) : factor;
  return linalg::solve_triangular(detail::turned(lower), linalg::solve_triangular(lower, b, {.upper = false}),
                                  {.upper = true});
}

Tensor cholesky_inverse(const Tensor& factor, bool upper) {
  if (const Casts to(CastRule::f32, CastOn::cpu, {&factor}); to) return cholesky_inverse(to(factor), upper);
  detail::check_square(factor, "cholesky_inverse");
  const Tensor one = eye(factor.size(-1), {}, {.dtype = factor.dtype(), .device = factor.device()});
  return cholesky_solve(one.expand(factor.sizes()), factor, upper);
}

}  // namespace core

// Rows of linear algebra. What is factorised is far from where its derivative ends: pivots, gaps and ranks are clear.
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/distance.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/resize.h"
#include "tests/libcore/autograd/gradcheck_cases.h"

namespace test {
namespace {

namespace linalg = core::linalg;
using T = const Tensor&;

/// Square matrices with a heavy diagonal.
Tensor heavy(const Shape& sizes) {
  const Tensor extra = core::eye(sizes[sizes.size() - 1], {}, {.dtype = core::DType::f64}) * 2.5;
  return (irregular(sizes).detach() + extra).detach().requires_grad_();
}
Tensor symmetric(T x) {
  return x + x.mT();
}
/// Positive definite.
Tensor product_with_itself(T x) {
  return core::matmul(x, x.mT());
}
/// What does not depend on the signs of vectors.
Tensor projections(T vectors, T values) {
  return core::matmul(vectors * values.unsqueeze(-2), vectors.mT());
}

void add_solving(GradCases& cases) {
  cases.add("linalg_inv", {heavy({2, 3, 3})}, [](In in) { return linalg::inv(in[0]); });
  cases.add("linalg_det", {heavy({2, 3, 3})}, [](In in) { return linalg::det(in[0]); });
  cases.add("linalg_slogdet", {heavy({2, 3, 3})}, [](In in) { return linalg::slogdet(in[0]).logabsdet; });
  cases.add("logdet", {heavy({3, 3})}, [](In in) { return core::logdet(in[0]); });
  cases.add("linalg_solve", {heavy({2, 3, 3}), irregular({2, 3, 2})},
            [](In in) { return linalg::solve(in[0], in[1]); });
  cases.add("linalg_solve/vector", {heavy({3, 3}), irregular({3})}, [](In in) { return linalg::solve(in[0], in[1]); });
  cases.add("linalg_solve/broadcast", {heavy({3, 3}), irregular({2, 3, 1})},
            [](In in) { return linalg::solve(in[0], in[1]); });
  for (const auto& [name, how] : std::initializer_list<std::pair<const char*, linalg::TriangularOptions>>{
           {"upper", {.upper = true}},
           {"lower", {.upper = false}},
           {"right", {.upper = true, .left = false}},
           {"unit", {.upper = false, .unitriangular = true}}}) {
    cases.add(std::string("linalg_solve_triangular/") + name, {heavy({3, 3}), irregular({3, 3})},
              [how = how](In in) { return linalg::solve_triangular(in[0], in[1], how); });
  }
  cases.add("linalg_cholesky", {heavy({2, 3, 3})}, [](In in) { return linalg::cholesky(product_with_itself(in[0])); });
  cases.add("linalg_cholesky/upper", {heavy({3, 3})},
            [](In in) { return linalg::cholesky(product_with_itself(in[0]), true); });
  cases.add("cholesky_solve", {irregular({3, 2}), heavy({3, 3})},
            [](In in) { return core::cholesky_solve(in[0], core::tril(in[1])); });
  cases.add("cholesky_inverse", {heavy({3, 3})}, [](In in) { return core::cholesky_inverse(core::tril(in[0])); });
  cases.add("linalg_matrix_power", {heavy({2, 2})}, [](In in) { return linalg::matrix_power(in[0], -2); });
  cases.add("linalg_multi_dot", {irregular({2, 3}), irregular({3, 2}), irregular({2})}, [](In in) {
    return linalg::multi_dot({in[0], in[1], in[2]});
  });
  cases.add("linalg_vecdot", {irregular({2, 3}), irregular({2, 3})},
            [](In in) { return linalg::vecdot(in[0], in[1]); });
}

void add_factors(GradCases& cases) {
  const auto qr = [&cases](const std::string& name, const Shape& sizes, const std::string& mode) {
    cases.many(name, {irregular(sizes)}, [mode](In in) {
      const linalg::QR f = linalg::qr(in[0], mode);
      return std::vector<Tensor>{f.q, f.r};
    });
  };
  qr("linalg_qr", {2, 3, 2}, "reduced");
  qr("linalg_qr/wide", {2, 3}, "reduced");
  qr("linalg_qr/complete", {2, 2}, "complete");
  const auto svd = [&cases](const std::string& name, const Shape& sizes, bool full) {
    cases.many(name, {irregular(sizes)}, [full](In in) {
      const linalg::SVD f = linalg::svd(in[0], full);
      const std::int64_t k = f.s.size(-1);
      const Tensor u = f.u.narrow(-1, 0, k), vh = f.vh.narrow(-2, 0, k);
      return std::vector<Tensor>{projections(u, f.s), f.s, projections(vh.mT(), f.s * f.s), core::matmul(u, vh)};
    });
  };
  svd("linalg_svd", {2, 2, 2}, false);
  svd("linalg_svd/tall", {3, 2}, false);
  svd("linalg_svd/wide", {2, 3}, true);
  cases.add("linalg_svdvals", {irregular({3, 2})}, [](In in) { return linalg::svdvals(in[0]); });
  cases.many("linalg_eigh", {irregular({2, 3, 3})}, [](In in) {
    const linalg::Eigen f = linalg::eigh(symmetric(in[0]));
    return std::vector<Tensor>{f.values, projections(f.vectors, core::exp(f.values))};
  });
  cases.add("linalg_eigvalsh", {irregular({3, 3})}, [](In in) { return linalg::eigvalsh(symmetric(in[0])); });
  cases.add("linalg_lstsq", {irregular({4, 2}), irregular({4, 2})},
            [](In in) { return linalg::lstsq(in[0], in[1]).solution; });
  cases.add("linalg_lstsq/wide", {irregular({2, 3}), irregular({2})},
            [](In in) { return linalg::lstsq(in[0], in[1]).solution; });
  cases.add("linalg_pinv/tall", {irregular({3, 2})}, [](In in) { return linalg::pinv(in[0]); });
  cases.add("linalg_pinv/wide", {irregular({2, 2, 3})}, [](In in) { return linalg::pinv(in[0]); });
}

void add_lu(GradCases& cases) {
  const auto lu = [&cases](const std::string& name, Tensor matrix) {
    cases.many(name, {std::move(matrix)}, [](In in) {
      const linalg::LU f = linalg::lu(in[0]);
      return std::vector<Tensor>{f.l, f.u};
    });
  };
  lu("linalg_lu", heavy({2, 3, 3}));
  lu("linalg_lu/tall", irregular({4, 2}));
  lu("linalg_lu/wide", irregular({2, 4}));
  cases.add("linalg_lu_factor", {irregular({3, 2})}, [](In in) { return linalg::lu_factor(in[0]).lu; });
  cases.add("linalg_lu_solve", {heavy({3, 3}), irregular({3, 2})},
            [](In in) { return linalg::lu_solve(linalg::lu_factor(in[0]), in[1]); });
  cases.add("linalg_lu_solve/right", {heavy({3, 3}), irregular({2, 3})},
            [](In in) { return linalg::lu_solve(linalg::lu_factor(in[0]), in[1], {.left = false, .adjoint = true}); });
  cases.add("linalg_householder_product", {irregular({2, 4, 2}), irregular({2, 2})},
            [](In in) { return linalg::householder_product(in[0], in[1]); });
  cases.add("linalg_matrix_exp", {irregular({2, 3, 3})}, [](In in) { return linalg::matrix_exp(in[0]); });
  cases.add("linalg_matrix_exp/large", {heavy({2, 2})}, [](In in) { return linalg::matrix_exp(in[0]); });
  cases.add("linalg_tensorsolve", {heavy({6, 6}), irregular({2, 3})}, [](In in) {
    return linalg::tensorsolve(in[0].reshape({2, 3, 6}), in[1]);
  });
  cases.add("linalg_tensorinv", {heavy({4, 4})}, [](In in) { return linalg::tensorinv(in[0].reshape({2, 2, 4})); });
}

void add_norms(GradCases& cases) {
  cases.add("linalg_vector_norm", {irregular({2, 3})}, [](In in) { return linalg::vector_norm(in[0]); });
  cases.add("linalg_vector_norm/3", {irregular({2, 3})},
            [](In in) { return linalg::vector_norm(in[0], {.ord = 3, .dims = {1}, .keepdim = true}); });
  for (const auto& [name, order] : std::initializer_list<std::pair<const char*, linalg::MatrixOrder>>{
           {"fro", "fro"},
           {"nuc", "nuc"},
           {"1", 1.0},
           {"-1", -1.0},
           {"2", 2.0},
           {"-2", -2.0},
           {"inf", std::numeric_limits<double>::infinity()}}) {
    const bool near_a_tie = std::string(name) == "inf";
    cases.add(
        std::string("linalg_matrix_norm/") + name, {irregular({2, 3, 2})},
        [order = order](In in) { return linalg::matrix_norm(in[0], {.ord = order}); }, !near_a_tie);
  }
  cases.add("linalg_norm", {irregular({3})}, [](In in) { return linalg::norm(in[0], {.ord = 3.0}); });
  cases.add("linalg_cond", {heavy({2, 2})}, [](In in) { return linalg::cond(in[0]); });
  cases.add("linalg_cond/1", {heavy({2, 2})}, [](In in) { return linalg::cond(in[0], 1.0); });
}

}  // namespace

void add_linalg_cases(GradCases& cases) {
  add_solving(cases);
  add_factors(cases);
  add_lu(cases);
  add_norms(cases);
  cases.add(
      "cross_map_lrn2d", {irregular({1, 1, 2, 2})},  // as few channels as have a gradient that is right
      [](In in) { return core::cross_map_lrn2d(in[0], 3, {.alpha = 0.5}); }, false);
  cases.add("pdist", {irregular({4, 3})}, [](In in) { return core::pdist(in[0]); });
  for (const char* mode : {"bilinear", "bicubic"}) {
    for (const char* padding : {"zeros", "reflection"}) {
      cases.add(std::string("grid_sample/") + mode + padding,
                {irregular({1, 2, 3, 4}), irregular({1, 2, 2, 2}, -1.1, 1.15)}, [mode, padding](In in) {
                  return core::grid_sample(in[0], in[1],
                                           {.mode = mode, .padding_mode = padding, .align_corners = false});
                });
    }
  }
  cases.add("grid_sampler", {irregular({1, 1, 3, 2}), irregular({1, 2, 2, 2})},
            [](In in) { return core::grid_sampler(in[0], in[1], 0, 0, true); });
  cases.add("grid_sample/depth", {irregular({1, 1, 2, 3, 2}), irregular({1, 1, 2, 1, 3})},
            [](In in) { return core::grid_sample(in[0], in[1], {.align_corners = true}); });
  cases.add("affine_grid", {irregular({2, 2, 3})}, [](In in) { return core::affine_grid(in[0], {2, 1, 2, 3}, false); });
  const auto samples = core::tensor({{{0.3, 0.7}, {0.2, 0.9}}}, {.dtype = core::DType::f64});
  cases.add("fractional_max_pool2d", {irregular({1, 2, 5, 5})}, [samples](In in) {
    return core::fractional_max_pool2d(in[0], {2}, {.output_size = {3}, .random_samples = samples}).values;
  });
  const auto of_volume = core::tensor({{{0.3, 0.7, 0.1}}}, {.dtype = core::DType::f64});
  cases.add("fractional_max_pool3d", {irregular({1, 1, 4, 4, 4})}, [of_volume](In in) {
    return core::fractional_max_pool3d(in[0], {2}, {.output_size = {2}, .random_samples = of_volume}).values;
  });
}

}  // namespace test

// Linear algebra: values, errors and node names of PyTorch 2.15. Gradients are in the table of gradchecks.
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "libcore/autograd/autograd.h"
#include "libcore/backend/logical_devices.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/ops/op_test.h"

namespace {

namespace linalg = core::linalg;
using core::DType;
using core::Shape;
using core::Tensor;
using test::kInf;
using test::message_of;

Tensor doubles(const core::NestedValues& values) {
  return core::tensor(values, {.dtype = DType::f64});
}
/// Equal to nine digits.
void expect_close(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(core::allclose(found.to_double(), expected.to_double(), {.rtol = 1e-7, .atol = 2e-9, .equal_nan = true}))
      << found << "\ninstead of\n"
      << expected;
}

const Tensor kGeneral = doubles({{1, 2, 3}, {4, 5, 6}, {7, 8, 10}});
const Tensor kPositive = doubles({{2, 1, 0}, {1, 3, 1}, {0, 1, 4}});
const Tensor kTall = doubles({{1, 2}, {3, 4}, {5, 6}});
const Tensor kWide = core::ones({2, 3});
const Tensor kIntegers = core::ones({2, 2}, {.dtype = DType::i64});

TEST(Linalg, Inverse) {
  expect_close(linalg::inv(kGeneral),
               doubles({{-0.666666667, -1.333333333, 1.0}, {-0.666666667, 3.666666667, -2.0}, {1.0, -2.0, 1.0}}));
  EXPECT_EQ(linalg::inv(core::ones({0, 0})).sizes(), (Shape{0, 0}));
  EXPECT_EQ(linalg::inv(core::eye(3).expand({2, 4, 3, 3})).sizes(), (Shape{2, 4, 3, 3}));
  EXPECT_EQ(linalg::inv(kPositive.clone().requires_grad_()).grad_fn_name(), "LinalgInvExBackward0");
}

TEST(Linalg, InverseOfASingularMatrix) {
  EXPECT_EQ(message_of([] {
              linalg::inv(core::zeros({2, 2}));
            }),
            "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix "
            "is singular.");
  EXPECT_EQ(message_of([] {
              linalg::inv(core::stack({core::eye(2), core::zeros({2, 2})}));
            }),
            "linalg.inv: (Batch element 1): The diagonal element 1 is zero, the inversion could not be completed "
            "because the input matrix is singular.");
  EXPECT_EQ(linalg::inv_ex(core::zeros({2, 2})).info.item<int>(), 1);
}

TEST(Linalg, ChecksOfMatrices) {
  EXPECT_EQ(message_of([] { linalg::inv(kWide); }),
            "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices");
  EXPECT_EQ(message_of([] { linalg::inv(core::ones({3})); }),
            "linalg.inv: The input tensor A must have at least 2 dimensions.");
  EXPECT_EQ(message_of([] { linalg::det(kIntegers); }),
            "linalg.det: Expected a floating point or complex tensor as input. Got Long");
  EXPECT_EQ(message_of([] {
              linalg::inv(core::ones({2, 2}, {.dtype = DType::f16}));
            }),
            "linalg.inv: Low precision dtypes not supported. Got Half");
  EXPECT_EQ(message_of([] { core::logdet(kWide); }),
            "logdet: A must be batches of square matrices, but they are 2 by 3 matrices");
}

TEST(Linalg, GradientOfTheDeterminantOfASingularMatrix) {
  const auto gradient = [](const Tensor& values, bool create_graph) {
    const Tensor a = values.clone().requires_grad_();
    return core::grad({linalg::det(a).sum()}, {a}, {.create_graph = create_graph})[0].detach();
  };
  const Tensor singular = doubles({{1, 2}, {2, 4}}), whole = doubles({{1, 2}, {3, 4}});
  expect_close(gradient(singular, false), core::zeros({2, 2}));
  expect_close(gradient(core::stack({singular, whole}), false), doubles({{{0, 0}, {0, 0}}, {{4, -3}, {-2, 1}}}));
  expect_close(gradient(singular, true), doubles({{4, -2}, {-2, 1}}));
  expect_close(gradient(doubles({{0}}), false), doubles({{1}}));
}

TEST(Linalg, GradientOfTheLogarithmOfTheDeterminantOfASingularMatrix) {
  const Tensor a = doubles({{1, 2}, {2, 4}}).requires_grad_();
  linalg::slogdet(a).logabsdet.backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{-kInf, kInf, kInf, -kInf}));
}

TEST(Linalg, Determinants) {
  expect_close(linalg::det(kGeneral), doubles(-3.0));
  const auto [sign, log] = linalg::slogdet(kGeneral);
  EXPECT_EQ(sign.item<double>(), -1);
  expect_close(log, doubles(1.098612289));
  EXPECT_EQ(linalg::slogdet(core::zeros({2, 2})).sign.item<double>(), 0);
  EXPECT_EQ(linalg::slogdet(core::zeros({2, 2})).logabsdet.item<double>(), -kInf);
  expect_close(core::logdet(kPositive), doubles(2.890371758));
  EXPECT_TRUE(std::isnan(core::logdet(-kPositive).item<double>()));
  EXPECT_EQ(linalg::det(core::ones({0, 0})).item<double>(), 1);
  const Tensor x = kGeneral.clone().requires_grad_();
  EXPECT_EQ(linalg::det(x).grad_fn_name(), "LinalgDetBackward0");
  EXPECT_EQ(linalg::slogdet(x).sign.grad_fn_name(), "LinalgSlogdetBackward0");
}

TEST(Linalg, Solve) {
  expect_close(linalg::solve(kGeneral, doubles({1, 2, 3})), doubles({-0.333333333, 0.666666667, 0.0}));
  EXPECT_EQ(linalg::solve(core::eye(2).expand({3, 2, 2}), core::ones({3, 2})).sizes(), (Shape{3, 2}));
  EXPECT_EQ(linalg::solve(core::eye(2), core::ones({4, 2, 5})).sizes(), (Shape{4, 2, 5}));
  EXPECT_EQ(message_of([] {
              linalg::solve(core::zeros({2, 2}), core::ones({2}));
            }),
            "torch.linalg.solve: The solver failed because the input matrix is singular.");
  EXPECT_EQ(message_of([] {
              linalg::solve(core::zeros({3, 2, 2}), core::ones({3, 2}));
            }),
            "torch.linalg.solve: (Batch element 0): The solver failed because the input matrix is singular.");
  EXPECT_EQ(message_of([] {
              linalg::solve(core::eye(2), core::ones({3, 1}));
            }),
            "linalg.solve: Incompatible shapes of A and B for the equation AX = B (2x2 and 3x1)");
  EXPECT_EQ(message_of([] {
              linalg::solve(core::eye(2), doubles({{1.0}, {1.0}}));
            }),
            "linalg.solve: Expected A and B to have the same dtype, but found A of type Float and B of type Double "
            "instead");
}

TEST(Linalg, SolveTriangular) {
  const Tensor b = doubles({{2, 4}, {6, 8}});
  expect_close(linalg::solve_triangular(doubles({{2, 1}, {9, 4}}), b, {.upper = true}), doubles({{0.25, 1}, {1.5, 2}}));
  expect_close(linalg::solve_triangular(doubles({{2, 9}, {1, 4}}), b, {.upper = false}),
               doubles({{1, 2}, {1.25, 1.5}}));
  expect_close(linalg::solve_triangular(doubles({{2, 1}, {9, 4}}), b, {.upper = true, .left = false}),
               doubles({{1, 0.75}, {3, 1.25}}));
  expect_close(linalg::solve_triangular(doubles({{7, 1}, {9, 7}}), b, {.upper = true, .unitriangular = true}),
               doubles({{-4, -4}, {6, 8}}));
  EXPECT_EQ(message_of([] {
              linalg::solve_triangular(core::eye(2), core::ones({3, 1}), {.upper = true});
            }),
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation AX = B (2x2 and 3x1)");
}

TEST(Linalg, LargeSystems) {
  core::manual_seed(3);
  const Tensor a = core::randn({100, 100}, {.dtype = DType::f64}) + core::eye(100) * 30;
  const Tensor b = core::randn({100, 3}, {.dtype = DType::f64});
  expect_close(core::matmul(a, linalg::solve(a, b)), b);
  for (const bool upper : {false, true}) {
    const Tensor t = upper ? core::triu(a) : core::tril(a);
    expect_close(core::matmul(t, linalg::solve_triangular(a, b, {.upper = upper})), b);
    expect_close(core::matmul(linalg::solve_triangular(a, b.t(), {.upper = upper, .left = false}), t), b.t());
  }
}

TEST(Linalg, Cholesky) {
  const Tensor lower = doubles({{1.414213562, 0, 0}, {0.707106781, 1.581138830, 0}, {0, 0.632455532, 1.897366596}});
  expect_close(linalg::cholesky(kPositive), lower);
  expect_close(linalg::cholesky(kPositive, true), lower.t());
  expect_close(core::cholesky_solve(core::ones({3, 1}, {.dtype = DType::f64}), lower),
               doubles({{0.444444444}, {0.111111111}, {0.222222222}}));
  expect_close(core::cholesky_inverse(lower), doubles({{0.611111111, -0.222222222, 0.055555556},
                                                       {-0.222222222, 0.444444444, -0.111111111},
                                                       {0.055555556, -0.111111111, 0.277777778}}));
  EXPECT_EQ(message_of([] {
              linalg::cholesky(doubles({{1, 2}, {2, 1}}));
            }),
            "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the "
            "leading minor of order 2 is not positive-definite).");
  EXPECT_EQ(message_of([] {
              linalg::cholesky(core::stack({core::eye(2), -core::eye(2)}));
            }),
            "linalg.cholesky: (Batch element 1): The factorization could not be completed because the input is not "
            "positive-definite (the leading minor of order 1 is not positive-definite).");
  EXPECT_EQ(linalg::cholesky_ex(-core::eye(2)).info.item<int>(), 1);
  EXPECT_EQ(message_of([] { core::cholesky_solve(kWide, core::eye(3)); }),
            "Incompatible matrix sizes for cholesky_solve: each A matrix is 3 by 3 but each b matrix is 2 by 3");
}

TEST(Linalg, QrInItsModes) {
  const Tensor r = doubles({{-5.916079783, -7.437357442}, {0, 0.828078671}});
  const auto reduced = linalg::qr(kTall);
  expect_close(reduced.q,
               doubles({{-0.169030851, 0.897085227}, {-0.507092553, 0.276026224}, {-0.845154255, -0.345032780}}));
  expect_close(reduced.r, r);
  const auto complete = linalg::qr(kTall, "complete");
  expect_close(complete.q.select(1, 2), doubles({0.408248290, -0.816496581, 0.408248290}));
  EXPECT_EQ(complete.r.sizes(), (Shape{3, 2}));
  const auto alone = linalg::qr(kTall, "r");
  EXPECT_EQ(alone.q.sizes(), (Shape{0}));
  expect_close(alone.r, r);
}

TEST(Linalg, QrErrors) {
  EXPECT_EQ(message_of([] { linalg::qr(kWide, "foo"); }),
            "qr received unrecognized mode 'foo' but expected one of 'reduced' (default), 'r', or 'complete'");
  const Tensor x = kTall.clone().requires_grad_();
  EXPECT_EQ(message_of([&] { linalg::qr(x, "complete").r.sum().backward(); }),
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.");
  EXPECT_EQ(message_of([&] { linalg::qr(x, "r").r.sum().backward(); }),
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
            "mode='reduced') if you are going to differentiate through linalg.qr.");
}

TEST(Linalg, SingularValues) {
  const auto [u, s, vh] = linalg::svd(kTall);
  EXPECT_EQ(u.sizes(), (Shape{3, 3}));
  expect_close(s, doubles({9.525518092, 0.514300581}));
  expect_close(vh, doubles({{-0.619629484, -0.784894453}, {-0.784894453, 0.619629484}}));
  expect_close(linalg::svdvals(kTall), s);
  const auto reduced = linalg::svd(kTall, false);
  expect_close(core::matmul(reduced.u * reduced.s, reduced.vh), kTall);
  EXPECT_EQ(linalg::svd(core::ones({0, 3})).vh.sizes(), (Shape{3, 3}));
  EXPECT_EQ(message_of([] {
              linalg::svd(core::full({2, 2}, test::kNan));
            }),
            "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.");
}

TEST(Linalg, Eigenvalues) {
  const auto [values, vectors] = linalg::eigh(kPositive);
  expect_close(values, doubles({1.267949192, 3.0, 4.732050808}));
  expect_close(vectors.select(1, 0).abs(), doubles({0.788675135, 0.577350269, 0.211324865}));
  expect_close(core::matmul(vectors * values, vectors.t()), kPositive);
  expect_close(linalg::eigvalsh(core::triu(kPositive), "U"), values);
  EXPECT_EQ(message_of([] { linalg::eigh(core::eye(2), "x"); }), "Expected UPLO argument to be 'L' or 'U', but got x");
  EXPECT_EQ(message_of([] { linalg::eigh(kIntegers); }), "\"linalg_eigh_cpu\" not implemented for 'Long'");
}

TEST(Linalg, LeastSquares) {
  const Tensor b = doubles({{1.0}, {2.0}, {4.0}});
  const auto plain = linalg::lstsq(kTall, b);
  expect_close(plain.solution, doubles({{0.666666667}, {0.083333333}}));
  EXPECT_EQ(plain.residuals.numel(), 0);
  EXPECT_EQ(plain.rank.item<int>(), 2);
  const auto by_values = linalg::lstsq(kTall, b, {.driver = "gelsd"});
  expect_close(by_values.residuals, doubles({0.166666667}));
  expect_close(by_values.singular_values, doubles({9.525518092, 0.514300581}));
  const core::TensorOptions f64{.dtype = DType::f64};
  expect_close(linalg::lstsq(core::ones({3, 2}, f64), core::ones({3}, f64)).solution, doubles({0.5, 0.5}));
}

TEST(Linalg, LeastSquaresErrors) {
  EXPECT_EQ(message_of([] {
              linalg::lstsq(kWide, core::ones({3, 1}));
            }),
            "torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
  EXPECT_EQ(message_of([] { linalg::lstsq(core::ones({3}), core::ones({3})); }),
            "torch.linalg.lstsq: input must have at least 2 dimensions.");
  EXPECT_EQ(message_of([] {
              linalg::lstsq(core::ones({3, 2}), core::ones({3, 2}), {.driver = "foo"});
            }),
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
}

TEST(Linalg, PseudoinverseAndRank) {
  expect_close(linalg::pinv(kTall),
               doubles({{-1.333333333, -0.333333333, 0.666666667}, {1.083333333, 0.333333333, -0.416666667}}));
  expect_close(linalg::pinv(kPositive, {.hermitian = true}), linalg::inv(kPositive));
  EXPECT_EQ(linalg::matrix_rank(core::tensor({{1.0, 2.0}, {2.0, 4.0}})).item<int>(), 1);
  EXPECT_EQ(linalg::matrix_rank(kPositive, {.hermitian = true}).item<int>(), 3);
  EXPECT_EQ(linalg::matrix_rank(kTall, {.atol = 1.0}).item<int>(), 1);
  EXPECT_EQ(linalg::pinv(core::ones({0, 3})).sizes(), (Shape{3, 0}));
  EXPECT_EQ(
      message_of([] { linalg::pinv(kIntegers); }),
      "linalg.pinv(Long{[2, 2]}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble "
      "types");
  EXPECT_EQ(message_of([] { linalg::matrix_rank(core::ones({3})); }),
            "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions.");
}

TEST(Linalg, Norms) {
  expect_close(linalg::norm(kTall), doubles(9.539392014));
  expect_close(linalg::norm(kTall, {.ord = 2.0}), doubles(9.525518092));
  expect_close(linalg::norm(kTall, {.ord = "nuc"}), doubles(10.039818672));
  expect_close(linalg::norm(kTall, {.ord = kInf}), doubles(11.0));
  expect_close(linalg::norm(kTall, {.ord = -1.0}), doubles(9.0));
  expect_close(linalg::matrix_norm(kTall, {.ord = 1.0, .keepdim = true}), doubles({{12.0}}));
  EXPECT_EQ(linalg::matrix_norm(core::ones({3, 2, 4}), {.ord = 2.0, .dims = {0, 2}}).sizes(), (Shape{2}));
  expect_close(linalg::vector_norm(kTall, {.ord = 0}), doubles(6.0));
  expect_close(linalg::vector_norm(kTall, {.ord = kInf, .dims = {1}}), doubles({2, 4, 6}));
  expect_close(linalg::cond(kGeneral), doubles(88.448279921));
  expect_close(linalg::cond(kGeneral, 1.0), doubles(133.0));
  EXPECT_EQ(linalg::cond(core::zeros({2, 2}), 1.0).item<double>(), kInf);
  EXPECT_EQ(linalg::vector_norm(kTall.clone().requires_grad_()).grad_fn_name(), "LinalgVectorNormBackward0");
}

TEST(Linalg, NormErrors) {
  EXPECT_EQ(message_of([] {
              linalg::norm(core::ones({2, 2, 2}), {.ord = 2.0});
            }),
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got 3D.");
  EXPECT_EQ(message_of([] { linalg::norm(kIntegers); }),
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long");
  EXPECT_EQ(message_of([] {
              linalg::norm(core::ones({2, 2}), {.ord = "foo"});
            }),
            "linalg.matrix_norm: Order foo not supported.");
  EXPECT_EQ(message_of([] { linalg::matrix_norm(kWide, {.ord = 3.0}); }), "linalg.matrix_norm: Order 3 not supported.");
  EXPECT_EQ(message_of([] {
              linalg::matrix_norm(kWide, {.dims = {0, 0}});
            }),
            "linalg.matrix_norm: dims must be different. Got (0, 0)");
  EXPECT_EQ(message_of([] { linalg::vector_norm(core::ones({0}), {.ord = kInf}); }),
            "linalg.vector_norm cannot compute the inf norm on an empty tensor because the operation does not have an "
            "identity");
  EXPECT_EQ(message_of([] { linalg::cond(kWide, 1.0); }),
            "linalg.cond(ord=1): A must be batches of square matrices, but they are 2 by 3 matrices");
}

TEST(Linalg, Products) {
  expect_close(linalg::matrix_power(kPositive, -1), doubles({{0.611111111, -0.222222222, 0.055555556},
                                                             {-0.222222222, 0.444444444, -0.111111111},
                                                             {0.055555556, -0.111111111, 0.277777778}}));
  expect_close(linalg::multi_dot({kTall.t(), kTall, doubles({1, 1})}), doubles({79, 100}));
  EXPECT_EQ(message_of([] { linalg::multi_dot({kWide}); }), "multi_dot(): expected at least 2 tensors but got 1");
  EXPECT_EQ(message_of([] {
              linalg::multi_dot({kWide, kWide});
            }),
            "multi_dot(): tensors 0 and 1 with shapes [2, 3] and [2, 3] cannot be multiplied");
  expect_close(linalg::vecdot(kTall, kTall), doubles({5, 25, 61}));
  expect_close(linalg::diagonal(kGeneral, 1), doubles({2, 6}));
}

/// Logical devices while the object lives; declared before what is on them.
struct Devices {
  explicit Devices(int count) { core::set_logical_devices(count); }
  ~Devices() { core::set_logical_devices(0); }
};

TEST(Linalg, OnAnotherDevice) {
  const Devices devices(1);
  const Tensor x = linalg::inv(kPositive.to(core::Device("cuda:0")));
  EXPECT_EQ(x.device(), core::Device("cuda:0"));
  expect_close(x.cpu(), linalg::inv(kPositive));
}

}  // namespace

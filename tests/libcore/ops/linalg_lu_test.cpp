// LU factors, tensors as matrices, eigenvalues of any matrix, reflections, the exponential, complex tensors: values,
// errors and node names of PyTorch 2.15. Gradients are in the table of gradchecks.
#include <gtest/gtest.h>

#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/ops/op_test.h"

namespace {

namespace linalg = core::linalg;
using core::DType;
using core::Shape;
using core::Tensor;
using test::message_of;

void expect_close(const Tensor& found, const Tensor& expected, double tolerance = 2e-6) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(core::allclose(found.to_double(), expected.to_double(), {.rtol = tolerance, .atol = tolerance}))
      << found << "\ninstead of\n"
      << expected;
}

const Tensor kGeneral = core::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}, {7.0, 8.0, 10.0}});
const Tensor kWide = kGeneral.narrow(0, 0, 2);
const Tensor kTall = kGeneral.narrow(1, 0, 2);

TEST(LinalgLu, Factors) {
  const auto [lu, pivots] = linalg::lu_factor(kGeneral);
  expect_close(lu, core::tensor({{7.0, 8.0, 10.0}, {0.142857, 0.857143, 1.571429}, {0.571429, 0.5, -0.5}}));
  EXPECT_EQ(pivots.dtype(), DType::i32);
  EXPECT_EQ(pivots.to_vector<int>(), (std::vector<int>{3, 3, 3}));
  const auto [p, l, u] = linalg::lu(kGeneral);
  expect_close(p, core::tensor({{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}));
  expect_close(l, core::tensor({{1.0, 0.0, 0.0}, {0.142857, 1.0, 0.0}, {0.571429, 0.5, 1.0}}));
  expect_close(u, core::tensor({{7.0, 8.0, 10.0}, {0.0, 0.857143, 1.571429}, {0.0, 0.0, -0.5}}));
}

TEST(LinalgLu, FactorsOfWhatIsNotSquare) {
  for (const Tensor& a : {kWide, kTall, core::stack({kTall, kTall * -2})}) {
    const auto [p, l, u] = linalg::lu(a);
    expect_close(core::matmul(core::matmul(p, l), u), a);
  }
  expect_close(linalg::lu(kTall).l, core::tensor({{1.0, 0.0}, {0.142857, 1.0}, {0.571429, 0.5}}));
  EXPECT_EQ(linalg::lu_factor(kWide).pivots.to_vector<int>(), (std::vector<int>{2, 2}));
}

TEST(LinalgLu, Nodes) {
  const Tensor a = kGeneral.clone().requires_grad_();
  const auto [p, l, u] = linalg::lu(a);
  EXPECT_FALSE(p.requires_grad());
  EXPECT_EQ(l.grad_fn_name(), "LinalgLuBackward0");
  const linalg::LUFactors factors = linalg::lu_factor(a);
  EXPECT_EQ(factors.lu.grad_fn_name(), "LinalgLuFactorExBackward0");
  EXPECT_EQ(linalg::lu_solve(factors, core::ones({3, 1})).grad_fn_name(), "LinalgLuSolveBackward0");
}

TEST(LinalgLu, Solves) {
  const linalg::LUFactors factors = linalg::lu_factor(kGeneral.to_double());
  const Tensor column = core::ones({3, 1}, {.dtype = DType::f64}), row = column.mT();
  expect_close(linalg::lu_solve(factors, column).flatten(), core::tensor({-1, 1, 0}));
  expect_close(linalg::lu_solve(factors, column, {.adjoint = true}).flatten(), core::tensor({-1, 1, 0}) / 3);
  expect_close(linalg::lu_solve(factors, row, {.left = false}).flatten(), core::tensor({-1, 1, 0}) / 3);
  expect_close(linalg::lu_solve(factors, row, {.left = false, .adjoint = true}).flatten(), core::tensor({-1, 1, 0}));
}

TEST(LinalgLu, Errors) {
  EXPECT_EQ(message_of([] {
              linalg::lu_factor(core::zeros({2, 2}));
            }),
            "torch.linalg.lu_factor: U[1,1] is zero and using it on lu_solve would result in a division by zero. If "
            "you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
            "linalg.lu_factor_ex(A, pivot)");
  EXPECT_EQ(linalg::lu_factor_ex(core::zeros({2, 2})).info.item<int>(), 1);
  EXPECT_EQ(message_of([] { linalg::lu_factor(core::ones({3})); }),
            "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: [3] instead");
  EXPECT_EQ(message_of([] { linalg::lu(core::ones({3})); }),
            "linalg.lu: Expected tensor with 2 or more dimensions. Got size: [3] instead");
  EXPECT_EQ(message_of([] { linalg::lu(core::eye(2).to_long()); }), "\"lu_cpu\" not implemented for 'Long'");
  EXPECT_EQ(message_of([] {
              linalg::lu_solve(linalg::lu_factor(kGeneral), core::ones({2, 1}));
            }),
            "linalg.lu_solve: Incompatible shapes of A and B for the equation AX = B (3x3 and 2x1)");
  EXPECT_EQ(message_of([] {
              linalg::lu_solve(linalg::lu_factor(kWide), core::ones({2, 1}));
            }),
            "torch.linalg.lu_solve: A must be batches of square matrices, but they are 2 by 3 matrices");
}

TEST(LinalgMatrixExp, Values) {
  expect_close(
      linalg::matrix_exp(kGeneral / 10),
      core::tensor({{1.381099, 0.540786, 0.727556}, {1.025823, 2.267550, 1.566608}, {1.734795, 2.070228, 3.600931}}));
  const Tensor turn = core::tensor({{0.0, -3.0}, {3.0, 0.0}}, {.dtype = DType::f64});
  expect_close(linalg::matrix_exp(turn),
               core::tensor({{-0.9899924966004454, -0.1411200080598672}, {0.1411200080598672, -0.9899924966004454}},
                            {.dtype = DType::f64}),
               1e-14);
  EXPECT_EQ(linalg::matrix_exp(core::zeros({0, 0})).sizes(), (Shape{0, 0}));
  EXPECT_EQ(linalg::matrix_exp(kGeneral.clone().requires_grad_()).grad_fn_name(), "LinalgMatrixExpBackward0");
  EXPECT_EQ(message_of([] { linalg::matrix_exp(kWide); }),
            "linalg.matrix_exp: A must be batches of square matrices, but they are 2 by 3 matrices");
  EXPECT_EQ(message_of([] { linalg::matrix_exp(core::eye(2).to_long()); }),
            "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got Long");
}

TEST(LinalgTensors, SolveAndInverse) {
  const Tensor a = core::eye(24).reshape({6, 4, 2, 3, 4}) + core::arange(576.0).reshape({6, 4, 2, 3, 4}).sin() * 0.1;
  const Tensor x = linalg::tensorsolve(a, core::arange(24.0).reshape({6, 4}));
  EXPECT_EQ(x.sizes(), (Shape{2, 3, 4}));
  expect_close(x.flatten().narrow(0, 0, 4), core::tensor({0.281111, -7.697019, -5.659297, 5.199193}), 1e-4);
  EXPECT_EQ(
      linalg::tensorsolve(a.permute({2, 0, 1, 3, 4}), core::ones({6, 4, 2}).narrow(2, 0, 1).squeeze(2), {0}).sizes(),
      (Shape{3, 4, 2}));
  EXPECT_EQ(linalg::tensorinv(a).sizes(), (Shape{2, 3, 4, 6, 4}));
  expect_close(linalg::tensorinv(core::eye(4).reshape({4, 2, 2}), 1), core::eye(4).reshape({2, 2, 4}));
}

TEST(LinalgTensors, Errors) {
  EXPECT_EQ(message_of([] {
              linalg::tensorsolve(core::ones({2, 3, 4}), core::ones({2, 3}));
            }),
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            "but got 4 != 6");
  EXPECT_EQ(message_of([] {
              linalg::tensorinv(core::ones({2, 3, 4}), 1);
            }),
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got 12 != "
            "2");
  EXPECT_EQ(message_of([] {
              linalg::tensorinv(core::ones({2, 3}), 0);
            }),
            "Expected a strictly positive integer for 'ind', but got 0");
}

TEST(LinalgSolveEx, SaysWhatStoodInTheWay) {
  EXPECT_EQ(linalg::solve_ex(core::zeros({2, 2}), core::ones({2})).info.item<int>(), 1);
  const auto [x, info] = linalg::solve_ex(kGeneral, core::ones({3}));
  EXPECT_EQ(info.item<int>(), 0);
  expect_close(x, core::tensor({-1, 1, 0}), 1e-5);
}

TEST(LinalgEig, Values) {
  const core::linalg::Eigen f = linalg::eig(core::tensor({{1, 2, 0}, {-2, 1, 0}, {0, 0, 3}}, {.dtype = DType::f64}));
  EXPECT_EQ(f.values.dtype(), DType::c128);
  expect_close(core::view_as_real(f.values), core::tensor({{1, 2}, {1, -2}, {3, 0}}));
  const double half = 0.70710678118654752;
  expect_close(core::real(f.vectors), core::tensor({{0.0, 0.0, 0.0}, {half, half, 0.0}, {0.0, 0.0, 1.0}}));
  expect_close(core::imag(f.vectors), core::tensor({{-half, half, 0.0}, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}}));
  EXPECT_EQ(core::to_string(linalg::eigvals(core::tensor({{0.0, -1.0}, {1.0, 0.0}}))), "tensor([0.+1.j, 0.-1.j])");
  EXPECT_EQ(linalg::eig(core::zeros({2, 0, 0})).vectors.sizes(), (Shape{2, 0, 0}));
}

TEST(LinalgEig, Errors) {
  EXPECT_EQ(message_of([] { linalg::eig(kWide); }),
            "linalg.eig: A must be batches of square matrices, but they are 2 by 3 matrices");
  EXPECT_EQ(message_of([] { linalg::eig(core::eye(2).to_long()); }), "Unknown Complex ScalarType for Long");
  EXPECT_EQ(message_of([] { linalg::eig(core::eye(2).to_half()); }),
            "\"linalg_eig_out_cpu\" not implemented for 'Half'");
  EXPECT_EQ(message_of([] {
              linalg::eigvals(core::tensor({{test::kNan, 1.0}, {1.0, 1.0}}));
            }),
            "torch.linalg.eig: input tensor should not contain infs or NaNs.");
  EXPECT_EQ(
      message_of([] {
        const Tensor a = kGeneral.clone().requires_grad_();
        core::real(linalg::eig(a).vectors * core::complex_number(1, 2)).sum().backward();
      }),
      "linalg_eig_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. "
      "The specified loss function depends on this quantity, so it is ill-defined.");
}

TEST(LinalgHouseholder, ProductOfReflections) {
  const auto [a, tau] = core::geqrf(kTall);
  expect_close(a, core::tensor({{-8.124039, -9.601136}, {0.438402, 0.904534}, {0.767204, 0.909076}}));
  expect_close(tau, core::tensor({1.123091, 1.095039}));
  const Tensor q = core::tensor({{-0.123091, 0.904534}, {-0.492366, 0.301511}, {-0.861640, -0.301511}});
  expect_close(linalg::householder_product(a, tau), q);
  EXPECT_EQ(linalg::householder_product(a.clone().requires_grad_(), tau).grad_fn_name(),
            "LinalgHouseholderProductBackward0");
  expect_close(linalg::householder_product(kTall, core::ones({1})), core::tensor({{0, -4}, {-4, -15}, {-7, -28}}));
}

TEST(LinalgHouseholder, Errors) {
  const std::string name = "torch.linalg.householder_product: ";
  EXPECT_EQ(message_of([] { linalg::householder_product(kWide, core::ones({2})); }),
            name + "input.shape[-2] must be greater than or equal to input.shape[-1]");
  EXPECT_EQ(message_of([] { linalg::householder_product(kTall, core::ones({3})); }),
            name + "input.shape[-1] must be greater than or equal to tau.shape[-1]");
  EXPECT_EQ(message_of([] { linalg::householder_product(kTall, core::ones({2}).to_double()); }),
            name + "tau dtype Double does not match input dtype Float");
  EXPECT_EQ(message_of([] { core::geqrf(core::ones({2})); }), "torch.geqrf: input must have at least 2 dimensions.");
}

TEST(LinalgMultiDot, ChecksDimensions) {
  EXPECT_EQ(message_of([] {
              linalg::multi_dot({kGeneral, core::ones({3, 3, 3})});
            }),
            "multi_dot(): the last tensor must be 1D or 2D but got 3D");
  EXPECT_EQ(message_of([] {
              linalg::multi_dot({kGeneral, core::ones({3, 2, 2}), kGeneral});
            }),
            "multi_dot(): tensor 1 must be 2D but got 3D");
}

TEST(Complex, ViewsShareMemory) {
  const Tensor pairs = core::tensor({{1.0, 2.0}, {3.0, -4.0}}), numbers = core::view_as_complex(pairs);
  EXPECT_EQ(core::to_string(numbers), "tensor([1.+2.j, 3.-4.j])");
  core::imag(numbers).fill_(7);
  EXPECT_EQ(pairs.to_vector<float>(), (std::vector<float>{1, 7, 3, 7}));
  EXPECT_EQ(core::view_as_real(numbers).sizes(), (Shape{2, 2}));
  EXPECT_TRUE(core::real(pairs).is_same(pairs));
  EXPECT_TRUE(core::is_complex(numbers));
  EXPECT_EQ(core::to_string(core::complex(core::tensor({1.0, 2.0}), core::tensor(3.0))), "tensor([1.+3.j, 2.+3.j])");
}

TEST(Complex, Errors) {
  const Tensor ones = core::ones({2}), integers = ones.to_long();
  EXPECT_EQ(message_of([&] { core::view_as_real(ones); }), "view_as_real is only supported for complex tensors");
  EXPECT_EQ(message_of([&] { core::imag(ones); }), "imag is not implemented for tensors with non-complex dtypes.");
  EXPECT_EQ(message_of([&] { core::view_as_complex(core::ones({3})); }), "Tensor must have a last dimension of size 2");
  EXPECT_EQ(message_of([&] { core::view_as_complex(core::ones({})); }),
            "Input tensor must have one or more dimensions");
  EXPECT_EQ(message_of([&] { core::view_as_complex(integers); }),
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: "
            "Long");
  EXPECT_EQ(message_of([&] {
              core::view_as_complex(core::ones({2, 3}).t());
            }),
            "Tensor must have a last dimension with stride 1");
  EXPECT_EQ(message_of([&] {
              core::view_as_complex(core::ones({2, 3}).narrow(1, 0, 2));
            }),
            "Tensor must have a stride divisible by 2 for all but last dimension");
  EXPECT_EQ(message_of([&] { core::view_as_complex(core::ones({5}).narrow(0, 1, 2)); }),
            "Tensor must have a storage_offset divisible by 2");
  EXPECT_EQ(message_of([&] { core::complex(integers, integers); }),
            "Expected both inputs to be Half, Float or Double tensors but got Long and Long");
  EXPECT_EQ(message_of([&] { core::complex(ones, ones.to_double()); }),
            "Expected object of scalar type Float but got scalar type Double for second argument");
}

TEST(LinalgLu, PivotsThatAreNotThoseOfTheMatrix) {
  const auto solve = [](const std::vector<std::int64_t>& pivots) {
    return message_of([&] { linalg::lu_solve({kGeneral, core::from_values(pivots).to(DType::i32)}, kGeneral); });
  };
  const std::string asks = ". Did you properly pass the result of lu_factor?";
  EXPECT_EQ(solve({2, 9, 3}), "Pivots given to lu_solve must all be smaller or equal to LU.size(-2)" + asks);
  EXPECT_EQ(solve({0, 2, 3}), "Pivots given to lu_solve must all be greater or equal to 1" + asks);
  EXPECT_EQ(solve({1, 2}), "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix");
  const Tensor wide = core::ones({1, 3}, {.dtype = DType::i32});
  EXPECT_EQ(message_of([&] {
              linalg::lu_solve({kGeneral, wide}, kGeneral);
            }),
            "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape [1, 3] "
            "instead");
  EXPECT_EQ(message_of([&] {
              linalg::lu_solve({kGeneral, wide[0].to(DType::i64)}, kGeneral);
            }),
            "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
}

TEST(Linalg, PivotsOfLdlThatNameNoRow) {
  const auto solve = [](const std::vector<std::int64_t>& pivots) {
    return message_of([&] { linalg::ldl_solve({kGeneral, core::from_values(pivots).to(DType::i32)}, kGeneral); });
  };
  const auto at = [](const char* position) {
    return std::string("torch.linalg.ldl_solve: pivots are not those of a matrix of 3 rows, see position ") + position +
           ". Did you properly pass the result of ldl_factor?";
  };
  EXPECT_EQ(solve({9, 2, 3}), at("0"));
  EXPECT_EQ(solve({1, 0, 3}), at("1"));
  EXPECT_EQ(solve({1, 2, -3}), at("2"));  // the last row has none beside it
  EXPECT_EQ(solve({-2, -9, 3}), at("0"));
  EXPECT_EQ(solve({-2147483648, -1, 3}), at("0"));
}

TEST(Linalg, EmptyMatricesHaveFactorsAndNorms) {
  const linalg::LU wide = linalg::lu(core::zeros({2, 0, 3})), tall = linalg::lu(core::zeros({2, 3, 0}));
  EXPECT_EQ(wide.p.sizes(), (Shape{2, 0, 0}));
  EXPECT_EQ(wide.u.sizes(), (Shape{2, 0, 3}));
  EXPECT_TRUE(core::equal(tall.p, core::eye(3).expand({2, 3, 3})));
  EXPECT_EQ(tall.l.sizes(), (Shape{2, 3, 0}));
  const Tensor nothing = core::zeros({2, 0, 0});
  EXPECT_EQ(linalg::lu_solve(linalg::lu_factor(nothing), core::zeros({2, 0, 4})).sizes(), (Shape{2, 0, 4}));
  EXPECT_EQ(linalg::cond(nothing).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(linalg::matrix_norm(core::zeros({2, 3, 0}), {.ord = 1.0}).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(message_of([&] { linalg::matrix_norm(nothing, {.ord = -2.0}); }),
            "amin(): Expected reduction dim -1 to have non-zero size.");
}

}  // namespace

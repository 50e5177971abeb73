// Tensors as people use them who come from PyTorch: None, assignment into views, methods, plain numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <type_traits>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/ops/stft.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

using core::None;
using core::Shape;
using core::Slice;
using core::Tensor;
using test::message_of;

TEST(UndefinedTensor, SaysSoWhereverItIsUsed) {
  const Tensor none;
  const Tensor x = core::ones({2, 2});
  const std::vector<std::function<void()>> uses = {
      [&] { none.norm(); },
      [&] { static_cast<void>(none.sizes()); },
      [&] { static_cast<void>(none.dim()); },
      [&] { static_cast<void>(none.numel()); },
      [&] { static_cast<void>(none.dtype()); },
      [&] { static_cast<void>(none.device()); },
      [&] { static_cast<void>(none.requires_grad()); },
      [&] { static_cast<void>(none.is_leaf()); },
      [&] { static_cast<void>(none.grad()); },
      [&] { static_cast<void>(none.grad_fn()); },
      [&] { static_cast<void>(none.version()); },
      [&] { none.backward(); },
      [&] { none.item(); },
      [&] { none.to_vector<float>(); },
      [&] { static_cast<void>(none.raw_data()); },
      [&] { none.detach(); },
      [&] { none.clone(); },
      [&] { none.to(core::DType::f64); },
      [&] { none.cpu(); },
      [&] { none.zero_(); },
      [&] { none.add_(x); },
      [&] { none.view({1}); },
      [&] { none.t(); },
      [&] { none[0]; },
      [&] { none.sum(); },
      [&] { none + 1; },
      [&] { x + none; },
      [&] { none* x; },
      [&] { core::matmul(x, none); },
      [&] {
        core::cat({x, none});
      },
      [&] { x.copy_(none); },
      [&] { x.grad().norm(); },
      [&] { core::zeros_like(none); },
      [&] { core::index(x, {none}); },
      [&] { none.contiguous(); },
  };
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_THAT(message_of(uses[i]), testing::HasSubstr("undefined Tensor in C++)")) << "use " << i;
  }
}

TEST(Assignment, ToWhatAnIndexGivesWritesIntoTheTensor) {
  Tensor x = core::zeros({2, 3});
  const Tensor row = core::tensor({1.0, 2.0, 3.0});
  x[0] = row;
  x.select(1, 2) = 9;
  x.index({1, Slice(None, 2)}) = row.slice(0, 1, 3);
  core::index(x, {0, 1}) = 5;
  EXPECT_TRUE(x.equal(core::tensor({{1.0, 5.0, 9.0}, {2.0, 3.0, 9.0}})));
  x = row;  // a name is only given to another tensor
  EXPECT_TRUE(x.is_same(row));
  const Tensor learnt = core::ones({2}, {.requires_grad = true}), y = learnt * 1;
  y[0] = row[2];
  y.sum().backward();
  EXPECT_TRUE(learnt.grad().equal(core::tensor({0.0, 1.0})));
}

TEST(Assignment, ThatNobodyWouldSeeIsAnError) {
  const Tensor x = core::ones({2, 3});
  EXPECT_THAT(message_of([&] { x.index({x > 0}) = 0; }), testing::HasSubstr("use x.index_put_({...}, values)"));
  EXPECT_THAT(message_of([&] { x + 1 = x; }), testing::HasSubstr("would be lost"));
  static_assert(!std::is_assignable_v<decltype(x.grad()), Tensor>);  // x.grad() = y does not compile
  x.index_put_({x > 0}, 4);
  EXPECT_EQ(x.sum().item<float>(), 24);
}

TEST(Methods, AreTheFunctionsOfTheirName) {
  const Tensor x = core::tensor({{1.0, -2.0, 3.0}, {4.0, 5.0, -6.0}});
  EXPECT_TRUE(x.floor().equal(core::floor(x)));
  EXPECT_TRUE(x.softmax(1).equal(core::softmax(x, 1)));
  EXPECT_TRUE(x.topk(2).values.equal(core::topk(x, 2).values));
  EXPECT_TRUE(x.where(x > 0, 0).equal(core::tensor({{1.0, 0.0, 3.0}, {4.0, 5.0, 0.0}})));
  EXPECT_TRUE(x.clone().tril_().equal(core::tril(x)));
  EXPECT_TRUE(x.max(-x).equal(x.abs()));
  EXPECT_TRUE(x.amax({0, 1}).equal(core::tensor(5.0)));
  EXPECT_TRUE(x.polygamma(1).allclose(core::polygamma(1, x), 1e-5, 1e-8, true));
  EXPECT_EQ(x.long_().dtype(), core::int64);
  EXPECT_EQ(x.half().element_size(), 2);
  EXPECT_EQ(x.nbytes(), 24);
  core::manual_seed(3);
  const Tensor a = core::zeros({4}).normal_(1, 2);
  core::manual_seed(3);
  EXPECT_TRUE(a.equal(core::normal_(core::zeros({4}), 1, 2)));
}

TEST(Methods, OfMatrices) {
  core::manual_seed(1);
  const Tensor a = core::randn({3, 3}), b = core::randn({3, 2}), tall = core::randn({4, 2});
  const auto [lu, pivots] = a.lu();
  EXPECT_TRUE(b.lu_solve(lu, pivots).allclose(core::linalg::solve(a, b), 1e-3, 1e-4));
  EXPECT_EQ(core::zeros({2, 2}).lu().lu.sizes(), (Shape{2, 2}));  // singular matrices have factors too
  const auto [sign, log] = a.slogdet();
  EXPECT_TRUE((sign * log.exp()).allclose(a.det(), 1e-4));
  const auto [u, s, v] = tall.svd();
  EXPECT_TRUE(core::matmul(u * s, v.t()).allclose(tall, 1e-4, 1e-5));
  EXPECT_EQ(tall.svd(false).u.sizes(), (Shape{4, 4}));
  const auto [no_u, values, no_v] = tall.svd(true, false);
  EXPECT_TRUE(no_u.equal(core::zeros({4, 4})) && no_v.equal(core::zeros({2, 2})) && values.allclose(s, 1e-4));
  const auto [reflectors, tau] = tall.geqrf();
  const Tensor whole = reflectors.ormqr(tau, core::eye(4));
  EXPECT_TRUE(whole.narrow(1, 0, 2).allclose(reflectors.orgqr(tau), 1e-4, 1e-5));
  EXPECT_TRUE(reflectors.ormqr(tau, whole, true, true).allclose(core::eye(4), 1e-4, 1e-5));
  EXPECT_TRUE(reflectors.ormqr(tau, core::eye(4), false).allclose(whole, 1e-4, 1e-5));
}

TEST(Methods, OfComplexNumbers) {
  const Tensor z = core::complex(core::arange(6.0).view(2, 3), core::ones({2, 3}));
  EXPECT_TRUE(z.H().equal(core::conj(z).t()) && z.mH().equal(z.H()) && z.adjoint().equal(z.H()));
  EXPECT_TRUE(z.conj_physical().equal(core::conj(z)));
  const Tensor written = z.clone();
  EXPECT_TRUE(written.conj_physical_().is_same(written) && written.equal(core::conj(z)));
  EXPECT_EQ(core::ones({2}).cdouble().dtype(), core::DType::c128);
  const Tensor vector = core::ones({3}), batch = core::ones({2, 2, 3});
  EXPECT_EQ(message_of([&] { vector.H(); }), "tensor.H is only supported on matrices (2-D tensors). Got 1-D tensor.");
  EXPECT_EQ(message_of([&] { batch.H(); }),
            "tensor.H is only supported on matrices (2-D tensors). Got 3-D tensor. For batches of matrices, consider "
            "using tensor.mH");
  EXPECT_EQ(message_of([&] { vector.mH(); }),
            "tensor.mH is only supported on matrices or batches of matrices. Got 1-D tensor.");
  EXPECT_EQ(message_of([&] { vector.adjoint(); }),
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.");
  EXPECT_EQ(batch.mH().sizes(), (Shape{2, 3, 2}));
}

TEST(Methods, OfSignalsCountsAndLayouts) {
  const Tensor x = core::arange(20.0);
  const Tensor spectra = x.stft(8);
  EXPECT_TRUE(spectra.equal(core::stft(x, 8)));
  EXPECT_TRUE(spectra.istft(8).allclose(x, 1e-4, 1e-4));
  EXPECT_EQ(spectra.istft(8, {.length = 12}).sizes(), (Shape{12}));
  EXPECT_EQ(x.histogram(4).hist.to_vector<float>(), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(x.histogram(core::tensor({0.0, 10.0, 20.0})).hist.to_vector<float>(), (std::vector<float>{10, 10}));
  EXPECT_EQ(x.new_empty_strided({2, 3}, {1, 2}).strides(), (Shape{1, 2}));
  EXPECT_EQ(core::ones({2, 3, 4}).permute({2, 0, 1}).dim_order(), (Shape{1, 2, 0}));
  EXPECT_EQ(x.layout(), core::Layout::strided);
}

/// Texts and values of PyTorch 2.15.
TEST(Numbers, ThatDoNotFitAreRefused) {
  using core::DType;
  const auto fill = [](DType dtype, core::Scalar value) {
    return message_of([&] { core::zeros({2}, {.dtype = dtype}).fill_(value); });
  };
  const std::string byte = "value cannot be converted to type uint8_t without overflow";
  EXPECT_EQ(fill(DType::u8, 300), byte);
  EXPECT_EQ(fill(DType::u8, -1.0), byte);
  EXPECT_EQ(fill(DType::u8, std::nan("")), byte);
  EXPECT_EQ(fill(DType::i32, 1e40), "value cannot be converted to type int without overflow");
  EXPECT_EQ(fill(DType::f32, 1e40), "value cannot be converted to type float without overflow");
  EXPECT_EQ(core::full({1}, -1, {.dtype = DType::u8}).item<int>(), 255);
  EXPECT_EQ(core::full({1}, 3.7, {.dtype = DType::u8}).item<int>(), 3);
  EXPECT_EQ(fill(DType::f16, 1e5), "value cannot be converted to type c10::Half without overflow");
  EXPECT_EQ(fill(DType::bf16, 1e39), "value cannot be converted to type c10::BFloat16 without overflow");
  EXPECT_TRUE(std::isinf(core::full({1}, 1e5, {.dtype = DType::f16}).item<double>()));  // one element is not looked at
  const Tensor x = core::zeros({2}, {.dtype = DType::u8}), at = core::tensor({1}), mask = core::tensor({true, false});
  const std::vector<std::function<void()>> uses = {
      [&] { core::full({2}, 300, {.dtype = DType::u8}); },
      [&] { core::full_like(x, 300); },
      [&] { x.new_full({2}, 300); },
      [&] { x[0] = 300; },
      [&] { x.masked_fill(mask, 300); },
      [&] { x.masked_fill_(mask, 300); },
      [&] { x.index_fill_(0, at, 300); },
      [&] { x.scatter_(0, at, 300); },
      [&] { x.index_put_({mask}, 300); },
      [&] { core::where(mask, x, 300); },
      [&] {
        core::pad(x, {1, 1}, core::PaddingMode::zeros, 300);
      },
  };
  for (std::size_t i = 0; i < uses.size(); ++i) EXPECT_EQ(message_of(uses[i]), byte) << i;
  EXPECT_EQ(message_of([&] { core::zeros({2}, {.dtype = DType::f16}).masked_fill_(mask, -1e9); }),
            "value cannot be converted to type c10::Half without overflow");
}

TEST(Numbers, FillEightBitFloats) {
  using core::DType;
  const auto filled = [](DType dtype, double value) {
    return core::zeros({2}, {.dtype = dtype}).fill_(value).to(DType::f32)[1].item<double>();
  };
  EXPECT_EQ(filled(DType::f8_e4m3fn, 0.3), 0.3125);
  EXPECT_EQ(filled(DType::f8_e4m3fn, 500), 448);
  EXPECT_EQ(filled(DType::f8_e5m2, 500), 512);
  EXPECT_TRUE(std::isnan(filled(DType::f8_e4m3fnuz, 500)));
  EXPECT_EQ(filled(DType::f8_e8m0fnu, 0), 0x1p-127);
  EXPECT_EQ(core::full({2}, -1, {.dtype = DType::f8_e5m2fnuz}).to(DType::f32)[0].item<double>(), -1);
}

TEST(Sizes, OfATensorWithoutDimensions) {
  const Tensor number = core::tensor(2.0);
  EXPECT_EQ(message_of([&] { static_cast<void>(number.size(0)); }),
            "Dimension specified as 0 but tensor has no dimensions");
  EXPECT_EQ(message_of([&] { static_cast<void>(number.stride(-1)); }),
            "Dimension specified as -1 but tensor has no dimensions");
}

TEST(PlainNumbers, StandWherePyTorchTakesThem) {
  const Tensor x = core::arange(24.0).view(2, 3, 4);
  EXPECT_EQ(x.permute(0, 2, 1).sizes(), (Shape{2, 4, 3}));
  EXPECT_EQ(x.reshape(-1, 4).sizes(), (Shape{6, 4}));
  EXPECT_EQ(x.sum(1).sizes(), (Shape{2, 4}));
  EXPECT_EQ(x.mean(-1, true).sizes(), (Shape{2, 3, 1}));
  EXPECT_EQ(core::sum(x, 0).sizes(), (Shape{3, 4}));
  EXPECT_EQ(core::sum(x, {0, 1}).sizes(), (Shape{4}));  // both, not dimension 0 with keepdim
  EXPECT_EQ(core::sum(x, {0}, true).sizes(), (Shape{1, 3, 4}));
  EXPECT_EQ(core::sum(x, {.dims = {1}, .keepdim = true}).sizes(), (Shape{2, 1, 4}));
  EXPECT_EQ(x.var(0, false).sizes(), (Shape{3, 4}));
  EXPECT_EQ(core::zeros(2, 3).sizes(), (Shape{2, 3}));
  EXPECT_EQ(core::randn(2, 3, 4).sizes(), (Shape{2, 3, 4}));
  EXPECT_EQ(core::zeros(5).sizes(), (Shape{5}));
  EXPECT_EQ(x.repeat(2, 1, 1).sizes(), (Shape{4, 3, 4}));
  EXPECT_EQ(core::cat(x, x).sizes(), (Shape{4, 3, 4}));
  EXPECT_TRUE(core::einsum("ijk,ijk->", x, x).equal((x * x).sum()));
}

TEST(PlainNumbers, InBrackets) {
  const Tensor x = core::arange(12.0).view(3, 4);
  EXPECT_TRUE(x.index({Slice(1, None)}).equal(x.slice(0, 1)));
  EXPECT_TRUE(x.index({Slice(None, 2), None, 0}).equal(x.slice(0, 0, 2).select(1, 0).unsqueeze(1)));
  EXPECT_TRUE(x.index({Slice(None, None, 2)}).equal(x.slice(0, 0, 3, 2)));
  EXPECT_TRUE(x.index({Slice(1)}).equal(x.slice(0, 1)));  // as libtorch's
}

TEST(ANumberTimesATensor, FreesWhatPyTorchFrees) {
  const Tensor x = core::ones({2}, {.requires_grad = true});
  for (const Tensor& y : {(x * 2).sum(), (x / 2).sum(), (2 * x).sum()}) {
    y.backward();
    EXPECT_THAT(message_of([&] { y.backward(); }),
                testing::HasSubstr("Trying to backward through the graph a second time"));
  }
  for (const Tensor& y : {(x + 2).sum(), (x - 2).sum(), (2 - x).sum()}) {
    y.backward();
    EXPECT_EQ(message_of([&] { y.backward(); }), "no error");  // nothing is kept for these
  }
}

}  // namespace

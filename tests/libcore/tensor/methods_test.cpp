// Tensors as people use them who come from PyTorch: None, assignment into views, methods, plain numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <type_traits>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"
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

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/base/bytes.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using test::message_of;

using Floats = std::vector<float>;

TEST(Tensor, HandlesShareOneArray) {
  Tensor a = core::zeros({2});
  Tensor b = a;
  b.add_(1);
  EXPECT_TRUE(a.is_same(b));
  EXPECT_EQ(a.to_vector<float>(), (Floats{1, 1}));
}

TEST(Tensor, ViewsShareMemoryAndCountWrites) {
  Tensor a = core::arange(6, {.dtype = DType::f32}).view({2, 3});
  auto writes = a.storage()->writes();
  a.t().select(0, 1).fill_(9);
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 9, 2, 3, 9, 5}));
  EXPECT_GT(a.storage()->writes(), writes);
  writes = a.storage()->writes();
  a.data_alias().mul_(2);
  EXPECT_GT(a.storage()->writes(), writes);
  EXPECT_EQ(a.version(), 1U);
}

TEST(Tensor, ItemNeedsOneElement) {
  EXPECT_EQ(core::tensor({3}).item<int>(), 3);
  EXPECT_EQ(message_of([] { core::ones({2}).item(); }), "a Tensor with 2 elements cannot be converted to Scalar");
}

TEST(Tensor, DataChecksTheElementType) {
  EXPECT_EQ(message_of([] { core::ones({2}).data<double>(); }), "expected scalar type Double but found Float");
}

TEST(Factory, NestedValuesSuggestTheDtype) {
  EXPECT_EQ(core::tensor({{1, 2}, {3, 4}}).dtype(), DType::i64);
  EXPECT_EQ(core::tensor({1, 2.5}).dtype(), DType::f32);
  EXPECT_EQ(core::tensor({true, false}).dtype(), DType::boolean);
  EXPECT_EQ(core::tensor(2.5).dim(), 0);
  EXPECT_EQ(message_of([] { core::tensor({{1, 2}, {3}}); }), "expected sequence of length 2 at dim 1 (got 1)");
}

TEST(Factory, BorrowedMemoryIsReleasedOnce) {
  float values[] = {1, 2, 3};
  int released = 0;
  {
    Tensor t = core::from_blob(
        values, {3}, DType::f32, core::Device(), [](void* count) { ++*static_cast<int*>(count); }, &released);
    Tensor view = t.slice(0, 1);
    t.mul_(2);
    EXPECT_EQ(view.to_vector<float>(), (Floats{4, 6}));
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(values[2], 6);
}

TEST(Elementwise, ResultKeepsTheOrderOfMemory) {
  Tensor x = core::ones({2, 3, 4}).permute({2, 0, 1});
  EXPECT_EQ((x + x).strides(), (Shape{1, 12, 4}));
  EXPECT_EQ(core::exp(x).strides(), (Shape{1, 12, 4}));
}

TEST(Elementwise, StridedAndBroadcastOperands) {
  Tensor a = core::arange(6, {.dtype = DType::f32}).view({2, 3}).t();
  Tensor b = core::tensor({10.0, 20.0});
  EXPECT_EQ((a + b).to_vector<float>(), (Floats{10, 23, 11, 24, 12, 25}));
  EXPECT_EQ(core::where(a > 2, a, b).to_vector<float>(), (Floats{10, 3, 10, 4, 10, 5}));
}

TEST(Elementwise, LargeArraysAreSplitWithoutChangingBits) {
  Tensor x = core::linspace(-3, 3, 200001);
  core::set_num_threads(1);
  Tensor alone = core::tanh(x * 1.7 + 0.3);
  core::set_num_threads(4);
  Tensor split = core::tanh(x * 1.7 + 0.3);
  EXPECT_TRUE(core::allclose(alone, split, {.rtol = 1e-6, .atol = 1e-7}));
}

TEST(Elementwise, HalvesRoundOnce) {
  Tensor x = core::tensor({1.0, 2049.0}, {.dtype = DType::f16});
  EXPECT_EQ((x + 1).to_vector<float>(), (Floats{2, 2048}));
  EXPECT_EQ((x + 1).dtype(), DType::f16);
}

TEST(Elementwise, InPlaceKeepsDtypeAndShape) {
  Tensor i = core::ones({2}, {.dtype = DType::i64});
  EXPECT_EQ(message_of([&] { i.add_(0.5); }), "result type Float can't be cast to the desired output type Long");
  EXPECT_EQ(message_of([] {
              core::ones({3}).add_(core::ones({2, 3}));
            }),
            "output with shape [3] doesn't match the broadcast shape [2, 3]");
}

TEST(Elementwise, IntegerDivisionByZeroIsAnError) {
  EXPECT_EQ(message_of([] { core::floor_divide(core::tensor({1}), core::tensor({0})); }), "ZeroDivisionError");
  Tensor smallest = core::full({1}, INT64_MIN, {.dtype = DType::i64});
  EXPECT_EQ(core::floor_divide(smallest, core::tensor({-1})).item<std::int64_t>(), INT64_MIN);
}

TEST(Reduction, DoesNotDependOnTheNumberOfThreads) {
  Tensor x = core::linspace(-1, 1, 1000003);
  core::set_num_threads(1);
  float one = x.square().sum().item<float>();
  core::set_num_threads(3);
  float three = x.square().sum().item<float>();
  EXPECT_EQ(std::memcmp(&one, &three, sizeof one), 0);
  EXPECT_NEAR(one, 333335.0, 0.1);  // n (n + 1) / (3 (n - 1))
}

TEST(Reduction, ColumnsRowsAndBoth) {
  Tensor x = core::arange(24, {.dtype = DType::f32}).view({2, 3, 4});
  EXPECT_EQ(x.sum({0, 1}).to_vector<float>(), (Floats{60, 66, 72, 78}));
  EXPECT_EQ(x.sum({2}).to_vector<float>(), (Floats{6, 22, 38, 54, 70, 86}));
  EXPECT_EQ(x.mean({0}, true).sizes(), (Shape{1, 3, 4}));
  EXPECT_EQ(x.permute({2, 0, 1}).sum({1}).to_vector<float>()[0], 12);
}

TEST(Reduction, NanWinsAndFirstIndexCounts) {
  Tensor x = core::tensor({1.0, std::nan(""), 3.0, std::nan("")});
  EXPECT_EQ(x.argmax().item<int>(), 1);
  EXPECT_TRUE(std::isnan(x.max().item<float>()));
  EXPECT_EQ(core::tensor({2, 5, 5}).max(0).indices.item<int>(), 1);
}

TEST(Matmul, TakesTransposedAndBatchedOperands) {
  Tensor a = core::arange(6, {.dtype = DType::f32}).view({2, 3});
  EXPECT_EQ(core::mm(a, a.t()).to_vector<float>(), (Floats{5, 14, 14, 50}));
  EXPECT_EQ(core::mm(a.t(), a).to_vector<float>(), (Floats{9, 12, 15, 12, 17, 22, 15, 22, 29}));
  Tensor batch = a.expand({4, 2, 3});
  EXPECT_EQ(core::matmul(batch, a.t()).sizes(), (Shape{4, 2, 2}));
  EXPECT_EQ(core::bmm(batch, batch.transpose(1, 2)).select(0, 3).to_vector<float>(), (Floats{5, 14, 14, 50}));
  Tensor integers = core::arange(4).view({2, 2});
  EXPECT_EQ(core::mm(integers, integers).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3, 6, 11}));
}

TEST(Matmul, EmptyInnerDimensionGivesZeros) {
  EXPECT_EQ(core::mm(core::ones({2, 0}), core::ones({0, 2})).to_vector<float>(), (Floats{0, 0, 0, 0}));
}

TEST(Cast, EveryCarriedType) {
  Tensor x = core::tensor({0.0, 1.0, 2.0});
  for (DType dtype : {DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::u16, DType::u32, DType::u64,
                      DType::f16, DType::bf16, DType::f64}) {
    EXPECT_EQ(x.to(dtype).to(DType::f32).to_vector<float>(), (Floats{0, 1, 2})) << core::name(dtype);
  }
  EXPECT_EQ(x.to(DType::boolean).to_vector<float>(), (Floats{0, 1, 1}));
  const std::uint8_t bits[] = {0x38, 0xc0};
  Tensor narrow = core::from_bytes(std::as_bytes(std::span(bits)), {2}, DType::f8_e4m3fn);
  EXPECT_EQ(narrow.to(DType::f64).to_vector<float>(), (Floats{1, -2}));
}

TEST(Compare, EqualAndClose) {
  Tensor x = core::tensor({1.0, std::nan("")});
  EXPECT_FALSE(core::equal(x, x));
  EXPECT_TRUE(core::allclose(x, x, {.equal_nan = true}));
  EXPECT_TRUE(core::equal(core::ones({2}), core::ones({2})));
  EXPECT_FALSE(core::equal(core::ones({2}), core::ones({2}, {.dtype = DType::f64})));
}

}  // namespace

// Models whose Linear and LSTM layers get 8-bit weights.
#include "libcore/module/quantized.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/print.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

using core::DType;
using core::Tensor;

double distance(const Tensor& a, const Tensor& b) {
  return core::max(core::abs(a - b)).item<double>();
}

TEST(QuantizeDynamic, ReplacesLayersOfContainersAtAnyDepth) {
  core::manual_seed(0);
  core::Sequential model{core::Linear(8, 16), core::ReLU(), core::Sequential{core::Linear(16, 4)}};
  model.eval();
  const Tensor x = core::randn({5, 8}), before = model(x);
  EXPECT_EQ(core::quantize_dynamic(model), 2);
  const Tensor after = model(x);
  EXPECT_GT(distance(after, before), 0);
  EXPECT_LT(distance(after, before), 0.05);
  EXPECT_EQ(model.buffer("2.0.weight").dtype(), DType::i8);
  EXPECT_EQ(core::quantize_dynamic(model), 0);  // nothing is left
}

struct Net : core::ModuleOf<Net> {
  core::Linear inside{4, 4};
  std::shared_ptr<core::Module> behind = std::make_shared<core::Linear>(4, 2);
  void members(core::Members& m) override { m.child("behind", behind).child("inside", inside); }
  Tensor forward(const Tensor& x) { return behind->call(inside(x)); }
};

TEST(QuantizeDynamic, RefusesAMemberOfAStructBeforeItChangesAnything) {
  Net net;
  EXPECT_THAT(test::message_of([&] { core::quantize_dynamic(net); }),
              testing::HasSubstr("module Net: its member 'inside' is part of the struct and stays what it is"));
  EXPECT_EQ(net.behind->class_name(), "Linear");
}

TEST(QuantizeDynamic, NamesALayerThatItCannotTakeBeforeItChangesAnything) {
  core::Sequential model{core::Linear(8, 16), core::Sequential{core::Linear(16, 4)}};
  model.submodule("1").to(DType::f64);
  std::string said;
  try {
    core::quantize_dynamic(model);
  } catch (const core::Error& error) {
    said = error.what();
  }
  EXPECT_EQ(
      said,
      "module '1.0': what becomes 8-bit weights is a matrix of float32 on the CPU, but got float64 [4, 16] on cpu");
  EXPECT_EQ(model.submodule("0").class_name(), "Linear");
}

struct Doubled : core::ModuleOf<Doubled, core::Linear> {
  Doubled() : ModuleOf(4, 4) {}
  Tensor forward(const Tensor& x) const { return core::Linear::forward(x) * 2; }
};

TEST(QuantizeDynamic, LeavesWhatDerivesFromThem) {
  core::Sequential model{Doubled()};
  EXPECT_EQ(core::quantize_dynamic(model), 0);
}

TEST(DynamicQuantizedLinear, IsWithin7BitsOfTheFloatOne) {
  core::manual_seed(1);
  const core::Linear linear(64, 32);
  core::DynamicQuantizedLinear quantized(linear);
  const Tensor x = core::randn({3, 7, 64});
  const Tensor y = quantized(x);
  EXPECT_EQ(y.sizes(), (core::Shape{3, 7, 32}));
  EXPECT_LT(distance(y, linear.forward(x)), 0.06);
  EXPECT_FALSE(y.requires_grad());
}

TEST(DynamicQuantizedLinear, RoundTripsItsState) {
  core::manual_seed(2);
  core::DynamicQuantizedLinear first(core::Linear(6, 3)), second(core::Linear(6, 3));
  const Tensor x = core::randn({2, 6});
  EXPECT_GT(distance(first(x), second(x)), 0);
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(distance(first(x), second(x)), 0);
}

TEST(DynamicQuantizedLinear, TakesF32OfItsSizeAlone) {
  core::DynamicQuantizedLinear module(core::Linear(6, 3));
  EXPECT_EQ(test::message_of([&] {
              module(core::ones({2, 5}));
            }),
            "a quantized layer takes float32 on the CPU with 6 features at the end, but got float32 [2, 5] on cpu");
  EXPECT_THAT(test::message_of([&] {
                module(core::ones({2, 6}, {.dtype = DType::f64}));
              }),
              testing::HasSubstr("but got float64"));
  EXPECT_THAT(test::message_of([&] { core::quantize_symmetric(core::ones({3})); }),
              testing::HasSubstr("a matrix of float32"));
  EXPECT_EQ(module(core::ones({0, 6})).sizes(), (core::Shape{0, 3}));
}

TEST(DynamicQuantizedLinear, TakesABiasOfItsSizeAlone) {
  const core::QuantizedMatrix weight = core::quantize_symmetric(core::ones({3, 4}));
  EXPECT_EQ(test::message_of([&] {
              core::linear_dynamic(core::ones({2, 4}), weight, core::ones({1}));
            }),
            "the bias of a quantized layer of 3 outputs is a float32 each, but got float32 [1]");
  EXPECT_THAT(test::message_of([&] {
                core::linear_dynamic(core::ones({2, 4}), {core::ones({3, 4}), weight.scale});
              }),
              testing::HasSubstr("a matrix of int8 with one scale, but got float32 [3, 4]"));
}

TEST(DynamicQuantizedLinear, TakesAMatrixThatIsTurned) {
  core::manual_seed(5);
  const core::QuantizedMatrix weight = core::quantize_symmetric(core::randn({3, 4}));
  const core::QuantizedMatrix turned{weight.numbers.t(), weight.scale};
  const core::QuantizedMatrix dense{weight.numbers.t().contiguous(), weight.scale};
  const Tensor x = core::randn({2, 3});
  EXPECT_EQ(distance(core::linear_dynamic(x, turned), core::linear_dynamic(x, dense)), 0);
}

// PyTorch's range passes over a NaN, refuses one without a number, and of an infinite input nothing is left.
TEST(DynamicQuantizedLinear, KeepsOtherRowsFromANaN) {
  const float nan = std::nanf("");
  const core::QuantizedMatrix weight = core::quantize_symmetric(core::ones({2, 3}));
  const Tensor x = core::tensor({nan, 0.5F, 1.0F, 0.25F, 0.5F, 1.0F}).reshape({2, 3});
  const Tensor numbers = core::tensor({0.0F, 0.5F, 1.0F, 0.25F, 0.5F, 1.0F}).reshape({2, 3});
  EXPECT_EQ(distance(core::linear_dynamic(x, weight)[1], core::linear_dynamic(numbers, weight)[1]), 0);
  EXPECT_EQ(test::message_of([&] {
              core::linear_dynamic(core::full({1, 3}, nan), weight);
            }),
            "In ChooseQuantizationParams, min should be less than or equal to max");
  EXPECT_TRUE(std::isnan(core::linear_dynamic(core::tensor({1.0F, 2.0F, INFINITY}), weight)[0].item<float>()));
}

TEST(DynamicQuantizedLSTM, TakesAStateOfItsSizeAlone) {
  core::DynamicQuantizedLSTM lstm(core::LSTM(4, 5, {.num_layers = 2}));
  const auto message = [&](const Tensor& x, const Tensor& h, const Tensor& c) {
    return test::message_of([&] { lstm(x, std::tuple{h, c}); });
  };
  const Tensor x = core::zeros({3, 2, 4}), right = core::zeros({2, 2, 5});
  EXPECT_EQ(message(x, core::zeros({2, 1, 5}), right), "Expected hidden[0] size (2, 2, 5), got [2, 1, 5]");
  EXPECT_EQ(message(x, core::zeros({4, 2, 5}), right), "Expected hidden[0] size (2, 2, 5), got [4, 2, 5]");
  EXPECT_EQ(message(x, right, core::zeros({2, 1, 5})), "Expected hidden[1] size (2, 2, 5), got [2, 1, 5]");
  EXPECT_EQ(message(x.select(1, 0), right, right),
            "For unbatched 2-D input, hx and cx should also be 2-D but got (3-D, 3-D) tensors");
  EXPECT_NE(message(x, right, Tensor()), "");
}

TEST(DynamicQuantizedLSTM, FollowsTheFloatOne) {
  core::manual_seed(3);
  core::LSTM lstm(8, 16, {.num_layers = 2, .batch_first = true});
  core::DynamicQuantizedLSTM quantized(lstm);
  const Tensor x = core::randn({2, 9, 8});
  const auto [y, state] = quantized(x);
  EXPECT_LT(distance(y, std::get<0>(lstm(x))), 0.05);
  EXPECT_EQ(std::get<0>(state).sizes(), (core::Shape{2, 2, 16}));
  EXPECT_EQ(std::get<0>(quantized(x[0])).sizes(), (core::Shape{9, 16}));
  EXPECT_THAT(test::message_of([&] { core::DynamicQuantizedLSTM bad(core::LSTM(4, 4, {.proj_size = 2})); }),
              testing::HasSubstr("no quantized form"));
}

}  // namespace

// Images whose channels lie last on a CUDA device: emulated kernels beside a simulated cuDNN, compared with the CPU.
// Strides are PyTorch 2.15's (conv2d, pooling and batch_norm of CPU tensors in f32, whose rule is the same).
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/core.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"
#include "tests/libcore/backend/cuda/emulation.h"
#include "tests/libcore/backend/cuda/simulated_cudnn.h"

namespace core {
namespace {

const Device kDevice("cuda:0");

/// Calls of slots whose names begin so, up to now.
std::uint64_t calls_of(const std::string& prefix) {
  std::uint64_t sum = 0;
  for (const auto& [name, calls] : opaque_calls()) sum += name.starts_with(prefix) ? calls : 0;
  return sum;
}
/// All but those that fill fresh memory with NaN in debug builds.
std::uint64_t kernels() {
  return calls_of("") - calls_of("fill");
}
/// Kernels that move elements from one layout to another, or between dtypes.
std::uint64_t copies() {
  return calls_of("move.") + calls_of("convert.");
}

class ChannelsLast : public testing::Test {
 protected:
  void SetUp() override {
    set_opaque_devices(1, test::emulated_tables());
    test::set_cudnn(&cudnn_);
  }
  void TearDown() override {
    test::set_cudnn(nullptr);
    set_logical_devices(0);
  }

 private:
  gpu::Cudnn cudnn_{test::simulated_cudnn()};
};

Tensor numbers(const Shape& sizes, double step) {
  return (arange(0, sizes.numel()) * step).sin().reshape(sizes);
}
Tensor laid_out(const Tensor& x, bool last) {
  return x.to(last ? MemoryFormat::channels_last : MemoryFormat::contiguous);
}
Tensor at_home(const Tensor& x) {
  return x.detach().to(Device(), DType::f32);
}

struct Leaves {
  Tensor x, w, b;
};
/// The same numbers on a device, rounded to a dtype.
Leaves moved(const Leaves& from, Device device, DType dtype) {
  const auto leaf = [&](const Tensor& t) {
    return t.defined() ? t.detach().to(dtype).to(device).requires_grad_() : Tensor();
  };
  return {leaf(from.x), leaf(from.w), leaf(from.b)};
}
Leaves rounded(const Leaves& from, DType dtype) {
  const auto round = [&](const Tensor& t) { return t.defined() ? t.to(dtype).to(DType::f32) : Tensor(); };
  return moved({round(from.x), round(from.w), round(from.b)}, Device(), DType::f32);
}

CloseOptions tolerance(DType dtype) {
  if (dtype == DType::f32) return {.rtol = 1e-4, .atol = 1e-4};
  return dtype == DType::f16 ? CloseOptions{.rtol = 4e-3, .atol = 4e-3} : CloseOptions{.rtol = 3e-2, .atol = 3e-2};
}

struct Convolution {
  const char* name;
  Shape x, w;
  bool has_bias;
  Conv2dOptions options;
};
const std::vector<Convolution>& convolutions() {
  static const std::vector<Convolution> all{
      {"plain", {2, 3, 6, 5}, {4, 3, 3, 3}, false, {.padding = 1}},
      {"bias", {2, 8, 5, 4}, {6, 8, 3, 3}, true, {.padding = 1}},
      {"stride", {2, 4, 8, 11}, {5, 4, 3, 3}, true, {.stride = {2, 3}, .padding = {1, 0}}},
      {"dilation", {1, 3, 12, 13}, {4, 3, 3, 3}, true, {.padding = 2, .dilation = {2, 3}}},
      {"groups", {2, 6, 5, 6}, {4, 3, 3, 3}, true, {.padding = 1, .groups = 2}},
      {"depthwise", {2, 6, 5, 4}, {6, 1, 3, 3}, false, {.padding = 1, .groups = 6}},
      {"points", {2, 4, 6, 5}, {8, 4, 1, 1}, true, {}},
      {"same", {2, 3, 6, 5}, {4, 3, 2, 2}, true, {.padding = Padding("same")}}};  // lopsided: cuDNN has no way
  return all;
}

/// Output and gradients of `on` are those of `beside`.
void compare_convolution(const Convolution& c, const Leaves& on, const Leaves& beside, DType dtype) {
  const Tensor y = conv2d(on.x, on.w, on.b, c.options), wanted = conv2d(beside.x, beside.w, beside.b, c.options);
  const Tensor g = numbers(wanted.sizes(), 0.7).to(dtype);
  (y * g.to(kDevice).to(y.is_contiguous() ? MemoryFormat::contiguous : MemoryFormat::channels_last)).sum().backward();
  (wanted * g.to(DType::f32)).sum().backward();
  EXPECT_TRUE(allclose(at_home(y), wanted.detach(), tolerance(dtype)));
  EXPECT_TRUE(allclose(at_home(on.x.grad()), beside.x.grad(), tolerance(dtype)));
  EXPECT_TRUE(allclose(at_home(on.w.grad()), beside.w.grad(), tolerance(dtype)));
  if (!c.has_bias) return;
  EXPECT_TRUE(allclose(at_home(on.b.grad()), beside.b.grad(), tolerance(dtype)));
}

Leaves leaves_of(const Convolution& c) {
  return {numbers(c.x, 0.37), numbers(c.w, 0.61) * 0.3, c.has_bias ? numbers({c.w[0]}, 0.9) : Tensor()};
}

TEST_F(ChannelsLast, ConvolutionsAreTheCpus) {
  for (const Convolution& c : convolutions()) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const int last : {0, 1, 2, 3}) {
        SCOPED_TRACE(std::string(c.name) + " " + std::string(name(dtype)) + " " + std::to_string(last));
        Leaves given = leaves_of(c);
        const Leaves beside = rounded(given, dtype);
        given.x = laid_out(given.x, (last & 1) != 0);
        given.w = laid_out(given.w, (last & 2) != 0);
        compare_convolution(c, moved(given, kDevice, dtype), beside, dtype);
      }
    }
  }
}

TEST_F(ChannelsLast, CudnnIsToldSoAndNothingIsCopied) {
  const Convolution& c = convolutions()[1];
  Leaves given = leaves_of(c);
  given.x = laid_out(given.x, true), given.w = laid_out(given.w, true);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Leaves on = moved(given, kDevice, dtype);
    const Tensor g = laid_out(numbers({2, 6, 5, 4}, 0.7), true).to(dtype).to(kDevice);
    test::cudnn_log().runs.clear();
    const std::uint64_t before = copies();
    const Tensor y = conv2d(on.x, on.w, on.b, c.options);
    y.backward(g);
    EXPECT_EQ(copies(), before);
    EXPECT_EQ(test::cudnn_log().text(), "last forward with bias, last input_grad, last weight_grad");
    EXPECT_EQ(test::cudnn_log().runs[0].math, dtype == DType::f32 ? 0 : 1);
    EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
    EXPECT_EQ(on.x.grad().strides(), on.x.strides());
    EXPECT_EQ(on.w.grad().strides(), on.w.strides());
  }
}

TEST_F(ChannelsLast, F64StaysInRows) {
  const Tensor x = laid_out(numbers({2, 3, 6, 5}, 0.3).to(DType::f64), true).to(kDevice);
  const Tensor w = numbers({4, 3, 3, 3}, 0.4).to(DType::f64).to(kDevice);
  const Tensor y = conv2d(x, w);
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_EQ(test::cudnn_log().text(), "first forward");
}

struct Strides {
  Shape x, w;
  std::int64_t padding, groups;
  bool x_last, w_last;
  Shape y, x_grad;
};
/// Printed by PyTorch 2.15: conv2d(x, w), and the gradient of x for an output gradient of one expanded element.
const Strides kStrides[] = {{{2, 3, 6, 5}, {4, 3, 3, 3}, 1, 1, false, false, {120, 30, 5, 1}, {90, 30, 5, 1}},
                            {{2, 3, 6, 5}, {4, 3, 3, 3}, 1, 1, false, true, {120, 1, 20, 4}, {90, 1, 15, 3}},
                            {{2, 3, 6, 5}, {4, 3, 3, 3}, 1, 1, true, false, {120, 1, 20, 4}, {90, 1, 15, 3}},
                            {{2, 3, 6, 5}, {4, 3, 3, 3}, 1, 1, true, true, {120, 1, 20, 4}, {90, 1, 15, 3}},
                            {{2, 4, 6, 5}, {8, 2, 1, 1}, 0, 2, false, false, {240, 30, 5, 1}, {120, 30, 5, 1}},
                            {{2, 4, 6, 5}, {8, 2, 1, 1}, 0, 2, false, true, {240, 1, 40, 8}, {120, 1, 20, 4}},
                            {{1, 6, 5, 4}, {6, 1, 3, 3}, 1, 6, false, true, {120, 1, 24, 6}, {120, 1, 24, 6}},
                            {{2, 3, 4, 4}, {5, 3, 4, 4}, 0, 1, false, false, {5, 1, 1, 1}, {48, 16, 4, 1}},
                            {{2, 3, 4, 4}, {5, 3, 4, 4}, 0, 1, false, true, {5, 1, 5, 5}, {48, 1, 12, 3}},
                            {{2, 1, 4, 5}, {3, 1, 3, 3}, 1, 1, false, false, {60, 20, 5, 1}, {20, 20, 5, 1}},
                            {{2, 1, 4, 5}, {3, 1, 3, 3}, 1, 1, true, false, {60, 1, 15, 3}, {20, 1, 5, 1}},
                            {{2, 3, 4, 5}, {1, 3, 3, 3}, 1, 1, true, true, {20, 1, 5, 1}, {60, 1, 15, 3}}};

TEST_F(ChannelsLast, OutputStridesArePyTorchs) {
  for (const Strides& s : kStrides) {
    SCOPED_TRACE(testing::PrintToString(std::vector<std::int64_t>(s.x.begin(), s.x.end())));
    const Tensor x = laid_out(numbers(s.x, 0.3).to(kDevice), s.x_last).requires_grad_();
    const Tensor w = laid_out(numbers(s.w, 0.4).to(kDevice), s.w_last);
    const Tensor y = conv2d(x, w, {}, {.padding = s.padding, .groups = s.groups});
    EXPECT_EQ(y.strides(), s.y);
    const Tensor one = ones({}, {.device = kDevice}).expand(y.sizes());
    EXPECT_EQ(grad({y}, {x}, {.grad_outputs = {one}})[0].strides(), s.x_grad);
  }
}

TEST_F(ChannelsLast, TransposedConvolution) {
  const Tensor x = laid_out(numbers({2, 4, 6, 5}, 0.3), true), w = numbers({4, 3, 2, 2}, 0.4), b = numbers({3}, 0.2);
  const Tensor y = conv_transpose2d(x.to(kDevice), w.to(kDevice), b.to(kDevice), {.stride = {2}});
  EXPECT_EQ(y.strides(), Shape({360, 1, 30, 3}));
  EXPECT_TRUE(allclose(at_home(y), conv_transpose2d(x, w, b, {.stride = {2}}), tolerance(DType::f32)));
}

/// One step of convolution `i` in f16, and whether it is the CPU's.
void step_of(std::size_t i) {
  const Convolution& c = convolutions()[i];
  Leaves given = leaves_of(c);
  const Leaves beside = rounded(given, DType::f16);
  given.x = laid_out(given.x, true), given.w = laid_out(given.w, true);
  compare_convolution(c, moved(given, kDevice, DType::f16), beside, DType::f16);
}

TEST_F(ChannelsLast, WhatHasNoPlanIsTriedInRows) {
  test::cudnn_log().no_choice_for_last = true;
  step_of(1);
  EXPECT_EQ(test::cudnn_log().text(), "first forward with bias, first input_grad, first weight_grad");
}

TEST_F(ChannelsLast, WhatDoesNotRunIsTriedInRows) {
  test::cudnn_log().no_run_of_last = true;
  step_of(1);
  step_of(1);
  EXPECT_EQ(test::cudnn_log().text(),
            "first forward with bias, first input_grad, first weight_grad, first forward with bias, first input_grad, "
            "first weight_grad");
  EXPECT_EQ(test::cudnn_log().heuristics, 6);
}

TEST_F(ChannelsLast, KernelsDoWhatCudnnDoesNot) {
  test::cudnn_log().no_run = true;
  for (std::size_t i = 0; i < convolutions().size(); ++i) step_of(i);
  EXPECT_EQ(test::cudnn_log().text(), "");
}

TEST_F(ChannelsLast, ArraysInTheMiddleOfALoadAreCopied) {
  const Tensor all = numbers({2 * 8 * 5 * 4 + 1}, 0.3), w = numbers({6 * 8 * 9 + 1}, 0.4), b = numbers({7}, 0.2);
  const auto slices = [&](Device device) {
    const auto part = [&](const Tensor& t, const Shape& sizes) {
      return t.to(device).narrow(0, 1, t.numel() - 1).view(sizes);
    };
    return conv2d(part(all, {2, 8, 5, 4}), part(w, {6, 8, 3, 3}), part(b, {6}));
  };
  EXPECT_TRUE(allclose(at_home(slices(kDevice)), slices(Device()), tolerance(DType::f32)));
  EXPECT_EQ(test::cudnn_log().text(), "first forward");
}

/// `f` of images and their gradient, beside the CPU's; only `allowed` arrays are copied, and strides are kept.
template <class F>
void compare_images(const Shape& sizes, DType dtype, std::uint64_t allowed, const F& f) {
  const Leaves given{laid_out(numbers(sizes, 0.37), true), {}, {}};
  const Leaves on = moved(given, kDevice, dtype), beside = rounded(given, dtype);
  const Tensor wanted = f(beside.x);
  const Tensor g = laid_out(numbers(wanted.sizes(), 0.7), true).to(dtype), there = g.to(kDevice);
  const std::uint64_t before = copies();
  const Tensor y = f(on.x);
  y.backward(there);
  EXPECT_EQ(copies(), before + allowed);
  wanted.backward(g.to(DType::f32));
  EXPECT_EQ(y.strides(), g.strides());
  EXPECT_EQ(on.x.grad().strides(), on.x.strides());
  EXPECT_TRUE(allclose(at_home(y), wanted.detach(), tolerance(dtype)));
  EXPECT_TRUE(allclose(at_home(on.x.grad()), beside.x.grad(), tolerance(dtype)));
}

TEST_F(ChannelsLast, Pooling) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    compare_images({2, 5, 7, 9}, dtype, 0,
                   [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
    compare_images({2, 8, 9, 7}, dtype, 0, [](const Tensor& x) {
      return max_pool2d(x, {3, 2}, {.stride = {2, 1}, .dilation = {2, 1}, .ceil_mode = true});
    });
    compare_images({1, 4, 6, 8}, dtype, 0, [](const Tensor& x) { return max_pool2d(x, 2); });
    compare_images({2, 5, 7, 9}, dtype, 0,
                   [](const Tensor& x) { return avg_pool2d(x, 3, {.stride = 2, .padding = 1, .ceil_mode = true}); });
    compare_images({2, 5, 7, 9}, dtype, 0, [](const Tensor& x) { return adaptive_avg_pool2d(x, {3, 4}); });
  }
}

TEST_F(ChannelsLast, IndicesOfTheLargest) {
  const Tensor x = laid_out(numbers({2, 5, 7, 9}, 0.37), true);
  const ValuesIndices on = max_pool2d_with_indices(x.to(kDevice), 3, {.stride = 2, .padding = 1});
  const ValuesIndices wanted = max_pool2d_with_indices(x, 3, {.stride = 2, .padding = 1});
  EXPECT_EQ(on.indices.strides(), on.values.strides());
  EXPECT_TRUE(on.indices.to(Device()).equal(wanted.indices));
}

TEST_F(ChannelsLast, GradientsOfGradientsOfPooling) {
  const auto twice = [](const Tensor& from) {
    const Tensor x = from.detach().requires_grad_();
    const Tensor y = max_pool2d(x, 3, {.stride = 2, .padding = 1});
    const Tensor first = grad({y.square().sum()}, {x}, {.create_graph = true})[0];
    (first * first).sum().backward();
    return at_home(x.grad());
  };
  const Tensor x = laid_out(numbers({2, 5, 7, 9}, 0.37), true);
  EXPECT_TRUE(allclose(twice(x.to(kDevice)), twice(x), tolerance(DType::f32)));
}

TEST_F(ChannelsLast, BatchNorm) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const bool training : {true, false}) {
      BatchNormArguments home{.running_mean = numbers({8}, 0.2),
                              .running_var = numbers({8}, 0.3).square().add(1.0),
                              .weight = numbers({8}, 0.5),
                              .bias = numbers({8}, 0.7),
                              .training = training};
      BatchNormArguments there = home;
      for (Tensor* const t : {&there.running_mean, &there.running_var, &there.weight, &there.bias}) {
        *t = t->to(kDevice, dtype == DType::f64 ? DType::f64 : DType::f32);
      }
      // Running statistics may change before the backward pass: their mean is kept.
      compare_images({3, 8, 20, 30}, dtype, training ? 0 : 1,
                     [&](const Tensor& x) { return batch_norm(x, x.device().is_cuda() ? there : home); });
    }
  }
}

/// A small network as a residual one begins and ends.
Sequential network() {
  manual_seed(3);
  return Sequential(Conv2d(3, 16, 3), BatchNorm2d(16), ReLU(), MaxPool2d(3, {.stride = 2}), Conv2d(16, 16, 1),
                    BatchNorm2d(16), ReLU(), AdaptiveAvgPool2d(1), Flatten(), Linear(16, 4));
}

TEST_F(ChannelsLast, ANetworkLearnsWithoutCopiesOfImages) {
  Sequential beside = network(), on = network();
  on.to(kDevice);
  on.to(MemoryFormat::channels_last);
  const Tensor x = laid_out(numbers({4, 3, 12, 12}, 0.37), true), there = x.to(kDevice);
  const std::uint64_t before = copies();
  SGD optimizer(on.parameters(), {.lr = 0.1, .momentum = 0.9}),
      optimizer_beside(beside.parameters(), {.lr = 0.1, .momentum = 0.9});
  on(there).square().sum().backward();
  EXPECT_EQ(copies(), before + 1);  // the gradient of the mean over the last pixels, which is spread out in rows
  beside(x).square().sum().backward();
  EXPECT_EQ(test::cudnn_log().text(),
            "last forward with bias, last forward with bias, last input_grad, last weight_grad, last weight_grad");
  for (const char* name : {"0.weight", "0.bias", "1.weight", "4.weight", "5.bias", "9.weight"}) {
    EXPECT_EQ(on.parameter(name).grad().strides(), on.parameter(name).strides()) << name;
    EXPECT_TRUE(
        allclose(at_home(on.parameter(name).grad()), beside.parameter(name).grad(), {.rtol = 2e-3, .atol = 2e-3}))
        << name;
  }
  const std::uint64_t steps = calls_of("sgd.");
  optimizer.step();
  optimizer_beside.step();
  EXPECT_EQ(calls_of("sgd."), steps + 1);
  EXPECT_TRUE(allclose(at_home(on.parameter("0.weight")), beside.parameter("0.weight"), {.rtol = 2e-3, .atol = 2e-3}));
}

TEST_F(ChannelsLast, DropoutIsOneKernelEachWay) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor x = laid_out(ones({2, 8, 4, 4}), true).to(dtype).to(kDevice).requires_grad_();
    const Tensor g = laid_out(numbers({2, 8, 4, 4}, 0.3), true).to(dtype).to(kDevice);
    const std::uint64_t before = kernels();
    const Tensor y = dropout(x, 0.25, true);
    EXPECT_EQ(kernels(), before + 1);
    y.backward(g);
    EXPECT_EQ(kernels(), before + 2);
    EXPECT_EQ(x.grad().strides(), x.strides());
    EXPECT_TRUE(allclose(at_home(x.grad()), at_home(y) * at_home(g), tolerance(dtype)));
  }
}

}  // namespace
}  // namespace core

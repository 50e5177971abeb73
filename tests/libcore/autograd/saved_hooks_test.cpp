// Hooks on what operations save: order, values and errors of PyTorch 2.15.
#include "libcore/autograd/saved_hooks.h"

#include <gtest/gtest.h>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/checkpoint.h"
#include "libcore/autograd/gradcheck.h"
#include "libcore/backend/device_registry.h"
#include "libcore/data/pin_memory.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::Tensor;
using test::message_of;

Tensor leaf(double value) {
  return core::full({2}, value).requires_grad_();
}

TEST(SavedTensorsHooks, BackwardUsesWhatUnpackGives) {
  std::vector<std::string> log;
  const Tensor a = leaf(1);
  Tensor y, z;
  {
    const core::saved_tensors_hooks guard([&](const Tensor& t) { return log.push_back("pack"), t; },
                                          [&](const Tensor& t) { return log.push_back("unpack"), t * 2; });
    y = a.exp();
    z = (a * a).sum();
  }
  y.sum().backward();
  EXPECT_NEAR(a.grad()[0].item<double>(), 5.43656, 1e-4);
  EXPECT_EQ(log, (std::vector<std::string>{"pack", "pack", "pack", "unpack"}));
  a.set_grad({});
  z.backward();
  EXPECT_EQ(a.grad()[0].item<double>(), 4);
}

TEST(SavedTensorsHooks, MayPackAnything) {
  const Tensor a = leaf(3);
  Tensor y;
  {
    const core::saved_tensors_hooks guard([](const Tensor& t) { return t[0].item<double>(); },
                                          [](double value) { return core::full({2}, value); });
    y = a * a;
  }
  y.sum().backward();
  EXPECT_EQ(a.grad()[1].item<double>(), 6);
}

TEST(SavedTensorsHooks, TheInnermostCounts) {
  int outer = 0, inner = 0;
  const auto counting = [](int& count) { return [&count](const Tensor& t) { return ++count, t; }; };
  const auto same = [](const Tensor& t) { return t; };
  const core::saved_tensors_hooks first(counting(outer), same);
  {
    const core::saved_tensors_hooks second(counting(inner), same);
    leaf(1).exp();
  }
  leaf(1).exp();
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 1);
}

TEST(SavedTensorsHooks, SecondDerivatives) {
  const Tensor x = core::tensor(3.0).requires_grad_();
  Tensor y;
  {
    const core::saved_tensors_hooks guard([](const Tensor& t) { return t.clone(); }, [](const Tensor& t) { return t; });
    y = x.pow(3);
  }
  const Tensor slope = core::grad({y}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(slope.item<double>(), 27);
  slope.backward();
  EXPECT_EQ(x.grad().item<double>(), 18);
}

TEST(SavedTensorsHooks, OfAnOutputAndOfAnIntermediateWithHistory) {
  const Tensor x = core::tensor(0.5, {.dtype = core::DType::f64}).requires_grad_();
  const auto function = [](std::span<const Tensor> in) {
    const core::saved_tensors_hooks guard([](const Tensor& t) { return t.clone(); }, [](const Tensor& t) { return t; });
    return core::tanh(in[0].exp()) * in[0].sin();
  };
  EXPECT_TRUE(core::gradcheck(function, {x}));
  EXPECT_TRUE(core::gradgradcheck(function, {x}));
}

TEST(SavedTensorsHooks, PackMustNotChangeItsInput) {
  const Tensor a = leaf(1), t = core::ones({2});
  const core::saved_tensors_hooks guard([](const Tensor& x) { return x.add_(1), x; },
                                        [](const Tensor& x) { return x; });
  EXPECT_EQ(
      message_of([&] { a* t; }),
      "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
      "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you "
      "need to perform in-place operations on the input to a pack hook.");
}

TEST(SavedTensorsHooks, UnpackMustGiveATensor) {
  const Tensor a = leaf(1);
  Tensor y;
  {
    const core::saved_tensors_hooks guard([](const Tensor& x) { return x; }, [](const Tensor&) { return Tensor(); });
    y = a * a;
  }
  EXPECT_EQ(message_of([&] { y.sum().backward(); }),
            "Output of saved tensor unpack_hook expected to be a Tensor but got result of type NoneType");
}

TEST(SavedTensorsHooks, CanBeRefused) {
  {
    const core::disable_saved_tensors_hooks refused("no hooks here");
    EXPECT_EQ(message_of([] { const core::save_on_cpu guard; }), "no hooks here");
  }
  EXPECT_EQ(message_of([] { const core::save_on_cpu guard; }), "no error");
}

TEST(SavedTensorsHooks, InsideACheckpoint) {
  int packed = 0;
  const Tensor x = core::tensor({0.3, 0.4}).requires_grad_();
  const auto function = [&](const std::vector<Tensor>& in) {
    const core::saved_tensors_hooks guard([&](const Tensor& t) { return ++packed, t; },
                                          [](const Tensor& t) { return t; });
    return in[0].sin().exp();
  };
  core::checkpoint(function, {x}).sum().backward();
  EXPECT_GE(packed, 2);
  const Tensor plain = core::tensor({0.3, 0.4}).requires_grad_();
  plain.sin().exp().sum().backward();
  EXPECT_TRUE(x.grad().equal(plain.grad()));
}

/// Logical devices while the object lives; declared before what is on them.
struct Devices {
  explicit Devices(int count) { core::set_logical_devices(count); }
  ~Devices() { core::set_logical_devices(0); }
};

TEST(SaveOnCpu, MovesThereAndBack) {
  const Devices devices(1);
  const core::Device gpu("cuda:0");
  const Tensor x = core::full({1000}, 2.0, {.device = gpu}).requires_grad_();
  const std::uint64_t before = core::cuda::memory_allocated(gpu);
  Tensor y;
  {
    const core::save_on_cpu guard;
    y = (x * 1).exp().exp().sum();
  }
  EXPECT_LT(core::cuda::memory_allocated(gpu), before + 2 * 4096);  // neither of the two results waits on the device
  y.backward();
  EXPECT_EQ(x.grad().device(), gpu);
  const Tensor plain = core::full({1000}, 2.0).requires_grad_();
  plain.exp().exp().sum().backward();
  EXPECT_TRUE(x.grad().cpu().equal(plain.grad()));
  {
    const core::save_on_cpu pinned(true);
    y = x.exp().sum();
  }
  y.backward();
}

}  // namespace

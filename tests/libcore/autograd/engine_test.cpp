#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/logical_devices.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::Tensor;
using test::message_of;

TEST(Backward, SecondTimeSaysSo) {
  Tensor x = core::ones({2}, {.requires_grad = true});
  Tensor y = (x * x).sum();
  y.backward();
  EXPECT_TRUE(message_of([&] {
                y.backward();
              }).starts_with("Trying to backward through the graph a second time (or directly access"));
}

TEST(Backward, NeedsAScalarAndHistory) {
  Tensor x = core::ones({2}, {.requires_grad = true});
  EXPECT_EQ(message_of([&] { (x * 2).backward(); }), "grad can be implicitly created only for scalar outputs");
  EXPECT_EQ(message_of([] { core::ones({}).backward(); }),
            "element 0 of tensors does not require grad and does not have a grad_fn");
}

TEST(Backward, InPlaceChangeOfSavedTensorIsFound) {
  Tensor x = core::ones({2}, {.requires_grad = true});
  Tensor y = x.exp();
  y.add_(1);
  EXPECT_EQ(
      message_of([&] { y.sum().backward(); }),
      "one of the variables needed for gradient computation has been modified by an inplace operation: "
      "[torch.FloatTensor [2]], which is output 0 of Exp, is at version 1; expected version 0 instead. Hint: enable "
      "anomaly detection to find the operation that failed to compute its gradient, with "
      "torch.autograd.set_detect_anomaly(True, check_nan=False).");
}

TEST(Backward, LeafInPlaceIsRefused) {
  Tensor x = core::ones({2}, {.requires_grad = true});
  EXPECT_EQ(message_of([&] { x.add_(1); }),
            "a leaf Variable that requires grad is being used in an in-place operation.");
  EXPECT_EQ(message_of([&] { x.slice(0, 1).add_(1); }),
            "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  core::NoGradGuard guard;
  EXPECT_NO_THROW(x.add_(1));
}

TEST(Backward, OnlyFloatsCanRequireGradients) {
  EXPECT_EQ(message_of([] { core::ones({2}, {.dtype = core::DType::i64, .requires_grad = true}); }),
            "Only Tensors of floating point and complex dtype can require gradients");
}

TEST(Backward, ChainOfAMillionNodesNeedsNoStack) {
  Tensor x = core::ones({1}, {.requires_grad = true});
  Tensor y = x;
  for (int i = 0; i < 1000000; ++i) y = y + 0.0;
  y.backward();
  EXPECT_EQ(x.grad().item<float>(), 1);
  // Dropping an unused chain must not recurse either.
  y = x;
  for (int i = 0; i < 1000000; ++i) y = y + 0.0;
}

TEST(Backward, GradientsOfSharedInputsAdd) {
  Tensor x = core::tensor({2.0}, {.requires_grad = true});
  Tensor y = x * 3;
  (y + y).sum().backward();
  EXPECT_EQ(x.grad().item<float>(), 6);
}

TEST(Backward, LeavesDoNotShareGradientMemory) {
  Tensor a = core::ones({2}, {.requires_grad = true});
  Tensor b = core::ones({2}, {.requires_grad = true});
  (a + b).sum().backward();
  a.grad().mul_(5);
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Grad, UnusedInputNamesItsPlace) {
  Tensor x = core::ones({1}, {.requires_grad = true});
  Tensor z = core::ones({1}, {.requires_grad = true});
  EXPECT_EQ(
      message_of([&] {
        core::grad({x * 2}, {x, z});
      }),
      "The differentiated Tensor at index 1 appears to not have been used in the graph. Set allow_unused=True if this "
      "is the desired behavior.");
}

TEST(Grad, LeavesLeafGradientsAlone) {
  Tensor x = core::ones({1}, {.requires_grad = true});
  core::grad({x * 2}, {x});
  EXPECT_FALSE(x.grad().defined());
}

struct SeveralDevices : testing::Test {
  SeveralDevices() { core::set_logical_devices(3); }
  ~SeveralDevices() override { core::set_logical_devices(0); }

  /// A leaf on device 0, used on three devices, joined again.
  static std::vector<float> gradient() {
    Tensor x = core::linspace(-1, 1, 1000, {.device = "cuda:0"}).requires_grad_();
    std::vector<Tensor> parts;
    for (int i = 0; i < 3; ++i) {
      Tensor there = x.to(Device(core::DeviceType::cuda, i));
      parts.push_back((there.exp() * (0.1 + i)).tanh().to(Device("cuda:0")));
    }
    core::stack(parts).sum().backward();
    return x.grad().to_vector<float>();
  }
};

TEST_F(SeveralDevices, GradientIsTheSumOverDevices) {
  auto got = gradient();
  Tensor x = core::linspace(-1, 1, 1000).requires_grad_();
  Tensor total;
  for (int i = 0; i < 3; ++i) {
    Tensor part = (x.exp() * (0.1 + i)).tanh().sum();
    total = total.defined() ? total + part : part;
  }
  total.backward();
  auto want = x.grad().to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5);
}

TEST_F(SeveralDevices, RunsGiveTheSameBits) {
  auto first = gradient();
  for (int run = 0; run < 20; ++run) {
    auto again = gradient();
    ASSERT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)), 0);
  }
}

TEST_F(SeveralDevices, ErrorInAWorkerReachesTheCaller) {
  Tensor x = core::ones({4}, {.device = "cuda:0", .requires_grad = true});
  Tensor far = x.to(Device("cuda:1")).exp();
  Tensor y = (far * far).to(Device("cuda:0")).sum();
  core::inject_faults(Device("cuda:1"), {.fail_launch = 0});
  EXPECT_EQ(message_of([&] { y.backward(); }), "CUDA error: unspecified launch failure");
  core::inject_faults(Device("cuda:1"), {});
}

TEST(Views, ShareVersionAndHistory) {
  Tensor x = core::ones({3}, {.requires_grad = true});
  Tensor y = x * 1;
  Tensor view = y.slice(0, 1);
  y.mul_(2);
  EXPECT_EQ(view.grad_fn_name(), "AsStridedBackward0");
  view.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 2, 2}));
}

TEST(Data, RebindingKeepsIdentityAndCastsGradients) {
  Tensor w = core::ones({2}, {.requires_grad = true});
  Tensor handle = w;
  w.set_data(w.detach().to(core::DType::f64));
  EXPECT_EQ(handle.dtype(), core::DType::f64);
  EXPECT_TRUE(w.requires_grad());
  (w * 2).sum().backward();
  EXPECT_EQ(handle.grad().dtype(), core::DType::f64);
}

}  // namespace

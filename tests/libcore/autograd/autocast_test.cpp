// Mixed precision: which operations cast, what is kept and for how long, what follows the mode.
#include "libcore/autograd/autocast.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/checkpoint.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/logical_devices.h"
#include "libcore/base/warning.h"
#include "libcore/module/linear.h"
#include "libcore/module/recurrent.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/resize.h"
#include "libcore/ops/softmax.h"
#include "libcore/optim/sgd.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

using core::DType;
using core::Tensor;
using test::message_of;

TEST(Autocast, CastsProductsAndLeavesTheRest) {
  const Tensor x = core::ones({2, 3});
  {
    const core::autocast guard("cpu");
    EXPECT_EQ(core::mm(x, x.t()).dtype(), DType::bf16);
    EXPECT_EQ(core::exp(x).dtype(), DType::f32);
    EXPECT_EQ(core::mse_loss(x.to(DType::bf16), x).dtype(), DType::f32);
    EXPECT_EQ(core::mm(x.to(DType::f64), x.t().to(DType::f64)).dtype(), DType::f64);
    {
      const core::autocast half("cpu", {.dtype = DType::f16});
      EXPECT_EQ(core::mm(x, x.t()).dtype(), DType::f16);
      const core::autocast off("cpu", {.enabled = false});
      EXPECT_EQ(core::mm(x, x.t()).dtype(), DType::f32);
    }
    EXPECT_EQ(core::get_autocast_dtype("cpu"), DType::bf16);
  }
  EXPECT_EQ(core::mm(x, x.t()).dtype(), DType::f32);
  EXPECT_FALSE(core::is_autocast_enabled("cpu"));
}

TEST(Autocast, OperationsInPlaceKeepTheirTypes) {
  const Tensor c = core::randn({3, 3}), a = core::randn({3, 4}), b = core::randn({4, 3});
  const Tensor exact = core::addmm(c, a, b);
  const core::autocast guard("cpu");
  EXPECT_TRUE(core::allclose(core::addmm_(c.clone(), a, b), exact, {.rtol = 1e-6, .atol = 1e-6}));
  EXPECT_EQ(core::mm(a, b).dtype(), DType::bf16);
}

TEST(Autocast, GradientsHaveTheTypeOfTheirLeaves) {
  core::Linear layer(4, 3);
  const Tensor x = core::randn({5, 4});
  Tensor loss;
  {
    const core::autocast guard("cpu");
    loss = core::mse_loss(layer(x), core::zeros({5, 3}));
  }
  EXPECT_EQ(loss.dtype(), DType::f32);
  loss.backward();
  EXPECT_EQ(layer.weight.grad().dtype(), DType::f32);
  const Tensor in_full = core::mse_loss(layer(x), core::zeros({5, 3}));
  EXPECT_NEAR(loss.item<double>(), in_full.item<double>(), 0.02);
}

TEST(Autocast, AWeightIsCastOnceAndAnewWhenItChanges) {
  const Tensor weight = core::ones({3, 3}).requires_grad_(), x = core::ones({2, 3});
  const core::autocast guard("cpu");
  const Tensor first = core::mm(x, weight), second = core::mm(x, weight);
  // Both products hang on one cast: its gradient is summed before it is cast back.
  (first.sum() + second.sum()).backward();
  EXPECT_EQ(weight.grad()[0][0].item<double>(), 4);
  {
    const core::NoGradGuard no_history;
    weight.mul_(2);
  }
  EXPECT_EQ(core::mm(x, weight)[0][0].item<double>(), 6);
}

TEST(Autocast, AWeightThatChangesInAnyWayIsCastAnew) {
  const Tensor weight = core::ones({3, 3}).requires_grad_(), x = core::ones({2, 3});
  const core::autocast guard("cpu");
  const auto product = [&] { return core::mm(x, weight)[0][0].item<double>(); };
  EXPECT_EQ(product(), 3);
  weight.data().mul_(2);
  EXPECT_EQ(product(), 6);
  weight.set_data(core::full({3, 3}, 5.0));
  EXPECT_EQ(product(), 15);
  core::SGD sgd({weight}, 1);
  weight.set_grad(core::ones({3, 3}));
  sgd.step();
  EXPECT_EQ(product(), 12);
}

TEST(Autocast, OperationsWithAKernelOfTheirOwnKeepTheirTypes) {
  const Tensor image = core::randn({1, 2, 5, 5}), a = core::randn({3, 4}), b = core::randn({3, 5}),
               weight = core::randn({2, 4, 5}), square = core::randn({4, 4});
  const core::InterpolateOptions twice{.scale_factor = {2}, .mode = "bilinear"};
  const auto all = [&] {
    return std::vector<Tensor>{core::interpolate(image, twice), core::bilinear(a, b, weight),
                               core::linalg::matrix_exp(square)};
  };
  const std::vector<Tensor> exact = all();
  const core::autocast guard("cpu");
  const std::vector<Tensor> got = all();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(exact[i])) << i;
}

TEST(Autocast, EinsumCastsWhatItSumsByProducts) {
  const Tensor weight = core::randn({3, 3}).requires_grad_(), half = weight.detach().to(DType::bf16);
  const core::autocast guard("cpu");
  EXPECT_EQ(core::einsum("ij,jk->ik", weight, weight).dtype(), DType::bf16);
  EXPECT_EQ(core::einsum("ij->ji", weight).dtype(), DType::f32);
  EXPECT_EQ(core::einsum("ij->i", weight).dtype(), DType::f32);
  EXPECT_EQ(core::einsum("ij,ij->ij", weight, half).dtype(), DType::f32);
  EXPECT_EQ(core::chain_matmul({weight}).dtype(), DType::f32);
}

TEST(Autocast, WhatIsCastWithoutHistoryTakesNoGradientAway) {
  const Tensor weight = core::ones({3, 3}).requires_grad_(), x = core::ones({2, 3});
  const core::autocast guard("cpu");
  {
    const core::NoGradGuard no_history;
    core::mm(x, weight);
  }
  core::mm(x, weight).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
}

TEST(Autocast, BackwardWithinTheGuardComputesAsForwardDid) {
  const Tensor a = core::randn({3, 3}).requires_grad_(), b = core::randn({3, 3});
  const Tensor y = core::mm(a, b).sum();
  const core::autocast guard("cpu");
  y.backward();
  EXPECT_TRUE(core::allclose(a.grad(), b.sum(1).expand({3, 3}), {.rtol = 1e-6, .atol = 1e-6}));
}

TEST(Autocast, ACheckpointedFunctionRunsAgainInItsMode) {
  const Tensor a = core::randn({3, 3}).requires_grad_();
  std::vector<DType> types;
  Tensor y;
  {
    const core::autocast guard("cpu");
    y = core::checkpoint(
        [&](const std::vector<Tensor>& in) {
          const Tensor product = core::mm(in[0], in[0]);
          types.push_back(product.dtype());
          return core::tanh(product);
        },
        {a});
  }
  y.sum().backward();
  EXPECT_EQ(types, (std::vector<DType>{DType::bf16, DType::bf16}));
}

TEST(Autocast, RecurrentLayersTakeWhatTheyAreGiven) {
  const Tensor x = core::randn({4, 2, 3});
  core::LSTM lstm(3, 5);
  core::GRU gru(3, 5);
  const core::autocast guard("cpu");
  EXPECT_EQ(std::get<0>(lstm(x)).dtype(), DType::bf16);
  EXPECT_EQ(std::get<0>(gru(x)).dtype(), DType::f32);
  EXPECT_EQ(std::get<0>(gru(x.to(DType::bf16))).dtype(), DType::f32);
}

class AutocastOnDevices : public ::testing::Test {
 protected:
  AutocastOnDevices() { core::set_logical_devices(2); }
  ~AutocastOnDevices() override { core::set_logical_devices(0); }
};

TEST_F(AutocastOnDevices, GoesByTheListsOfCuda) {
  const Tensor x = core::ones({2, 2}, {.device = "cuda:0"}), half = x.to(DType::f16);
  const core::autocast guard("cuda");
  EXPECT_EQ(core::mm(x, x).dtype(), DType::f16);
  EXPECT_EQ(core::exp(half).dtype(), DType::f32);
  EXPECT_EQ(core::softmax(half, 1).dtype(), DType::f32);
  EXPECT_EQ(core::layer_norm(half, {2}, {}).dtype(), DType::f32);
  EXPECT_EQ(half.sum().dtype(), DType::f32);
  EXPECT_EQ(core::sum(half, {.dtype = DType::f16}).dtype(), DType::f16);
  EXPECT_EQ(core::addcmul(half, half, x).dtype(), DType::f32);
  EXPECT_EQ(core::relu(half).dtype(), DType::f16);
  const Tensor on_host = core::ones({2, 2});
  EXPECT_EQ(core::mm(on_host, on_host).dtype(), DType::f32);
}

TEST_F(AutocastOnDevices, ReplicasTakeTheModeOver) {
  core::Linear net(3, 4);
  net.to("cuda:0");
  core::DataParallel model(net);
  const Tensor x = core::ones({4, 3}, {.device = "cuda:0"});
  const core::autocast guard("cuda", {.dtype = DType::bf16});
  EXPECT_EQ(model(x).dtype(), DType::bf16);
}

TEST(Autocast, RefusesInPyTorchsWords) {
  std::string warning;
  const auto before = core::set_warning_handler([&](const std::string& text) { warning = text; });
  {
    const core::autocast guard("cpu", {.dtype = DType::f64});
    EXPECT_FALSE(core::is_autocast_enabled("cpu"));
  }
  core::set_warning_handler(before);
  EXPECT_EQ(warning,
            "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU Autocast only supports "
            "dtypes of torch.bfloat16, torch.float16 currently.");
  EXPECT_EQ(message_of([] { const core::autocast guard("meta"); }), "unsupported scalarType");
  EXPECT_NE(message_of([] { const core::autocast guard("foo"); }).find("device type at start of device string: foo"),
            std::string::npos);
}

}  // namespace

// func::vmap beside the numbers of torch.func.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "libcore/core.h"

namespace {

namespace func = core::func;
using core::Tensor;
using Two = std::function<Tensor(const Tensor&, const Tensor&)>;

Tensor modulo(const Tensor& x, std::int64_t by) {
  return core::remainder(x, core::full_like(x, by));
}
Tensor image(const Tensor& x) {
  return x.reshape({2, 3, 4});
}
Tensor volume(const Tensor& x) {
  return x.reshape({1, 2, 3, 4});
}
Tensor class_weights() {
  return core::arange(6).to(core::DType::f32) / 4 + 0.5;
}

/// Values of three samples, and sums, weighted by place, of the gradients of both inputs, as torch.func of PyTorch 2.15
/// gives them.
struct Golden {
  const char* name;
  Two function;
  std::vector<double> values;
  double grad_a, grad_b;
};

Tensor cubed(const Tensor& x) {
  return (core::square(x) * x).sum();
}

std::vector<Golden> layers() {
  return {
      {"batch_norm",
       [](const Tensor& a, const Tensor& b) {
         return cubed(core::batch_norm(a.reshape({4, 2, 3}),
                                       {.weight = b[0].slice(0, 0, 2), .bias = b[1].slice(0, 0, 2), .training = true}));
       },
       {61.884781, 56.183304, 25.215061},
       16.151347,
       2934.972758},
      {"instance_norm",
       [](const Tensor& a, const Tensor& b) {
         return cubed(core::instance_norm(
             image(a), {.weight = b[0].slice(0, 0, 3), .bias = b[1].slice(0, 0, 3), .training = true}));
       },
       {48.764786, 59.694389, 33.520222},
       54.508380,
       3064.696748},
      {"max_pool3d",
       [](const Tensor& a, const Tensor& b) {
         return (core::max_pool3d(volume(a), {2}, {.stride = {1}}) *
                 core::max_pool3d(volume(b).unsqueeze(0), {2}, {.stride = {1}})[0])
             .sum();
       },
       {7.843750, 8.000000, 8.312500},
       122.000000,
       108.750000},
      {"avg_pool3d",
       [](const Tensor& a, const Tensor& b) {
         return core::square(
                    core::avg_pool3d(volume(a), {2}, {.stride = {1}, .padding = {1}, .count_include_pad = false}))
                    .sum() +
                core::square(core::adaptive_avg_pool3d(volume(b), {1, 2, 2})).sum();
       },
       {15.930176, 15.867920, 10.370850},
       -87.257812,
       97.226562},
  };
}

std::vector<Golden> losses() {
  return {
      {"binary_cross_entropy",
       [](const Tensor& a, const Tensor& b) {
         return core::binary_cross_entropy(core::sigmoid(a), b / 2, {.weight = class_weights()}) +
                core::binary_cross_entropy_with_logits(a, b, {.pos_weight = class_weights()});
       },
       {1.681259, 1.723969, 1.682096},
       -3.140724,
       3.094932},
      {"cross_entropy",
       [](const Tensor& a, const Tensor& b) {
         const Tensor classes = core::argmax(b.detach(), 1);
         return core::cross_entropy(a, classes, {.weight = class_weights(), .ignore_index = 2}) +
                core::cross_entropy(a, classes, {.label_smoothing = 0.1}) +
                core::cross_entropy(a, core::softmax(b, 1), {.weight = class_weights()});
       },
       {6.990024, 6.469897, 6.286736},
       0.128259,
       0.129357},
      {"regression",
       [](const Tensor& a, const Tensor& b) {
         return core::huber_loss(a, b, {.delta = 0.7}) + core::smooth_l1_loss(a, b, {.beta = 0.6}) +
                core::l1_loss(a, b) + core::kl_div(core::log_softmax(a, 1), core::softmax(b, 1), {.batch_mean = true});
       },
       {2.317726, 2.371135, 2.376728},
       -25.462877,
       25.410596},
  };
}

void expect_golden(const std::vector<Golden>& goldens) {
  const Tensor counting = core::arange(3 * 4 * 6);
  const Tensor a = ((modulo(counting * 7, 11) - 5).to(core::DType::f32) / 4).reshape({3, 4, 6});
  const Tensor b = (modulo(counting * 5, 9).to(core::DType::f32) / 8 + 0.25).reshape({3, 4, 6});
  const auto weighted = [](const Tensor& x) {
    return (modulo(core::arange(x.numel()) + 1, 13) * x.flatten().to(core::DType::f64)).sum().item<double>();
  };
  for (const Golden& one : goldens) {
    int calls = 0;
    const Two counted = [&](const Tensor& p, const Tensor& q) {
      ++calls;
      return one.function(p, q);
    };
    const Tensor values = func::vmap(counted)(a, b);
    EXPECT_EQ(calls, 1) << one.name;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(values[static_cast<std::int64_t>(i)].item<double>(), one.values[i], 2e-5 * std::abs(one.values[i]))
          << one.name << ", sample " << i;
    }
    EXPECT_NEAR(weighted(func::vmap(func::grad<0>(counted))(a, b)), one.grad_a, 2e-3) << one.name;
    EXPECT_NEAR(weighted(func::vmap(func::grad<1>(counted))(a, b)), one.grad_b, 2e-3) << one.name;
    EXPECT_EQ(calls, 3) << one.name;
  }
}

TEST(VmapGolden, LayersHaveTheNumbersOfTorchFunc) {
  expect_golden(layers());
}
TEST(VmapGolden, LossesHaveTheNumbersOfTorchFunc) {
  expect_golden(losses());
}

/// As many samples as rows of each: in a batch, samples would be taken for rows.
TEST(VmapLoop, StandsInForATargetOfFewerDimensionsInGaussianNllLoss) {
  core::manual_seed(2);
  const Tensor x = core::randn({4, 4, 6}), target = core::randn({4, 6});
  const auto loss = [](const Tensor& a, const Tensor& b) {
    return core::gaussian_nll_loss(a, b, core::square(a) + 0.1, {.reduction = core::Reduction::none});
  };
  const Tensor found = func::vmap(loss)(x, target);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_TRUE(core::allclose(found[i], loss(x[i], target[i]))) << i;
}

}  // namespace

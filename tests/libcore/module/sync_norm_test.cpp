// SyncBatchNorm in one process, CrossMapLRN2d, batch norms fused into the layer before them: printed forms, values,
// gradients and errors of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/autograd/grad_mode.h"
#include "libcore/module/fusion.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

using core::Tensor;
using test::message_of;

void expect_close(const Tensor& found, const core::NestedValues& expected) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = 1e-4, .atol = 2e-6})) << found;
}

TEST(SyncBatchNorm, WorksAsTheOrdinaryOneInOneProcess) {
  core::SyncBatchNorm norm(3);
  EXPECT_EQ(norm.str(), "SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)");
  const Tensor y = norm(core::arange(12.0).reshape({2, 3, 2}));
  expect_close(y.flatten(), {-1.150792, -0.821994, -1.150792, -0.821995, -1.150792, -0.821994, 0.821994, 1.150792,
                             0.821994, 1.150792, 0.821994, 1.150792});
  expect_close(norm.running_var, {2.133333, 2.133333, 2.133333});
  EXPECT_EQ(norm.state_dict().version(""), 2);
}

TEST(SyncBatchNorm, Errors) {
  EXPECT_EQ(message_of([] { core::SyncBatchNorm(3)(core::ones({3})); }), "expected at least 2D input (got 1D input)");
  EXPECT_EQ(message_of([] {
              core::SyncBatchNorm(3)(core::ones({2, 0}));
            }),
            "SyncBatchNorm number of input channels should be non-zero");
}

struct Net : core::ModuleOf<Net> {
  core::BatchNorm2d member{2};
  core::Sequential list{core::BatchNorm1d(3, {.affine = false}), core::InstanceNorm1d(2)};
  void members(core::Members& m) override { m.child("member", member).child("list", list); }
  Tensor forward(const Tensor& x) { return member(x); }
};

TEST(SyncBatchNorm, EveryBatchNormIsConverted) {
  Net net;
  EXPECT_EQ(&core::SyncBatchNorm::convert_sync_batchnorm(net), &net);
  EXPECT_EQ(net.str(),
            "Net(\n  (member): SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, "
            "track_running_stats=True)\n  (list): Sequential(\n    (0): SyncBatchNorm(3, eps=1e-05, momentum=0.1, "
            "affine=False, bias=False, track_running_stats=True)\n    (1): InstanceNorm1d(2, eps=1e-05, momentum=0.1, "
            "affine=False, bias=False, track_running_stats=False)\n  )\n)");
  EXPECT_EQ(net(core::ones({2, 2})).sizes(), (core::Shape{2, 2}));  // any rank now
}

struct Mine : core::BatchNorm2d {
  using BatchNorm2d::BatchNorm2d;
};

TEST(SyncBatchNorm, AnOrdinaryOneKeepsTheNameOfItsClass) {
  EXPECT_EQ(Mine(2).str().substr(0, 6), "Mine(2");
  EXPECT_EQ(core::SyncBatchNorm(2).class_name(), "SyncBatchNorm");
}

const core::NestedValues kValues = {0.0,      0.199482, 0.398407, 0.596543, 0.793659, 0.989432, 1.183470, 1.375452,
                                    1.565072, 1.751868, 1.935330, 2.115112, 2.294345, 2.467898, 2.637100, 2.801702,
                                    2.965769, 3.122953, 3.275125, 3.422142, 3.756194, 3.917020, 4.073516, 4.225548};

Tensor channels() {
  return (core::arange(24.0).reshape({1, 6, 2, 2}) / 5).requires_grad_();
}

TEST(CrossMapLRN2d, ValuesAndGradients) {
  core::CrossMapLRN2d norm(3, {.alpha = 0.01});
  EXPECT_EQ(norm.str(), "CrossMapLRN2d(3, alpha=0.01, beta=0.75, k=1)");
  EXPECT_EQ(core::CrossMapLRN2d(5, {.k = 2.0}).str(), "CrossMapLRN2d(5, alpha=0.0001, beta=0.75, k=2.0)");
  const Tensor x = channels().detach().requires_grad_(), y = norm(x);
  expect_close(y.flatten(), kValues);
  EXPECT_EQ(y.grad_fn_name(), "CrossMapLRN2dBackward");
  y.sum().backward();
  expect_close(x.grad().flatten(), {0.998403, 0.997209, 0.995226, 0.992463, 0.988933, 0.983560, 0.976876, 0.968918,
                                    0.959730, 0.947484, 0.933561, 0.918049, 0.902389, 0.884616, 0.865540, 0.845282,
                                    0.825039, 0.803252, 0.780625, 0.757291, 0.773155, 0.750771, 0.727860, 0.704538});
}

TEST(CrossMapLRN2d, AnEvenNumberOfNeighbours) {
  const Tensor x = channels().detach().requires_grad_();
  expect_close(core::CrossMapLRN2d(4, {.alpha = 0.01, .k = 2})(x).flatten().detach().narrow(0, 16, 8),
               {1.847577, 1.956002, 2.063070, 2.168710, 2.321536, 2.430995, 2.539320, 2.646450});
  (core::CrossMapLRN2d(4, {.alpha = 0.01})(x) * core::arange(24.0).reshape({1, 6, 2, 2})).sum().backward();
  expect_close(x.grad().flatten().narrow(0, 16, 8),
               {13.239668, 13.718272, 14.138865, 14.500545, 16.925297, 17.421444, 17.869991, 18.270716});
}

TEST(CrossMapLRN2d, TakesImagesAlone) {
  EXPECT_EQ(message_of([] {
              core::CrossMapLRN2d(3)(core::ones({2, 3}));
            }),
            "CrossMapLRN2d: Expected input to be 4D, got 2D instead.");
}

/// With statistics, weights and shifts of its own.
template <class Norm>
Norm used_norm(std::int64_t features) {
  Norm norm(features);
  const core::NoGradGuard no_history;
  norm.running_mean.copy_(core::arange(static_cast<double>(features)) * 0.3 - 0.2);
  norm.running_var.copy_(core::arange(static_cast<double>(features)) * 0.5 + 0.7);
  norm.weight.copy_(core::arange(static_cast<double>(features)) * -0.4 + 1.5);
  norm.bias.fill_(0.25);
  norm.eval();
  return norm;
}

template <class Layer, class Norm>
void expect_fused(Layer& layer, Norm norm, const Tensor& x) {
  layer.eval();
  Layer both = core::fuse_conv_bn_eval(layer, norm);
  EXPECT_TRUE(core::allclose(both(x), norm(layer(x)), {.rtol = 1e-4, .atol = 1e-5}));
}

TEST(Fusion, OfConvolutions) {
  core::manual_seed(3);
  core::Conv2d plain(4, 3, 3, {.groups = 1, .bias = false});
  expect_fused(plain, used_norm<core::BatchNorm2d>(3), core::randn({2, 4, 6, 6}));
  core::Conv1d line(2, 4, {3}, {.groups = 2});
  expect_fused(line, used_norm<core::BatchNorm1d>(4), core::randn({2, 2, 7}));
  core::ConvTranspose2d turned(3, 2, {2}, {.stride = {2}});
  expect_fused(turned, used_norm<core::BatchNorm2d>(2), core::randn({1, 3, 4, 4}));
}

TEST(Fusion, OfALinearLayer) {
  core::manual_seed(4);
  core::Linear fc(3, 4);
  fc.eval();
  core::BatchNorm1d norm = used_norm<core::BatchNorm1d>(4);
  const Tensor x = core::randn({5, 3});
  core::Linear both = core::fuse_linear_bn_eval(fc, norm);
  EXPECT_TRUE(core::allclose(both(x), norm(fc(x)), {.rtol = 1e-4, .atol = 1e-5}));
  EXPECT_TRUE(both.weight.requires_grad());
}

TEST(Fusion, Errors) {
  core::Linear fc(3, 4);
  core::BatchNorm1d norm(4);
  EXPECT_EQ(message_of([&] { core::fuse_linear_bn_eval(fc, norm); }), "Fusion only for eval!");
  fc.eval();
  norm.eval();
  EXPECT_EQ(message_of([&] { core::fuse_linear_bn_eval(fc, core::BatchNorm1d(3).eval()); }),
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features=4 and "
            "bn.num_features=3");
  EXPECT_EQ(
      message_of([&] { core::fuse_linear_bn_eval(fc, core::BatchNorm1d(4, {.track_running_stats = false}).eval()); }),
      "bn.running_mean and bn.running_var must not be None");
}

}  // namespace

// Lazy modules: printed forms, states and values before and after the first call, as PyTorch 2.15.
#include "libcore/module/lazy.h"

#include <gtest/gtest.h>

#include <sstream>

#include "libcore/backend/logical_devices.h"
#include "libcore/module/activation.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/adam.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/uninitialized.h"
#include "tests/support/message_of.h"

namespace {

using core::Shape;
using core::Tensor;
using test::message_of;

template <class T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(Lazy, BecomesWhatItIsOnTheFirstCall) {
  core::LazyLinear fc(3);
  EXPECT_EQ(fc.str(), "LazyLinear(in_features=0, out_features=3, bias=True)");
  EXPECT_TRUE(fc.has_uninitialized_params());
  EXPECT_EQ(fc(core::ones({2, 5})).sizes(), (Shape{2, 3}));
  EXPECT_EQ(fc.str(), "Linear(in_features=5, out_features=3, bias=True)");
  EXPECT_FALSE(fc.has_uninitialized_params());
  EXPECT_EQ(fc.layer.weight.sizes(), (Shape{3, 5}));
  EXPECT_EQ(message_of([&] {
              fc(core::ones({2, 4}));
            }),
            "addmm: mat1 and mat2 shapes cannot be multiplied (2x4 and 5x3)");
}

TEST(Lazy, DrawsTheValuesOfTheOrdinaryModule) {
  core::manual_seed(0);
  core::LazyLinear lazy(3);
  lazy(core::ones({1, 4}));
  core::manual_seed(0);
  const core::Linear plain(4, 3);
  EXPECT_TRUE(lazy.layer.weight.equal(plain.weight));
  EXPECT_TRUE(lazy.layer.bias.equal(plain.bias));
  core::manual_seed(0);
  core::LazyConv2d conv(2, 1);
  conv(core::ones({1, 2, 1, 1}));
  EXPECT_EQ(text(conv.layer.bias), "Parameter containing:\ntensor([-0.2723,  0.1896], requires_grad=True)");
}

TEST(Lazy, UninitializedTensorsSaySo) {
  core::LazyLinear fc(3);
  EXPECT_EQ(text(fc.layer.weight), "<UninitializedParameter>");
  EXPECT_EQ(text(fc.state_dict().at("bias")), "<UninitializedParameter>");
  core::LazyBatchNorm1d norm;
  EXPECT_EQ(text(norm.layer.running_mean), "<UninitializedBuffer>");
  EXPECT_EQ(text(norm.layer.num_batches_tracked), "tensor(0)");
}

TEST(Lazy, PrintedFormsOfConvolutions) {
  core::LazyConv1d one(4, {3});
  core::LazyConv2d two(4, 3, {.stride = 2, .padding = 1});
  core::LazyConv3d three(4, {3}, {.bias = false});
  core::LazyConvTranspose2d turned(4, {3}, {.stride = {2}, .output_padding = {1}});
  EXPECT_EQ(one.str(), "LazyConv1d(0, 4, kernel_size=(3,), stride=(1,))");
  EXPECT_EQ(two.str(), "LazyConv2d(0, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))");
  EXPECT_EQ(three.str(), "LazyConv3d(0, 4, kernel_size=(3, 3, 3), stride=(1, 1, 1), bias=False)");
  EXPECT_EQ(turned.str(), "LazyConvTranspose2d(0, 4, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))");
  one(core::ones({2, 6, 9}));
  two(core::ones({6, 9, 9}));
  three(core::ones({2, 6, 9, 9, 9}));
  turned(core::ones({2, 6, 9, 9}));
  EXPECT_EQ(one.str(), "Conv1d(6, 4, kernel_size=(3,), stride=(1,))");
  EXPECT_EQ(two.str(), "Conv2d(6, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))");
  EXPECT_EQ(three.str(), "Conv3d(6, 4, kernel_size=(3, 3, 3), stride=(1, 1, 1), bias=False)");
  EXPECT_EQ(turned.str(), "ConvTranspose2d(6, 4, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))");
  EXPECT_EQ(turned.layer.weight.sizes(), (Shape{6, 4, 3, 3}));
  EXPECT_EQ(three.state_dict().keys(), std::vector<std::string>{"weight"});
}

TEST(Lazy, PrintedFormsOfNorms) {
  core::LazyBatchNorm2d norm({.eps = 1e-3, .momentum = std::nullopt});
  core::LazyInstanceNorm1d instance;
  EXPECT_EQ(norm.str(),
            "LazyBatchNorm2d(0, eps=0.001, momentum=None, affine=True, bias=True, track_running_stats=True)");
  EXPECT_EQ(instance.str(),
            "LazyInstanceNorm1d(0, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)");
  norm(core::ones({2, 6, 3, 3}));
  instance(core::ones({2, 6, 3}));
  EXPECT_EQ(norm.str(), "BatchNorm2d(6, eps=0.001, momentum=None, affine=True, bias=True, track_running_stats=True)");
  EXPECT_EQ(instance.str(),
            "InstanceNorm1d(6, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)");
  EXPECT_EQ(norm.layer.running_var.sizes(), Shape{6});
  EXPECT_EQ(norm.layer.num_batches_tracked.item<int>(), 1);
  core::LazyBatchNorm1d bare({.affine = false, .track_running_stats = false});
  EXPECT_TRUE(bare.state_dict().empty());
}

TEST(Lazy, FollowsTrainingMode) {
  core::LazyBatchNorm1d norm;
  norm.eval();
  norm(core::ones({2, 3}));
  EXPECT_EQ(norm.layer.num_batches_tracked.item<int>(), 0);
}

TEST(Lazy, ErrorsOfTheFirstCall) {
  EXPECT_EQ(message_of([] {
              core::LazyConv2d(4, 3)(core::ones({2, 3}));
            }),
            "Expected 3D (unbatched) or 4D (batched) input to LazyConv2d, but got input of size: torch.Size([2, 3])");
  EXPECT_EQ(message_of([] {
              core::LazyConv2d(4, 3, {.groups = 2})(core::ones({1, 3, 8, 8}));
            }),
            "in_channels must be divisible by groups");
  EXPECT_EQ(message_of([] {
              core::LazyBatchNorm1d()(core::ones({2, 3, 4, 5}));
            }),
            "expected 2D or 3D input (got 4D input)");
}

TEST(Lazy, LoadsTheStateOfAnOrdinaryModule) {
  const core::Linear full(5, 3);
  core::LazyLinear lazy(3);
  EXPECT_EQ(lazy.load_state_dict(full.state_dict()).str(), "<All keys matched successfully>");
  EXPECT_EQ(lazy.str(), "LazyLinear(in_features=0, out_features=3, bias=True)");
  EXPECT_TRUE(lazy(core::ones({1, 5})).equal(core::Linear(full)(core::ones({1, 5}))));
  EXPECT_EQ(lazy.str(), "Linear(in_features=5, out_features=3, bias=True)");
}

TEST(Lazy, InputMustFitWhatWasLoaded) {
  core::LazyLinear lazy(3);
  lazy.load_state_dict(core::Linear(5, 3).state_dict());
  EXPECT_EQ(message_of([&] {
              lazy(core::ones({1, 4}));
            }),
            "The in_features inferred from input: 4 is not equal to in_features from self.weight: 5");
}

TEST(Lazy, AllTensorsAreLoadedOrNone) {
  core::LazyLinear lazy(3);
  lazy.load_state_dict({{"weight", core::ones({3, 4})}}, false);
  EXPECT_EQ(message_of([&] {
              lazy(core::ones({1, 4}));
            }),
            "module LazyLinear: 'weight' was loaded before the first call, other tensors were not; load all or none");
}

TEST(Lazy, UninitializedStateFitsLazyModulesAlone) {
  core::LazyLinear lazy(3), other(3);
  EXPECT_EQ(lazy.load_state_dict(other.state_dict()).str(), "<All keys matched successfully>");
  EXPECT_TRUE(lazy.has_uninitialized_params());
  EXPECT_EQ(message_of([&] { core::Linear(5, 3).load_state_dict(lazy.state_dict()); }),
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes.");
}

TEST(Lazy, OptimizerMadeBeforeTheFirstCallTrainsIt) {
  core::LazyLinear fc(1, {.bias = false});
  core::Adam optimizer(fc.parameters(), {.lr = 0.5});
  const Tensor y = fc(core::ones({1, 2}));
  const std::vector<float> before = fc.layer.weight.detach().clone().to_vector<float>();
  y.sum().backward();
  optimizer.step();
  EXPECT_NEAR(fc.layer.weight.detach().to_vector<float>()[0], before[0] - 0.5F, 1e-4);
}

TEST(Lazy, ConvertsBeforeTheFirstCall) {
  core::LazyLinear fc(2);
  fc.to(core::DType::f64);
  EXPECT_EQ(text(fc.layer.weight), "<UninitializedParameter>");
  EXPECT_EQ(fc(core::ones({1, 3}, {.dtype = core::DType::f64})).dtype(), core::DType::f64);
}

TEST(Lazy, ClonesAreIndependent) {
  core::LazyLinear fc(2);
  core::LazyLinear other = fc.clone();
  other(core::ones({1, 3}));
  EXPECT_TRUE(fc.has_uninitialized_params());
  EXPECT_EQ(fc(core::ones({1, 7})).sizes(), (Shape{1, 2}));
}

TEST(Lazy, InsideASequential) {
  core::Sequential net{core::LazyConv2d(4, 3), core::ReLU(), core::Flatten(), core::LazyLinear(2)};
  EXPECT_EQ(net.str(),
            "Sequential(\n  (0): LazyConv2d(0, 4, kernel_size=(3, 3), stride=(1, 1))\n  (1): ReLU()\n  (2): "
            "Flatten(start_dim=1, end_dim=-1)\n  (3): LazyLinear(in_features=0, out_features=2, bias=True)\n)");
  net(core::ones({1, 1, 5, 5}));
  EXPECT_EQ(net.state_dict().keys(), (std::vector<std::string>{"0.weight", "0.bias", "3.weight", "3.bias"}));
  EXPECT_EQ(net[3].str(), "Linear(in_features=36, out_features=2, bias=True)");
}

TEST(Lazy, IsNotReplicatedBeforeTheFirstCall) {
  core::set_logical_devices(2);
  {
    core::LazyLinear fc(3);
    core::DataParallel model(fc);
    model.cuda();
    EXPECT_EQ(message_of([&] {
                model(core::ones({4, 5}));
              }),
              "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
              "correctly initialize the modules");
    fc(core::ones({1, 5}).cuda());
    EXPECT_EQ(model(core::ones({4, 5})).sizes(), (Shape{4, 3}));
  }
  core::set_logical_devices(0);
}

}  // namespace

#include "libcore/parallel/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/index.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scatter.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::DataParallel;
using core::Device;
using core::Tensor;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

/// Linear that notes the batch sizes and devices it saw.
struct Net : core::ModuleOf<Net> {
  core::Linear fc;
  std::shared_ptr<std::multiset<std::string>> seen = std::make_shared<std::multiset<std::string>>();
  std::shared_ptr<std::mutex> mutex = std::make_shared<std::mutex>();
  Net(std::int64_t in, std::int64_t out) : fc(in, out) {}
  void members(core::Members& m) override { m.child("fc", fc); }
  Tensor forward(const Tensor& x) {
    std::scoped_lock lock(*mutex);
    seen->insert(std::to_string(x.size(0)) + "@" + x.device().str());
    return fc(x);
  }
};

class DataParallelTest : public testing::Test {
 protected:
  void SetUp() override { core::set_logical_devices(3); }
  void TearDown() override { core::set_logical_devices(0); }
};

TEST_F(DataParallelTest, SplitsBatchesOverTheDevices) {
  DataParallel model(Net(5, 2));
  model.to(Device("cuda:0"));
  Tensor y = model(core::randn({30, 5}));
  EXPECT_THAT(*model.module().seen, UnorderedElementsAre("10@cuda:0", "10@cuda:1", "10@cuda:2"));
  EXPECT_EQ(y.sizes(), (core::Shape{30, 2}));
  EXPECT_EQ(y.device(), Device("cuda:0"));
  model.module().seen->clear();
  model(core::randn({10, 5}));
  EXPECT_THAT(*model.module().seen, UnorderedElementsAre("4@cuda:0", "4@cuda:1", "2@cuda:2"));
  model.module().seen->clear();
  model(core::randn({1, 5}));
  EXPECT_THAT(*model.module().seen, UnorderedElementsAre("1@cuda:0"));
}

TEST_F(DataParallelTest, IsAnOrdinaryModuleWithOneChild) {
  DataParallel model(Net(5, 2));
  std::vector<std::string> names;
  for (auto& [name, param] : model.named_parameters()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("module.fc.weight", "module.fc.bias"));
  EXPECT_EQ(model.str(),
            "DataParallel(\n  (module): Net(\n    (fc): Linear(in_features=5, out_features=2, bias=True)\n  )\n)");
}

TEST_F(DataParallelTest, RefersToAnLvalueAndSharesAPointer) {
  Net net(5, 2);
  DataParallel model(net);
  EXPECT_EQ(&model.module(), &net);
  auto shared = std::make_shared<Net>(5, 2);
  DataParallel sharing(shared);
  EXPECT_EQ(&sharing.module(), shared.get());
  auto nested = core::wrap_data_parallel(model);
  EXPECT_EQ(nested.named_parameters()[0].first, "module.module.fc.weight");
}

TEST_F(DataParallelTest, OwnsATemporaryThatWasMovedToADevice) {
  auto made = [] { return DataParallel(Net(5, 2).to("cuda:0").eval()); };  // the temporary is gone when it returns
  DataParallel<Net> model = made();
  EXPECT_FALSE(model.module().is_training());
  EXPECT_EQ(model(core::ones({6, 5})).sizes(), (core::Shape{6, 2}));
  static_assert(std::is_same_v<decltype(Net(5, 2).to("cuda:0")), Net>);
  static_assert(std::is_same_v<decltype(model.to("cuda:0")), DataParallel<Net>&>);
}

TEST_F(DataParallelTest, GradientsAreThoseOfOneDevice) {
  core::manual_seed(0);
  Net net(5, 2);
  Tensor x = core::randn({10, 5});
  Tensor target = core::randn({10, 2});
  core::mse_loss(net(x), target).backward();
  Tensor alone = net.fc.weight.grad().clone();
  net.zero_grad();
  DataParallel model(net);
  model.to(Device("cuda:0"));
  core::mse_loss(model(x), target.to(Device("cuda:0"))).backward();
  EXPECT_TRUE(core::allclose(net.fc.weight.grad().cpu(), alone, {.rtol = 1e-5, .atol = 1e-6}));
}

TEST_F(DataParallelTest, CopiesFollowTheParameters) {
  Net net(2, 1);
  DataParallel model(net);
  model.to(Device("cuda:0"));
  Tensor x = core::ones({3, 2});
  model(x);
  {
    core::NoGradGuard no_grad;
    net.fc.weight.fill_(2);
    net.fc.bias.fill_(1);
  }
  EXPECT_EQ(model(x).cpu().to_vector<float>(), (std::vector<float>{5, 5, 5}));
  net.fc.bias.mutable_data<float>()[0] = 0;  // a raw write counts too
  EXPECT_EQ(model(x).cpu().to_vector<float>(), (std::vector<float>{4, 4, 4}));
}

TEST_F(DataParallelTest, OnlyTheFirstDevicesShardMovesBatchStatistics) {
  core::set_logical_devices(2);
  core::BatchNorm1d norm(2);
  DataParallel model(norm);
  model.to(Device("cuda:0"));
  model(core::tensor({{1.0, 2.0}, {3.0, 6.0}, {5.0, 10.0}, {7.0, 14.0}}));
  EXPECT_TRUE(core::allclose(norm.running_mean.cpu(), core::tensor({0.2, 0.4}), {.rtol = 1e-5}));
  EXPECT_TRUE(core::allclose(norm.running_var.cpu(), core::tensor({1.1, 1.7}), {.rtol = 1e-5}));
  EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 1);
}

struct Wide : core::ModuleOf<Wide> {
  core::Linear fc{2, 2};
  void members(core::Members& m) override { m.child("fc", fc); }
  std::map<std::string, std::tuple<Tensor, Tensor>> forward(const std::vector<Tensor>& xs, int scale) {
    return {{"out", {fc(xs[0]) * scale, xs[1]}}};
  }
};

TEST_F(DataParallelTest, TakesAndGivesContainers) {
  DataParallel model(Wide{});
  model.to(Device("cuda:0"));
  auto result = model(std::vector<Tensor>{core::ones({6, 2}), core::arange(6)}, 3);
  auto& [y, index] = result.at("out");
  EXPECT_EQ(y.sizes(), (core::Shape{6, 2}));
  EXPECT_TRUE(index.cpu().equal(core::arange(6)));
}

TEST_F(DataParallelTest, RefusesToLoseRows) {
  DataParallel model(Wide{});
  model.to(Device("cuda:0"));
  std::string message = message_of([&] { model(std::vector<Tensor>{core::ones({5, 2}), core::ones({2})}, 1); });
  EXPECT_THAT(message, testing::HasSubstr("one gives 3 pieces and another 2, so rows would be lost"));
}

TEST_F(DataParallelTest, NamesTheDeviceOfAStrayParameter) {
  DataParallel model(Net(5, 2));
  EXPECT_EQ(message_of([&] {
              model(core::ones({3, 5}));
            }),
            "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
            "device: cpu");
  EXPECT_EQ(message_of([] { DataParallel(Net(5, 2), {.device_ids = {{"cpu"}}}); }),
            "Expected a non cpu device, but got: cpu");
  EXPECT_EQ(message_of([&] { core::gather({core::ones({1})}, Device("cuda:0")); }),
            "Gather function not implemented for CPU tensors");
  EXPECT_EQ(message_of([&] { core::scatter(core::tensor(1.0), {Device("cuda:0")}); }),
            "chunk expects at least a 1-dimensional tensor");
}

struct Failing : core::ModuleOf<Failing> {
  void members(core::Members&) override {}
  Tensor forward(const Tensor& x) {
    if (x.device().index() > 0) throw core::Error(core::ErrorCode::value, "no luck on " + x.device().str());
    return x;
  }
};

TEST_F(DataParallelTest, TheFirstFailingReplicaIsReported) {
  DataParallel model(Failing{});
  EXPECT_EQ(
      message_of([&] {
        model(core::ones({3, 1}));
      }),
      "Caught ValueError in replica 1 on device 1.\nOriginal exception: no luck on cuda:1\nAlso failed: replica 2 on "
      "device 2 (ValueError: no luck on cuda:2)");
}

struct ScalarLoss : core::ModuleOf<ScalarLoss> {
  void members(core::Members&) override {}
  Tensor forward(const Tensor& x) { return x.sum(); }
};

TEST_F(DataParallelTest, ScalarsBecomeAVectorWithAWarning) {
  std::vector<std::string> warnings;
  auto before = core::set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  Tensor x = core::ones({3, 2}, {.requires_grad = true});
  DataParallel model(ScalarLoss{});
  Tensor loss = model(x);
  core::set_warning_handler(before);
  EXPECT_EQ(loss.cpu().to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_THAT(warnings, ElementsAre("Was asked to gather along dimension 0, but all input tensors were scalars; will "
                                    "instead unsqueeze and return a vector."));
  loss.mean().backward();
  EXPECT_TRUE(core::allclose(x.grad(), core::full({3, 2}, 1.0 / 3)));
}

TEST_F(DataParallelTest, WithoutDevicesItCallsTheModule) {
  core::set_logical_devices(0);
  DataParallel model(Net(5, 2));
  EXPECT_TRUE(model.device_ids().empty());
  EXPECT_EQ(model(core::ones({3, 5})).device(), Device("cpu"));
  EXPECT_THAT(*model.module().seen, UnorderedElementsAre("3@cpu"));
}

TEST_F(DataParallelTest, HonoursDeviceIdsAndOutputDevice) {
  DataParallel model(Net(5, 2), {.device_ids = {{2, "cuda:1"}}, .output_device = 0});
  model.to(Device("cuda:2"));
  Tensor y = model(core::ones({4, 5}));
  EXPECT_THAT(*model.module().seen, UnorderedElementsAre("2@cuda:2", "2@cuda:1"));
  EXPECT_EQ(y.device(), Device("cuda:0"));
}

TEST_F(DataParallelTest, NoHistoryWithoutGradMode) {
  DataParallel model(Net(5, 2));
  model.to(Device("cuda:0"));
  core::NoGradGuard no_grad;
  EXPECT_FALSE(model(core::ones({4, 5})).requires_grad());
}

/// Losses of a short training with dropout on `devices` devices (0: plain module on the CPU).
std::vector<float> train(int devices, double p) {
  core::set_logical_devices(devices);
  core::manual_seed(0);
  auto net =
      std::make_shared<core::Sequential>(core::Linear(6, 16), core::ReLU(), core::Dropout(p), core::Linear(16, 3));
  DataParallel<core::Sequential> model(net);
  Device home = devices > 0 ? Device("cuda:0") : Device();
  model.to(home);
  core::SGD optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
  core::manual_seed(1);
  Tensor x = core::randn({24, 6}).to(home);
  Tensor y = core::randint(3, {24}).to(home);
  std::vector<float> losses;
  for (int step = 0; step < 12; ++step) {
    Tensor loss = core::cross_entropy(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<float>());
  }
  return losses;
}

TEST_F(DataParallelTest, AnyNumberOfDevicesGivesTheSameLossCurve) {
  std::vector<float> alone = train(0, 0);
  for (int devices = 1; devices <= 8; ++devices) {
    std::vector<float> losses = train(devices, 0);
    for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(losses[i], alone[i], 2e-5) << devices << " devices";
  }
}

TEST_F(DataParallelTest, TheSameRunGivesTheSameBits) {
  EXPECT_EQ(train(3, 0.5), train(3, 0.5));
}

}  // namespace

// Training steps as graphs, on simulated devices with the kernels of CUDA devices: a replay computes what the plain
// step does, and what a graph cannot hold is refused.
#include "libcore/optim/graphed_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/autograd/autocast.h"
#include "libcore/backend/device_registry.h"
#include "libcore/data/dataset.h"
#include "libcore/module/attention.h"
#include "libcore/module/embedding.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/index.h"
#include "libcore/ops/loss.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/muon.h"
#include "libcore/optim/sgd.h"
#include "tests/libcore/optim/image_net.h"
#include "tests/support/golden_device.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::GraphedStep;
using core::Tensor;
using test::ImageNet;
using test::message_of;
using testing::StartsWith;

constexpr int kSteps = 7;  // of them three to warm up
const Device kGpu("cuda:0");

struct TextNet : core::ModuleOf<TextNet> {
  core::Embedding words{11, 8};
  core::LayerNorm norm{core::Shape{8}};
  core::MultiheadAttention attention{8, 2};
  core::Linear out{8, 3};
  void members(core::Members& m) override {
    m.child("words", words);
    m.child("norm", norm);
    m.child("attention", attention);
    m.child("out", out);
  }
  Tensor forward(const Tensor& x) {
    const Tensor h = norm(words(x)).transpose(0, 1);
    return out(core::gelu(std::get<0>(attention.forward(h, h, h)).mean(core::Shape{0})));
  }
  static Tensor input() { return core::randint(11, {4, 5}); }
};

/// Losses and parameters of a few steps from the same start.
struct Trained {
  std::vector<double> losses;
  std::vector<Tensor> params;
};

using MakeOptimizer = std::function<std::unique_ptr<core::Optimizer>(const std::vector<Tensor>& params)>;

std::unique_ptr<core::Optimizer> make_adam(const std::vector<Tensor>& params) {
  return std::make_unique<core::Adam>(params, core::AdamOptions{.lr = 0.01, .capturable = true});
}
std::unique_ptr<core::Optimizer> make_sgd(const std::vector<Tensor>& params) {
  return std::make_unique<core::SGD>(params, core::SGDOptions{.lr = 0.05, .momentum = 0.9});
}

template <class Net>
Trained train(bool graphed, const MakeOptimizer& make, const std::function<void(int, core::Optimizer&)>& before = {}) {
  core::manual_seed(0);
  Net net;
  net.to(kGpu);
  const auto optimizer = make(net.parameters());
  const GraphedStep::Work work = [&](const std::vector<Tensor>& in) {
    optimizer->zero_grad();
    Tensor loss = core::cross_entropy(net(in[0]), in[1]);
    loss.backward();
    optimizer->step();
    return loss;
  };
  GraphedStep step(work, {.device = kGpu, .optimizers = {optimizer.get()}});
  Trained run;
  for (int i = 0; i < kSteps; ++i) {
    if (before) before(i, *optimizer);
    const Tensor x = Net::input().to(kGpu), y = core::randint(3, {4}).to(kGpu);
    run.losses.push_back((graphed ? step({x, y}) : work({x, y})).template item<double>());
  }
  EXPECT_EQ(step.is_captured(), graphed);
  const core::StateDict state = net.state_dict();
  for (const std::string& key : state.keys()) run.params.push_back(state.at(key).detach().cpu());
  return run;
}

void expect_equal(const Trained& found, const Trained& wanted) {
  EXPECT_EQ(found.losses, wanted.losses);
  ASSERT_EQ(found.params.size(), wanted.params.size());
  for (std::size_t i = 0; i < found.params.size(); ++i)
    EXPECT_TRUE(core::equal(found.params[i], wanted.params[i])) << i;
}

struct GraphedSteps : testing::Test {
  GraphedSteps() { test::set_emulated_devices(1); }
  ~GraphedSteps() override { core::set_logical_devices(0); }
};

TEST_F(GraphedSteps, TrainAnImageNetAsPlainStepsDo) {
  expect_equal(train<ImageNet>(true, make_sgd), train<ImageNet>(false, make_sgd));
}

TEST_F(GraphedSteps, TrainATextNetWithAdamAsPlainStepsDo) {
  expect_equal(train<TextNet>(true, make_adam), train<TextNet>(false, make_adam));
}

TEST_F(GraphedSteps, FollowAChangedLearningRate) {
  const auto halve = [](int step, core::Optimizer& optimizer) {
    if (step == 5) optimizer.param_groups()[0].set_lr(0.01);
  };
  const Trained changed = train<ImageNet>(true, make_sgd, halve);
  expect_equal(changed, train<ImageNet>(false, make_sgd, halve));
  EXPECT_NE(changed.losses, train<ImageNet>(false, make_sgd).losses);
}

std::unique_ptr<core::Optimizer> make_adamw(const std::vector<Tensor>& params) {
  return std::make_unique<core::AdamW>(params, core::AdamWOptions{.lr = 0.01, .weight_decay = 0.1, .capturable = true});
}

TEST_F(GraphedSteps, FollowAScheduleOfACapturableOptimizer) {
  const auto schedule = [](int step, core::Optimizer& optimizer) {
    optimizer.param_groups()[0].set_lr(0.02 / (step + 1));
  };
  const Trained graphed = train<TextNet>(true, make_adamw, schedule);
  expect_equal(graphed, train<TextNet>(false, make_adamw, schedule));
  EXPECT_NE(graphed.losses, train<TextNet>(false, make_adamw).losses);
}

/// How often ten calls of a graphed step, each with a new learning rate, ran its work on the host.
int runs_with_schedule(core::Optimizer& optimizer, const Tensor& w) {
  int runs = 0;
  GraphedStep step(
      [&](const std::vector<Tensor>& in) {
        ++runs;
        optimizer.zero_grad();
        const Tensor loss = (w * in[0]).sum();
        loss.backward();
        optimizer.step();
        return loss;
      },
      {.device = kGpu, .warmup = 1, .optimizers = {&optimizer}});
  for (int i = 0; i < 10; ++i) {
    optimizer.param_groups()[0].set_lr(0.1 / (i + 1));
    step({core::ones({2})});
  }
  return runs;
}

TEST_F(GraphedSteps, AScheduleDoesNotRecordACapturableOptimizerAnewEachStep) {
  Tensor w = core::ones({2}, {.device = kGpu}).requires_grad_();
  core::Adam adam({w}, {.capturable = true});
  EXPECT_EQ(runs_with_schedule(adam, w), 2);
}

TEST_F(GraphedSteps, AScheduleDoesNotRecordSgdAnewEachStep) {
  Tensor w = core::ones({2}, {.device = kGpu}).requires_grad_();
  core::SGD plain({w});
  EXPECT_EQ(runs_with_schedule(plain, w), 2);
  core::SGD heavy({w}, {.momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  EXPECT_EQ(runs_with_schedule(heavy, w), 2);
}

// Their update is made of operations, which are given the rate as a number.
TEST_F(GraphedSteps, AScheduleRecordsAnewWhatNoKernelUpdates) {
  Tensor w = core::ones({2, 3}, {.device = kGpu}).t().detach().requires_grad_();
  core::SGD strided({w});
  EXPECT_EQ(runs_with_schedule(strided, w), 10);
  Tensor m = core::ones({2, 2}, {.device = kGpu}).requires_grad_();
  core::Muon muon({m});
  EXPECT_EQ(runs_with_schedule(muon, m), 10);
}

TEST_F(GraphedSteps, FollowAScheduleOfSgd) {
  const auto schedule = [](int step, core::Optimizer& optimizer) {
    optimizer.param_groups()[0].set_lr(0.1 / (step + 1));
  };
  const Trained graphed = train<ImageNet>(true, make_sgd, schedule);
  expect_equal(graphed, train<ImageNet>(false, make_sgd, schedule));
  EXPECT_NE(graphed.losses, train<ImageNet>(false, make_sgd).losses);
}

TEST_F(GraphedSteps, FollowTheSchedulesOfGroups) {
  const auto make = [](const std::vector<Tensor>& params) -> std::unique_ptr<core::Optimizer> {
    core::ParamGroup first{.params = {params.begin(), params.begin() + 2}};
    core::ParamGroup rest{.params = {params.begin() + 2, params.end()}, .options = {{"lr", 0.2}}};
    return std::make_unique<core::SGD>(std::vector{first, rest}, core::SGDOptions{.lr = 0.01});
  };
  const auto schedule = [](int step, core::Optimizer& optimizer) {
    optimizer.param_groups()[1].set_lr(0.2 / (step + 1));
  };
  const Trained graphed = train<TextNet>(true, make, schedule);
  expect_equal(graphed, train<TextNet>(false, make, schedule));
  EXPECT_NE(graphed.losses, train<TextNet>(false, make).losses);
}

TEST_F(GraphedSteps, AChangedMomentumIsRecordedAnew) {
  const auto change = [](int step, core::Optimizer& optimizer) {
    if (step == 5) optimizer.param_groups()[0].options.set("momentum", core::Scalar(0.5));
  };
  const Trained changed = train<ImageNet>(true, make_sgd, change);
  expect_equal(changed, train<ImageNet>(false, make_sgd, change));
  EXPECT_NE(changed.losses, train<ImageNet>(false, make_sgd).losses);
}

TEST_F(GraphedSteps, RunInputsOfOtherShapesAsTheyAre) {
  core::manual_seed(0);
  Tensor sum = core::zeros({}, {.device = kGpu});
  GraphedStep step(
      [&](const std::vector<Tensor>& in) {
        sum.add_(in[0].sum());
        return sum.clone();
      },
      {.device = kGpu, .warmup = 1});
  for (int i = 0; i < 3; ++i) step({core::ones({4}, {.device = kGpu})});
  EXPECT_EQ(step({core::ones({2})}).item<float>(), 14);  // from the host
  EXPECT_EQ(step({core::full({4}, 2)}).item<float>(), 22);
}

TEST_F(GraphedSteps, AreRecordedAgainAfterReset) {
  Tensor scale = core::ones({1}, {.device = kGpu});
  GraphedStep step([&](const std::vector<Tensor>& in) { return in[0] * scale; }, {.device = kGpu, .warmup = 1});
  const Tensor x = core::full({1}, 3, {.device = kGpu});
  step({x});
  step({x});
  scale = core::full({1}, 5, {.device = kGpu});
  step.reset();
  EXPECT_EQ(step({x}).item<float>(), 15);
}

TEST_F(GraphedSteps, RefuseWhatAsksForAValue) {
  GraphedStep step([](const std::vector<Tensor>& in) { return in[0] * in[0].sum().item<double>(); },
                   {.device = kGpu, .warmup = 1});
  const Tensor x = core::ones({2}, {.device = kGpu});
  step({x});
  EXPECT_THAT(message_of([&] { step({x}); }),
              StartsWith("Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is "
                         "pinned. Please use tensor.pin_memory() or allocate the tensor with pin_memory=True."));
  EXPECT_FALSE(step.is_captured());
  EXPECT_FALSE(core::cuda::is_current_stream_capturing());
}

TEST_F(GraphedSteps, RefuseAnOptimizerThatCountsOnTheHost) {
  Tensor w = core::ones({2}, {.device = kGpu}).requires_grad_();
  core::Adam adam({w});
  const auto step_with = [&](core::Optimizer& optimizer) {
    GraphedStep step(
        [&](const std::vector<Tensor>& in) {
          const Tensor loss = (w * in[0]).sum();
          loss.backward();
          optimizer.step();
          return loss;
        },
        {.device = kGpu, .warmup = 1});
    step({w.detach()});
    step({w.detach()});
  };
  EXPECT_EQ(message_of([&] { step_with(adam); }),
            "Attempting CUDA graph capture of step() for an instance of Adam but param_groups' capturable is False.");
  core::RMSprop rmsprop({w});
  rmsprop.param_groups()[0].options.set("capturable", core::Scalar(true));
  EXPECT_THAT(message_of([&] { step_with(rmsprop); }), StartsWith("this optimizer counts its steps on the host"));
}

TEST_F(GraphedSteps, NeedAFirstStep) {
  EXPECT_EQ(message_of([] { GraphedStep step([](const auto& in) { return in[0]; }, {.device = kGpu, .warmup = 0}); }),
            "GraphedStep: warmup is 0 where at least 1 is needed, as the first step makes what later ones work with");
}

TEST(GraphedStepOnTheHost, IsAPlainCall) {
  GraphedStep step([](const std::vector<Tensor>& in) { return in[0] + in[0].sum().item<double>(); },
                   {.device = Device("cpu"), .warmup = 1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step({core::ones({1})}).item<float>(), 2);
  EXPECT_FALSE(step.is_captured());
}

// --- Graphs themselves

TEST_F(GraphedSteps, GraphsDrawTheNumbersOfPlainCalls) {
  const auto draw = [](const Tensor& out) {
    out.copy_(core::rand({5}, {.device = kGpu}) + core::randn({5}, {.device = kGpu}));
  };
  const Tensor out = core::zeros({5}, {.device = kGpu});
  core::manual_seed(3);
  std::vector<Tensor> wanted;
  for (int i = 0; i < 3; ++i) {
    draw(out);
    wanted.push_back(out.clone());
  }
  const core::ByteVector state = core::default_generator(kGpu).state();
  core::manual_seed(3);
  core::cuda::Graph graph(kGpu);
  graph.capture([&] { draw(out); });
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    EXPECT_TRUE(core::equal(out, wanted[static_cast<std::size_t>(i)])) << i;
  }
  EXPECT_EQ(core::default_generator(kGpu).state(), state);
}

TEST_F(GraphedSteps, GraphsGoOnDrawingOnStreamsThatTheySpreadTo) {
  core::cuda::Stream side(kGpu);
  Tensor drawn;
  core::cuda::Graph graph(kGpu);
  graph.capture([&] {
    const core::cuda::Stream here = core::cuda::current_stream(kGpu);
    side.wait_stream(here);
    {
      const core::cuda::StreamGuard guard(side);
      drawn = core::rand({5}, {.device = kGpu});
    }
    here.wait_stream(side);
  });
  graph.replay();
  const Tensor first = drawn.clone();
  graph.replay();
  EXPECT_FALSE(core::equal(drawn, first));
}

TEST_F(GraphedSteps, AGraphsMemoryServesNobodyElse) {
  const Tensor in = core::ones({100}, {.device = kGpu});
  Tensor out;
  core::cuda::Graph graph(kGpu);
  graph.capture([&] { out = (in + 1) * 3; });
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(core::zeros({100}, {.device = kGpu}));
  graph.replay();
  EXPECT_EQ(out.sum().item<float>(), 600);
  for (const Tensor& other : others) EXPECT_EQ(other.sum().item<float>(), 0);
}

TEST_F(GraphedSteps, AGraphFollowsTheLearningRateAndOutlivesTheOptimizer) {
  Tensor w = core::zeros({1}, {.device = kGpu}).requires_grad_();
  w.set_grad(core::ones({1}, {.device = kGpu}));
  auto adam = std::make_unique<core::Adam>(std::vector<Tensor>{w}, core::AdamOptions{.lr = 1, .capturable = true});
  core::cuda::Graph graph(kGpu);
  graph.capture([&] { adam->step(); });  // its first step
  double before = 0;
  for (const double lr : {0.5, 0.25, 0.125}) {
    adam->param_groups()[0].set_lr(lr);
    graph.replay();
    const auto now = w.detach().cpu().item<double>();
    EXPECT_NEAR(before - now, lr, 1e-5);  // the gradient is always the same
    before = now;
  }
  adam.reset();
  EXPECT_NO_THROW(graph.replay());
  EXPECT_NEAR(before - w.detach().cpu().item<double>(), 0.125, 1e-5);
}

TEST_F(GraphedSteps, AGraphOfSgdOutlivesTheOptimizer) {
  Tensor w = core::zeros({1}, {.device = kGpu}).requires_grad_();
  w.set_grad(core::ones({1}, {.device = kGpu}));
  auto sgd = std::make_unique<core::SGD>(std::vector<Tensor>{w}, core::SGDOptions{.lr = 1});
  core::cuda::Graph graph(kGpu);
  graph.capture([&] { sgd->step(); });
  sgd->param_groups()[0].set_lr(0.25);
  graph.replay();
  EXPECT_EQ(w.detach().cpu().item<float>(), -0.25F);
  sgd.reset();
  graph.replay();
  EXPECT_EQ(w.detach().cpu().item<float>(), -0.5F);
}

TEST_F(GraphedSteps, AGraphOutlivesTheOptimizerThatAnotherReplaces) {
  Tensor w = core::zeros({1}, {.device = kGpu}).requires_grad_();
  w.set_grad(core::ones({1}, {.device = kGpu}));
  core::SGD sgd({w}, 0.25), other({w}, 8);
  core::cuda::Graph graph(kGpu);
  graph.capture([&] { sgd.step(); });
  graph.replay();
  sgd = std::move(other);
  graph.replay();  // by the rate of the last replay, and not by what stands where the old groups were
  EXPECT_EQ(w.detach().cpu().item<float>(), -0.5F);
}

TEST_F(GraphedSteps, AGraphInMixedPrecisionCastsWeightsAtEachReplay) {
  const Tensor w = core::ones({2, 2}, {.device = kGpu}).requires_grad_(), x = core::ones({1, 2}, {.device = kGpu});
  GraphedStep step([&](const std::vector<Tensor>& in) { return core::mm(in[0], w); }, {.device = kGpu, .warmup = 1});
  const core::autocast around("cuda");  // keeps the cast of the first step
  const auto value = [&] { return step({x}).cpu()[0][0].item<double>(); };
  EXPECT_EQ(value(), 2);
  EXPECT_EQ(value(), 2);
  EXPECT_TRUE(step.is_captured());
  w.data().mul_(3);
  EXPECT_EQ(value(), 6);
}

TEST_F(GraphedSteps, AGraphGivesItsMemoryBack) {
  const auto before = core::cuda::memory_allocated(kGpu);
  {
    core::cuda::Graph graph(kGpu);
    graph.capture([] { core::ones({1000}, {.device = kGpu}) * 2; });
    EXPECT_GT(core::cuda::memory_allocated(kGpu), before);
  }
  EXPECT_EQ(core::cuda::memory_allocated(kGpu), before);
}

TEST_F(GraphedSteps, TheDefaultStreamIsNotCaptured) {
  core::cuda::Graph graph(kGpu);
  EXPECT_EQ(message_of([&] { graph.capture(core::cuda::default_stream(kGpu), [] {}); }),
            "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on "
            "the default stream.)");
}

TEST_F(GraphedSteps, WaitingIsNotCaptured) {
  core::cuda::Graph graph(kGpu);
  EXPECT_THAT(message_of([&] { graph.capture([] { core::cuda::synchronize(kGpu); }); }),
              StartsWith("CUDA error: operation not permitted when stream is capturing"));
}

TEST_F(GraphedSteps, ChecksOfValuesDoNotWait) {
  const Tensor index = core::zeros({3}, {.dtype = core::DType::i64, .device = kGpu});
  const Tensor half = core::full({3}, 0.5, {.device = kGpu}), weight = core::ones({4, 2}, {.device = kGpu});
  core::cuda::Graph graph(kGpu);
  graph.capture([&] {
    core::embedding(index, weight);
    core::one_hot(index, 4);
    core::remainder(index, core::ones_like(index));
    core::bernoulli(half);
    core::binary_cross_entropy(half, half);
  });
  EXPECT_TRUE(graph.is_captured());
}

}  // namespace

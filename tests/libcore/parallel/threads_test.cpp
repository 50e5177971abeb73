// Eight devices, eight threads: what the thread sanitizer watches (tests/run.sh --tsan), and the same bits every time.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/threads.h"
#include "libcore/data/dataset.h"
#include "libcore/data/loader.h"
#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/optim/adam.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/parallel/parallel_support.h"

namespace {

using core::DataParallel;
using core::Device;
using core::Tensor;
using test::floats;

struct EightDevices : test::Devices<8> {};

/// Two epochs over data that worker threads prepare; the weights at the end.
std::vector<float> train(int workers) {
  core::manual_seed(0);
  auto net = std::make_shared<core::Sequential>(core::Linear(6, 16), core::BatchNorm1d(16), core::ReLU(),
                                                core::Dropout(0.5), core::Linear(16, 3));
  DataParallel model(net);
  model.cuda();
  core::Adam optimizer(net->parameters(), {.lr = 0.01});
  core::TensorDataset data(core::randn({72, 6}), core::randint(3, {72}));
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& [x, y] : core::DataLoader(data, {.batch_size = 24, .shuffle = true, .num_workers = workers})) {
      optimizer.zero_grad();
      core::cross_entropy(model(x), y.cuda(0)).backward();
      optimizer.step();
    }
  }
  std::vector<float> weights;
  for (const Tensor& parameter : net->parameters()) {
    for (float value : floats(parameter)) weights.push_back(value);
  }
  return weights;
}

TEST_F(EightDevices, TrainingGivesTheSameBits) {
  std::vector<float> first = train(0);
  EXPECT_EQ(train(0), first);
  EXPECT_EQ(train(3), first);
}

TEST_F(EightDevices, ThreadsDoNotChangeTheBits) {
  std::vector<float> one = train(0);
  int threads = core::num_threads();
  core::set_num_threads(8);  // one for each replica
  EXPECT_EQ(train(0), one);
  core::set_num_threads(threads);
}

TEST_F(EightDevices, TwoThreadsUseTwoModels) {
  auto work = [](int seed, std::vector<float>& result) {
    core::Generator generator;
    generator.manual_seed(seed);
    core::Linear net(4, 2);
    core::uniform_(net.weight.detach(), -1, 1, generator);
    core::uniform_(net.bias.detach(), -1, 1, generator);
    net.cuda();
    DataParallel model(net);
    for (int i = 0; i < 5; ++i) model(core::ones({16, 4})).sum().backward();
    result = floats(net.weight.grad());
  };
  std::vector<float> first, second;
  std::thread other([&] { work(1, first); });
  work(2, second);
  other.join();
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, std::vector<float>(8, 80));
}

TEST_F(EightDevices, OneModelIsCalledByTwoThreads) {
  core::Linear net(4, 2);
  net.cuda();
  DataParallel model(net);
  core::NoGradGuard no_grad;
  std::vector<float> wanted = floats(model(core::ones({16, 4})));
  std::vector<float> seen;
  std::thread other([&] {
    core::NoGradGuard no_grad_either;
    for (int i = 0; i < 5; ++i) seen = floats(model(core::ones({16, 4})));
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(floats(model(core::ones({16, 4}))), wanted);
  other.join();
  EXPECT_EQ(seen, wanted);
}

TEST_F(EightDevices, ThreadsShareFreshLeaves) {
  for (int round = 0; round < 50; ++round) {
    Tensor weight = core::ones({3}, {.requires_grad = true});
    std::atomic<int> ready{0};
    auto work = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      (weight * 2).sum().backward();
    };
    std::thread other(work);
    work();
    other.join();
    ASSERT_EQ(floats(weight.grad()), std::vector<float>(3, 4)) << "in round " << round;
  }
}

TEST_F(EightDevices, ThreadsFindALeafsAccumulatorWhileItEnds) {
  const Tensor weight = core::ones({3}, {.requires_grad = true});
  std::atomic<int> ready{0};
  std::atomic<int> wrong{0};
  auto work = [&] {
    ++ready;
    while (ready < 2) std::this_thread::yield();
    for (int round = 0; round < 50'000; ++round) {
      const core::Edge edge = core::gradient_edge(weight);  // the last to leave ends it, unless the other has found it
      if (edge.node->use_count() == 0 || edge.node->outputs().size() != 1) ++wrong;
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(EightDevices, ThreadsShareAViewWhoseBaseHasChanged) {
  for (int round = 0; round < 50; ++round) {
    const Tensor leaf = core::ones({4}, {.requires_grad = true});
    const Tensor base = leaf * 1, view = base.view({2, 2});
    base.mul_(3);  // the view's node is stale now
    std::atomic<int> ready{0};
    std::vector<std::string> names(2);
    auto work = [&](std::size_t self) {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      EXPECT_TRUE(view.requires_grad());
      names[self] = view.grad_fn_name();
      core::grad({(view * 2).sum()}, {leaf}, {.retain_graph = true});
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    ASSERT_EQ(names, std::vector<std::string>(2, "AsStridedBackward0")) << "in round " << round;
  }
}

TEST_F(EightDevices, AnAccumulatorEndsWhileItsLeafTakesOtherMemory) {
  for (int round = 0; round < 50; ++round) {
    const Tensor leaf = core::ones({3}, {.requires_grad = true});
    Tensor result = leaf * 2;
    std::atomic<int> ready{0};
    std::thread other([&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      result = {};  // the last to hold the accumulator
    });
    ++ready;
    while (ready < 2) std::this_thread::yield();
    leaf.set_data(core::zeros({5}));
    other.join();
    (leaf * 2).sum().backward();
    ASSERT_EQ(floats(leaf.grad()), std::vector<float>(5, 2)) << "in round " << round;
  }
}

TEST_F(EightDevices, HooksRunOnEveryReplica) {
  core::Linear net(4, 2);
  std::atomic<int> forward{0}, backward{0};
  net.register_forward_hook([&](core::Module&, const std::vector<Tensor>&, const Tensor&) {
    ++forward;
    return Tensor();
  });
  net.register_full_backward_hook([&](core::Module&, const std::vector<Tensor>&, const Tensor&) { ++backward; });
  DataParallel model(net);
  model.cuda();
  model(core::ones({16, 4}, {.requires_grad = true})).sum().backward();
  EXPECT_EQ(forward, 8);
  EXPECT_EQ(backward, 8);
}

TEST_F(EightDevices, FailuresOfSeveralReplicasAreCollected) {
  struct Net : core::ModuleOf<Net> {
    void members(core::Members&) override {}
    Tensor forward(const Tensor& x) {
      if (x.device().index() % 2 == 1) throw core::Error(core::ErrorCode::value, "odd");
      return x;
    }
  };
  DataParallel model(Net{});
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(test::message_of([&] { model(core::ones({8})); }), testing::HasSubstr("Also failed: replica 7"));
  }
}

}  // namespace

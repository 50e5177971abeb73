// Whole networks give on several devices what they give on one: a convolutional, a recurrent and a capsule network.
#include <gmock/gmock.h>

#include <functional>
#include <memory>

#include "libcore/backend/device_registry.h"
#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/recurrent.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/softmax.h"
#include "libcore/optim/sgd.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/parallel/parallel_support.h"

namespace {

using core::DataParallel;
using core::Device;
using core::Tensor;
using test::floats;
using testing::FloatNear;
using testing::Pointwise;

struct Cnn : core::ModuleOf<Cnn> {
  core::Conv2d conv{1, 4, 3, {.padding = 1}};
  core::Linear fc{4 * 16, 3};
  void members(core::Members& m) override { m.child("conv", conv).child("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(core::max_pool2d(core::relu(conv(x)), 2).flatten(1)); }
};

struct Rnn : core::ModuleOf<Rnn> {
  core::LSTM lstm{4, 6, {.num_layers = 2, .batch_first = true}};
  core::Linear fc{6, 3};
  void members(core::Members& m) override { m.child("lstm", lstm).child("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(std::get<0>(lstm(x)).select(1, -1)); }
};

/// Six capsules of 4 numbers, routed to three of 5 by agreement.
struct Capsules : core::ModuleOf<Capsules> {
  core::Linear primary{8, 24};
  core::Parameter w{core::randn({6, 3, 4, 5}) * 0.3};
  void members(core::Members& m) override { m.child("primary", primary).parameter("w", w); }
  static Tensor squash(const Tensor& s) {
    Tensor square = (s * s).sum({-1}, true);
    return s * (square / ((square + 1) * (square + 1e-8).sqrt()));
  }
  Tensor forward(const Tensor& x) {
    Tensor u = squash(primary(x).view({-1, 6, 4}));                          // (b, 6, 4)
    Tensor votes = core::matmul(u.unsqueeze(2).unsqueeze(3), w).squeeze(3);  // (b, 6, 3, 5)
    Tensor logits = core::zeros({x.size(0), 6, 3, 1}, {.device = x.device()});
    Tensor v;
    for (int round = 0; round < 3; ++round) {
      v = squash((core::softmax(logits, 2) * votes).sum({1}));  // (b, 3, 5)
      logits = logits + (votes * v.unsqueeze(1)).sum({-1}, true);
    }
    return (v * v).sum({-1});
  }
};

/// Losses and the first parameter after four SGD steps; devices 0: the plain module on the CPU.
template <class Net>
std::vector<float> train(int devices, const core::Shape& input) {
  core::set_logical_devices(devices);
  std::vector<float> trace;
  {
    core::manual_seed(3);
    auto net = std::make_shared<Net>();
    DataParallel<Net> model(net);
    Device home = core::try_gpu();
    model.to(home);
    core::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    core::manual_seed(4);
    Tensor x = core::randn(input), y = core::randint(3, {input[0]}).to(home);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      Tensor loss = core::cross_entropy(model(x), y);
      loss.backward();
      optimizer.step();
      trace.push_back(loss.item<float>());
    }
    for (float value : floats(net->parameters()[0])) trace.push_back(value);
  }
  core::set_logical_devices(0);
  return trace;
}

template <class Net>
void expect_the_same_on_several_devices(const core::Shape& input) {
  std::vector<float> alone = train<Net>(0, input);
  for (int devices : {1, 2, 3, 4}) {
    EXPECT_THAT(train<Net>(devices, input), Pointwise(FloatNear(3e-5F), alone)) << devices << " devices";
  }
  EXPECT_EQ(train<Net>(3, input), train<Net>(3, input));
}

TEST(ParallelModels, ConvolutionalNetwork) {
  expect_the_same_on_several_devices<Cnn>({10, 1, 8, 8});
}

TEST(ParallelModels, RecurrentNetwork) {
  expect_the_same_on_several_devices<Rnn>({7, 5, 4});
}

TEST(ParallelModels, CapsuleNetwork) {
  expect_the_same_on_several_devices<Capsules>({9, 8});
}

TEST(ParallelModels, ARecurrentModuleTakesAndGivesItsStates) {
  core::set_logical_devices(2);
  {
    core::manual_seed(0);
    core::LSTM lstm(3, 4);  // sequence first: the batch is dimension 1
    Tensor x = core::randn({5, 6, 3});
    lstm.cuda();
    auto alone = lstm(x.cuda(0));
    DataParallel model(lstm, {.dim = 1});
    auto parallel = model(x);
    auto& [output, state] = parallel;
    EXPECT_THAT(floats(output), Pointwise(FloatNear(1e-6F), floats(std::get<0>(alone))));
    EXPECT_EQ(std::get<0>(state).sizes(), (core::Shape{1, 6, 4}));
  }
  core::set_logical_devices(0);
}

TEST(ParallelModels, EachDeviceDrawsFromItsOwnStream) {
  core::set_logical_devices(2);
  {
    DataParallel model(core::Dropout(0.5));
    auto draw = [&] {
      core::manual_seed(1);
      return floats(model(core::ones({64}).cuda(0)));
    };
    std::vector<float> both = draw();
    core::manual_seed(1);
    core::Dropout alone(0.5);
    std::vector<float> first = floats(alone(core::ones({32}).cuda(0)));
    std::vector<float> second = floats(alone(core::ones({32}).cuda(1)));
    first.insert(first.end(), second.begin(), second.end());
    EXPECT_EQ(both, first);
    EXPECT_EQ(draw(), both);
  }
  core::set_logical_devices(0);
}

}  // namespace

// A replica, a device or a copy fails: everybody stops, the error says who, and the next step gives the bits that a
// model gives to which nothing happened.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <stdexcept>

#include "libcore/backend/device_registry.h"
#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/optim/sgd.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/parallel/parallel_support.h"

namespace {

using core::DataParallel;
using core::Device;
using core::Error;
using core::ErrorCode;
using core::Tensor;
using test::floats;
using test::message_of;
using testing::HasSubstr;
using testing::StartsWith;

/// Two layers with dropout between them, and a place where a test throws.
struct Net : core::ModuleOf<Net> {
  core::Linear a{4, 8}, b{8, 2};
  core::Dropout dropout{0.25};
  std::function<void(const Tensor& x)> inside = [](const Tensor&) {};
  void members(core::Members& m) override { m.child("a", a).child("b", b).child("dropout", dropout); }
  Tensor forward(const Tensor& x) {
    Tensor h = dropout(core::relu(a(x)));
    inside(h);
    return b(h);
  }
};

struct Trial {
  std::shared_ptr<Net> net;
  DataParallel<Net> model;
  core::SGD optimizer;
  Tensor x, y;

  Trial() : Trial(made()) {}
  explicit Trial(std::shared_ptr<Net> given)
      : net(std::move(given)), model(net), optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9}) {
    core::manual_seed(1);
    x = core::randn({6, 4});
    y = core::randint(2, {6}).cuda(0);
  }
  static std::shared_ptr<Net> made() {
    core::manual_seed(0);
    auto net = std::make_shared<Net>();
    net->cuda();
    return net;
  }
  void step() {
    optimizer.zero_grad();
    core::cross_entropy(model(x), y).backward();
    optimizer.step();
  }
  std::vector<float> weights() const { return floats(net->a.weight); }
};

struct Faults : test::Devices<3> {
  /// Weights after `steps` good steps.
  static std::vector<float> undisturbed(int steps) {
    Trial trial;
    for (int i = 0; i < steps; ++i) trial.step();
    return trial.weights();
  }
  /// A good step, `disturb` (which fails), a good step: the weights.
  template <class Disturb>
  static std::vector<float> disturbed(Disturb disturb) {
    Trial trial;
    trial.step();
    disturb(trial);
    trial.step();
    return trial.weights();
  }
};

TEST_F(Faults, AnExceptionInForwardNamesTheReplica) {
  EXPECT_EQ(disturbed([](Trial& trial) {
              trial.net->inside = [](const Tensor& h) {
                if (h.device().index() == 1) throw Error(ErrorCode::key, "'bad key'");
              };
              EXPECT_EQ(message_of([&] { trial.step(); }),
                        "Caught KeyError in replica 1 on device 1.\nOriginal exception: 'bad key'");
              trial.net->inside = [](const Tensor&) {};
            }),
            undisturbed(2));
}

TEST_F(Faults, SeveralFailuresAreAllNamed) {
  Trial trial;
  trial.net->inside = [](const Tensor& h) {
    if (h.device().index() == 2) throw std::out_of_range("no such thing");
    throw Error(ErrorCode::value, "replica " + std::to_string(h.device().index()));
  };
  EXPECT_EQ(message_of([&] { trial.model(trial.x); }),
            "Caught ValueError in replica 0 on device 0.\nOriginal exception: replica 0\n"
            "Also failed: replica 1 on device 1 (ValueError: replica 1)\n"
            "Also failed: replica 2 on device 2 (IndexError: no such thing)");
}

TEST_F(Faults, AllReplicasEndBeforeTheErrorComes) {
  Trial trial;
  std::atomic<int> ended{0};
  trial.net->inside = [&](const Tensor& h) {
    if (h.device().index() == 0) throw Error(ErrorCode::value, "at once");
    ++ended;
  };
  EXPECT_THROW(trial.model(trial.x), Error);
  EXPECT_EQ(ended, 2);
}

TEST_F(Faults, TheOriginalExceptionIsInside) {
  struct Own : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  Trial trial;
  trial.net->inside = [](const Tensor&) { throw Own("mine"); };
  try {
    trial.model(trial.x);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::runtime);
    EXPECT_THAT(error.what(), StartsWith("Caught RuntimeError in replica 0 on device 0.\nOriginal exception: mine"));
    EXPECT_THROW(std::rethrow_if_nested(error), Own);
  }
}

TEST_F(Faults, WhatIsNoExceptionClassIsCaughtToo) {
  Trial trial;
  trial.net->inside = [](const Tensor& h) {
    if (h.device().index() == 2) throw 42;
  };
  EXPECT_EQ(message_of([&] { trial.model(trial.x); }),
            "Caught RuntimeError in replica 2 on device 2.\nOriginal exception: an exception that is no "
            "std::exception");
}

TEST_F(Faults, AFailedForwardLeavesRandomNumbersAsTheyWere) {
  EXPECT_EQ(disturbed([](Trial& trial) {
              trial.net->inside = [](const Tensor&) { throw Error(ErrorCode::value, "after dropout"); };
              for (int i = 0; i < 3; ++i) EXPECT_THROW(trial.step(), Error);
              trial.net->inside = [](const Tensor&) {};
            }),
            undisturbed(2));
}

TEST_F(Faults, AnExceptionInBackwardLeavesEveryGradientAsItWas) {
  EXPECT_EQ(disturbed([](Trial& trial) {
              core::ByteVector random[3];
              for (int i = 0; i < 3; ++i)
                random[i] = core::default_generator(Device(core::DeviceType::cuda, i)).state();
              trial.net->inside = [](const Tensor& h) {
                if (h.device().index() != 1) return;
                h.register_hook([](const Tensor&) -> Tensor { throw Error(ErrorCode::value, "in backward"); });
              };
              trial.optimizer.zero_grad();
              EXPECT_EQ(message_of([&] { core::cross_entropy(trial.model(trial.x), trial.y).backward(); }),
                        "in backward");
              for (const Tensor& parameter : trial.net->parameters()) EXPECT_FALSE(parameter.grad().defined());
              trial.net->inside = [](const Tensor&) {};
              // What dropout drew in the forward that went well is used up: begin this step where it did.
              for (int i = 0; i < 3; ++i)
                core::default_generator(Device(core::DeviceType::cuda, i)).set_state(random[i]);
            }),
            undisturbed(2));
}

struct Uneven : core::ModuleOf<Uneven> {
  core::Linear fc{4, 2};
  bool uneven = false;
  void members(core::Members& m) override { m.child("fc", fc); }
  Tensor forward(const Tensor& x) {
    Tensor y = fc(x);
    return uneven && x.device().index() == 1 ? core::cat({y, y}, 1) : y;
  }
};

TEST_F(Faults, AnExceptionInGatherLeavesTheModuleUsable) {
  Uneven net;
  net.cuda();
  DataParallel model(net);
  Tensor x = core::randn({6, 4});
  std::vector<float> good = floats(model(x));
  net.uneven = true;
  EXPECT_EQ(message_of([&] { model(x); }), "Tensor at index 1 has invalid shape [2, 4], but expected [2, 2]");
  net.uneven = false;
  EXPECT_EQ(floats(model(x)), good);
}

/// Lets the k-th call of one kind fail on one device for k = 0, 1, ... until a step runs through.
template <class MakeFault>
int sweep(int device, const std::vector<float>& wanted, MakeFault make_fault) {
  Device where(core::DeviceType::cuda, device);
  int failed = 0;
  for (int k = 0;; ++k) {
    Trial trial;
    trial.step();
    std::vector<core::ByteVector> random;
    for (int i = 0; i < 3; ++i) random.push_back(core::default_generator(Device(core::DeviceType::cuda, i)).state());
    std::vector<float> before = trial.weights();
    core::inject_faults(where, make_fault(k));
    std::string message = "no error";
    try {
      trial.optimizer.zero_grad();
      core::cross_entropy(trial.model(trial.x), trial.y).backward();
    } catch (const Error& error) {
      message = error.what();
    }
    core::inject_faults(where, {});
    if (message == "no error") return failed;
    ++failed;
    EXPECT_THAT(message, testing::AnyOf(HasSubstr("CUDA out of memory"), HasSubstr("CUDA error"))) << k;
    EXPECT_EQ(trial.weights(), before) << k;
    for (int i = 0; i < 3; ++i) core::default_generator(Device(core::DeviceType::cuda, i)).set_state(random[i]);
    trial.step();
    EXPECT_EQ(trial.weights(), wanted) << "device " << device << ", call " << k;
  }
}

TEST_F(Faults, OutOfMemoryAtAnyCall) {
  std::vector<float> wanted = undisturbed(2);
  for (int device = 0; device < 3; ++device) {
    EXPECT_GT(sweep(device, wanted, [](int k) { return core::DeviceFaults{.fail_allocation = k}; }), 10);
  }
}

TEST_F(Faults, AFailingLaunchAtAnyCall) {
  std::vector<float> wanted = undisturbed(2);
  for (int device = 0; device < 3; ++device) {
    EXPECT_GT(sweep(device, wanted, [](int k) { return core::DeviceFaults{.fail_launch = k}; }), 10);
  }
}

TEST_F(Faults, AFailingCopyAtAnyCall) {
  std::vector<float> wanted = undisturbed(2);
  for (int device = 0; device < 3; ++device) {
    EXPECT_GE(sweep(device, wanted, [](int k) { return core::DeviceFaults{.fail_copy = k}; }), 1);
  }
}

TEST_F(Faults, OutOfMemoryOnAReplicaFreesWhatItTook) {
  Trial trial;
  trial.step();
  trial.optimizer.zero_grad();
  std::uint64_t before[3];
  for (int i = 0; i < 3; ++i) before[i] = core::cuda::memory_allocated(Device(core::DeviceType::cuda, i));
  core::inject_faults("cuda:1", {.fail_allocation = 8});
  try {
    trial.model(trial.x);
    FAIL();
  } catch (const core::OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), StartsWith("Caught OutOfMemoryError in replica 1 on device 1.\nOriginal exception: CUDA "
                                         "out of memory. Tried to allocate 2.00 MiB. GPU 1 has a total capacity of"));
    EXPECT_EQ(error.shortage().device, Device("cuda:1"));
    EXPECT_EQ(error.shortage().wanted, 2U << 20);
  }
  for (int i = 0; i < 3; ++i) {
    // The parameters were changed by the step, so their copies are made anew: as many as before.
    EXPECT_EQ(core::cuda::memory_allocated(Device(core::DeviceType::cuda, i)), before[i]) << i;
  }
}

TEST_F(Faults, AMemoryLimitStopsALargeBatchAndNotTheNextSmallerOne) {
  core::Linear net(256, 1024);
  net.cuda();
  DataParallel model(net);
  core::set_memory_limit("cuda:1", 32 << 20);
  Tensor large = core::ones({30000, 256}), small = core::ones({6, 256});
  EXPECT_THAT(message_of([&] { model(large); }), HasSubstr("CUDA out of memory. Tried to allocate"));
  EXPECT_EQ(model(small).sizes(), (core::Shape{6, 1024}));
  core::set_memory_limit("cuda:1", 0);
  EXPECT_EQ(model(large).size(0), 30000);
}

TEST_F(Faults, ADeadDeviceFailsAtOnceUntilItIsLeftOut) {
  std::vector<float> wanted;
  {
    core::Linear net = (core::manual_seed(0), core::Linear(4, 2));
    net.cuda();
    DataParallel model(net, {.device_ids = {{0, 2}}});
    wanted = floats(model(core::ones({4, 4})));
  }
  core::Linear net = (core::manual_seed(0), core::Linear(4, 2));
  net.cuda();
  DataParallel model(net);
  core::inject_faults("cuda:1", {.fail_launch = 0, .is_sticky = true});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(message_of([&] { model(core::ones({4, 4})); }), HasSubstr("CUDA error: unspecified launch failure"));
  }
  EXPECT_EQ(message_of([] { core::cuda::synchronize(Device("cuda:1")); }), "CUDA error: unspecified launch failure");
  EXPECT_EQ(net.state_dict().size(), 2U);
  EXPECT_EQ(floats(net.weight).size(), 8U);  // what lies elsewhere can be saved
  DataParallel rest(net, {.device_ids = {{0, 2}}});
  EXPECT_EQ(floats(rest(core::ones({4, 4}))), wanted);
  core::inject_faults("cuda:1", {});
}

TEST_F(Faults, ParallelApplyCountsItsArguments) {
  core::Linear net(1, 1);
  net.cuda();
  auto replicas = core::replicate(net, {Device("cuda:0"), Device("cuda:1")});
  Tensor x = core::ones({1, 1}).cuda(0);
  EXPECT_EQ(message_of([&] { core::parallel_apply(replicas, {x}, {Device("cuda:0")}); }),
            "The number of modules 2 is not equal to the number of inputs 1");
  EXPECT_EQ(message_of([&] {
              core::parallel_apply(replicas, {x, x}, {Device("cuda:0")});
            }),
            "The number of modules 2 is not equal to the number of devices 1");
}

TEST_F(Faults, ParallelApplyTakesADeviceTwice) {
  core::Linear net(1, 1);
  net.cuda();
  auto shared = std::make_shared<core::Linear>(net);
  Tensor x = core::ones({1, 1}).cuda(0);
  auto results = core::parallel_apply(std::vector{shared, shared}, {x, x * 2}, {Device("cuda:0"), Device("cuda:0")});
  EXPECT_EQ(floats(results[0]), floats(net(x)));
  EXPECT_EQ(results.size(), 2U);
}

TEST_F(Faults, ReplicateWantsItsModuleOnTheFirstDevice) {
  core::Linear net(1, 1);
  EXPECT_EQ(message_of([&] {
              core::replicate(net, {Device("cuda:0"), Device("cuda:1")});
            }),
            "Broadcast function not implemented for CPU tensors");
  net.cuda(1);
  EXPECT_EQ(message_of([&] {
              core::replicate(net, {Device("cuda:0"), Device("cuda:1")});
            }),
            "All tensors must be on devices[0]: 0");
}

}  // namespace

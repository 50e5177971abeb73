// DataParallel's rules beyond splitting and joining: what replicas are, what survives them, what is refused.
#include <gmock/gmock.h>

#include <mutex>
#include <set>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/index.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/scatter.h"
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
using test::message_of;
using test::place_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

struct TwoDevices : test::Devices<2> {};
struct FourDevices : test::Devices<4> {};

/// A note that all replicas write to.
struct Notes {
  std::mutex mutex;
  std::multiset<std::string> lines;
  void add(std::string line) {
    std::scoped_lock lock(mutex);
    lines.insert(std::move(line));
  }
};

/// y = x * w, with a call of the test's own in forward.
struct Scale : core::ModuleOf<Scale> {
  core::Parameter w{core::ones({1})};
  Tensor calls = core::zeros({1});
  int steps = 0;
  std::function<void(Scale&, const Tensor&)> inside = [](Scale&, const Tensor&) {};
  void members(core::Members& m) override { m.parameter("w", w).buffer("calls", calls); }
  Tensor forward(const Tensor& x) {
    inside(*this, x);
    return x * w;
  }
};

TEST_F(TwoDevices, WritesIntoABufferSurviveOnTheFirstDeviceAlone) {
  Scale net;
  net.inside = [](Scale& self, const Tensor& x) { self.calls.add_(x.device().index() == 0 ? 1 : 100); };
  DataParallel model(net);
  model.cuda();
  model(core::ones({4}));
  model(core::ones({4}));
  EXPECT_THAT(floats(net.calls), ElementsAre(2));
}

TEST_F(TwoDevices, AssignmentsToMembersAreLost) {
  Scale net;
  net.inside = [](Scale& self, const Tensor&) {
    self.steps += 1;
    self.calls = self.calls + 5;
  };
  DataParallel model(net);
  model.cuda();
  model(core::ones({4}));
  EXPECT_EQ(net.steps, 0);
  EXPECT_THAT(floats(net.calls), ElementsAre(0));
}

TEST_F(TwoDevices, AReplicaThatWritesIntoItsParametersSpoilsNoLaterCall) {
  Scale net;
  net.inside = [](Scale& self, const Tensor& x) {
    core::NoGradGuard no_grad;
    if (x.device().index() == 1) self.w.fill_(7);
  };
  DataParallel model(net);
  model.cuda();
  EXPECT_THAT(floats(model(core::ones({2}))), ElementsAre(1, 7));
  net.inside = [](Scale&, const Tensor&) {};
  EXPECT_THAT(floats(model(core::ones({2}))), ElementsAre(1, 1));
}

TEST_F(TwoDevices, ReplicasListTheirParametersOnTheirDevice) {
  Scale net;
  Notes notes;
  net.inside = [&](Scale& self, const Tensor&) {
    Tensor first = self.parameters()[0];
    notes.add(place_of(first) + (first.is_leaf() ? " leaf" : " " + first.grad_fn_name()) +
              (self.is_replica() ? " replica" : ""));
  };
  DataParallel model(net);
  model.cuda();
  model(core::ones({2}));
  EXPECT_THAT(notes.lines,
              UnorderedElementsAre("cuda:0 BroadcastBackward replica", "cuda:1 BroadcastBackward replica"));
}

TEST_F(TwoDevices, TheWarningOfZeroGradIsPyTorchs) {
  test::Warnings warnings;
  Scale net;
  net.cuda();
  auto replicas = core::replicate(net, {Device("cuda:0"), Device("cuda:1")});
  replicas[1]->zero_grad();
  EXPECT_THAT(warnings.texts,
              ElementsAre("Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The "
                          "parameters are copied (in a differentiable manner) from the original module. This means "
                          "they are not leaf nodes in autograd and so don't accumulate gradients. If you need "
                          "gradients in your forward method, consider using autograd.grad instead."));
  net.zero_grad();
  EXPECT_EQ(warnings.texts.size(), 1U);
}

TEST_F(TwoDevices, TrainAndEvalReachTheReplicas) {
  Scale net;
  Notes notes;
  net.inside = [&](Scale& self, const Tensor&) { notes.add(self.is_training() ? "train" : "eval"); };
  DataParallel model(net);
  model.cuda();
  model(core::ones({2}));
  model.eval();
  model(core::ones({2}));
  EXPECT_THAT(notes.lines, UnorderedElementsAre("eval", "eval", "train", "train"));
}

TEST_F(TwoDevices, GradModeReachesTheReplicas) {
  Scale net;
  Notes notes;
  net.inside = [&](Scale& self, const Tensor&) {
    notes.add(core::is_grad_enabled() ? "grad" : "no grad");
    if (!core::is_grad_enabled()) notes.add(self.w.grad_fn_name());
  };
  DataParallel model(net);
  model.cuda();
  model(core::ones({2}));
  {
    core::NoGradGuard no_grad;
    EXPECT_FALSE(model(core::ones({2})).requires_grad());
  }
  EXPECT_THAT(notes.lines, UnorderedElementsAre("grad", "grad", "no grad", "no grad", "", ""));
}

TEST_F(TwoDevices, ForwardRunsWithItsDeviceCurrent) {
  Scale net;
  Notes notes;
  net.inside = [&](Scale&, const Tensor& x) {
    notes.add(place_of(x) + " in " + place_of(core::ones({1}, {.device = "cuda"})));
  };
  DataParallel model(net);
  model.cuda();
  model(core::ones({2}));
  EXPECT_THAT(notes.lines, UnorderedElementsAre("cuda:0 in cuda:0", "cuda:1 in cuda:1"));
}

TEST_F(TwoDevices, HooksRunOncePerReplica) {
  Scale net;
  Notes notes;
  net.register_forward_pre_hook(
      [&](core::Module&, const std::vector<Tensor>& in) { notes.add("pre " + place_of(in[0])); });
  net.register_forward_hook([&](core::Module&, const std::vector<Tensor>&, const Tensor& out) {
    notes.add("post " + place_of(out));
    return out * 2;
  });
  DataParallel model(net);
  model.cuda();
  EXPECT_THAT(floats(model(core::ones({2}))), ElementsAre(2, 2));
  EXPECT_THAT(notes.lines, UnorderedElementsAre("pre cuda:0", "pre cuda:1", "post cuda:0", "post cuda:1"));
}

TEST_F(TwoDevices, BackwardHooksOfReplicasSeeTheOriginalModule) {
  Scale net;
  Notes notes;
  net.register_full_backward_hook([&](core::Module& module, const std::vector<Tensor>&, const Tensor& grad) {
    notes.add(place_of(grad) + (&module == &net ? " original" : " other"));
  });
  DataParallel model(net);
  model.cuda();
  model(core::ones({2})).sum().backward();
  EXPECT_THAT(notes.lines, UnorderedElementsAre("cuda:0 original", "cuda:1 original"));
}

TEST_F(TwoDevices, ABufferThatWantsAGradientIsPartOfTheGraph) {
  struct Net : core::ModuleOf<Net> {
    Tensor b = core::ones({2}, {.requires_grad = true});
    void members(core::Members& m) override { m.buffer("b", b); }
    Tensor forward(const Tensor& x) { return x * b; }
  } net;
  net.b = net.b.detach().cuda(0).requires_grad_();
  DataParallel model(net);
  model(core::tensor({{1.0, 2.0}, {3.0, 4.0}})).sum().backward();
  EXPECT_THAT(floats(net.b.grad()), ElementsAre(4, 6));
}

TEST_F(TwoDevices, HasSecondDerivatives) {
  core::Linear net(2, 1);
  net.cuda();
  DataParallel model(net);
  Tensor x = core::tensor({{1.0, 2.0}, {3.0, 4.0}}).to_float();
  auto square = [](const Tensor& t) { return t * t; };
  auto second = [&](auto& forward) {
    auto first = core::grad({square(forward(x.cuda(0))).sum()}, {net.weight}, {.create_graph = true});
    return floats(core::grad({square(first[0]).sum()}, {net.weight})[0]);
  };
  std::vector<float> alone = second(net), parallel = second(model);
  EXPECT_THAT(parallel, testing::Pointwise(testing::FloatNear(1e-2F), alone));
}

TEST_F(TwoDevices, GradientsAddUpOverSteps) {
  Scale net;
  DataParallel model(net);
  model.cuda();
  model(core::ones({2})).sum().backward();
  model(core::ones({2})).sum().backward();
  EXPECT_THAT(floats(net.w.grad()), ElementsAre(4));
  EXPECT_EQ(place_of(net.w.grad()), "cuda:0");
}

TEST_F(TwoDevices, AParameterUsedByOneReplicaAloneGetsItsGradient) {
  Scale net;
  net.inside = [](Scale& self, const Tensor& x) {
    if (x.device().index() == 0) self.w = core::Parameter(core::ones({1}).cuda(0), false);
  };
  DataParallel model(net);
  model.cuda();
  model(core::tensor({3.0, 5.0}).to_float()).sum().backward();
  EXPECT_THAT(floats(net.w.grad()), ElementsAre(5));
}

TEST_F(TwoDevices, ASharedParameterIsOneInEveryReplica) {
  struct Tied : core::ModuleOf<Tied> {
    core::Linear a{2, 2}, b{2, 2};
    Tied() { b.weight = a.weight; }
    void members(core::Members& m) override { m.child("a", a).child("b", b); }
    Tensor forward(const Tensor& x) {
      if (!a.weight.is_same(b.weight)) throw core::Error(core::ErrorCode::runtime, "not tied");
      return b(a(x));
    }
  };
  DataParallel model(Tied{});
  model.cuda();
  EXPECT_NO_THROW(model(core::ones({2, 2})).sum().backward());
  EXPECT_EQ(model.parameters().size(), 3U);
}

TEST_F(TwoDevices, ParallelWithinParallel) {
  core::manual_seed(0);
  auto net = std::make_shared<core::Sequential>(core::Linear(3, 4), core::Linear(4, 2));
  Tensor x = core::randn({6, 3});
  net->cuda();
  std::vector<float> alone = floats((*net)(x.cuda(0)));
  DataParallel inner(net);
  auto outer = core::wrap_data_parallel(inner);
  EXPECT_EQ(outer.named_parameters()[0].first, "module.module.0.weight");
  Tensor y = outer(x);
  EXPECT_THAT(floats(y), testing::Pointwise(testing::FloatNear(1e-6F), alone));
  y.sum().backward();
  EXPECT_TRUE(outer.parameters()[0].grad().defined());
}

TEST_F(TwoDevices, ParallelInsideAModule) {
  struct Net : core::ModuleOf<Net> {
    core::Linear block1{10, 20};
    DataParallel<core::Linear> block2{core::Linear(20, 20)};
    core::Linear block3{20, 20};
    void members(core::Members& m) override {
      m.child("block1", block1).child("block2", block2).child("block3", block3);
    }
    Tensor forward(const Tensor& x) { return block3(block2(block1(x))); }
  } net;
  net.cuda();
  Tensor y = net(core::ones({4, 10}).cuda(0));
  y.sum().backward();
  EXPECT_EQ(y.sizes(), (core::Shape{4, 20}));
  EXPECT_TRUE(net.block1.weight.grad().defined());
  EXPECT_EQ(net.state_dict().keys()[2], "block2.module.weight");
}

TEST_F(FourDevices, OnlyAsManyReplicasRunAsThereArePieces) {
  Scale net;
  Notes notes;
  net.inside = [&](Scale& self, const Tensor& x) { notes.add(place_of(x) + (self.is_replica() ? " replica" : "")); };
  DataParallel model(net);
  model.cuda();
  model(core::ones({6}));  // 2, 2, 2
  EXPECT_THAT(notes.lines, UnorderedElementsAre("cuda:0 replica", "cuda:1 replica", "cuda:2 replica"));
  notes.lines.clear();
  model(core::ones({1}));
  EXPECT_THAT(notes.lines, UnorderedElementsAre("cuda:0 replica"));
}

TEST_F(FourDevices, AnEmptyBatchRunsEverywhere) {
  DataParallel model(core::Linear(3, 2));
  model.cuda();
  Tensor y = model(core::ones({0, 3}));
  EXPECT_EQ(y.sizes(), (core::Shape{0, 2}));
  y.sum().backward();
  EXPECT_THAT(floats(model.module().bias.grad()), ElementsAre(0, 0));
}

TEST_F(TwoDevices, AForwardWithoutArgumentsRunsOnTheFirstDevice) {
  struct Net : core::ModuleOf<Net> {
    core::Parameter w{core::ones({3})};
    void members(core::Members& m) override { m.parameter("w", w); }
    Tensor forward() { return w * 2; }
  };
  DataParallel model(Net{});
  model.cuda();
  EXPECT_THAT(floats(model()), ElementsAre(2, 2, 2));
  EXPECT_THAT(floats(core::data_parallel(model.module(), std::nullopt)), ElementsAre(2, 2, 2));
}

TEST_F(TwoDevices, ArgumentsWithoutTensorsGoToEveryDevice) {
  struct Net : core::ModuleOf<Net> {
    core::Parameter w{core::ones({1})};
    void members(core::Members& m) override { m.parameter("w", w); }
    Tensor forward(int factor) { return w * factor; }
  };
  DataParallel model(Net{});
  model.cuda();
  EXPECT_THAT(floats(model(3)), ElementsAre(3, 3));
}

struct Flagged : core::ModuleOf<Flagged> {
  core::Linear fc{2, 2};
  void members(core::Members& m) override { m.child("fc", fc); }
  Tensor forward(const Tensor& x, bool negate, const std::optional<Tensor>& scale) {
    Tensor y = fc(x);
    if (scale) y = y * *scale;
    return negate ? y.neg() : y;
  }
};

TEST_F(FourDevices, APlainArgumentDoesNotAddReplicas) {
  DataParallel model(Flagged{});
  model.cuda();
  EXPECT_EQ(model(core::ones({2, 2}), true, std::optional<Tensor>()).sizes(), (core::Shape{2, 2}));
}

TEST_F(TwoDevices, OptionalArgumentsAreSplitToo) {
  Flagged net;
  net.cuda();
  Tensor x = core::randn({3, 2}), scale = core::randn({3, 1});
  std::vector<float> alone = floats(net(x.cuda(0), true, std::optional<Tensor>(scale.cuda(0))));
  EXPECT_EQ(floats(core::data_parallel(net, std::tuple(x, true, std::optional<Tensor>(scale)))), alone);
}

TEST_F(TwoDevices, AParameterMayBeAnArgument) {
  core::Parameter x(core::ones({2, 2}));
  DataParallel model(core::Linear(2, 1));
  model.cuda();
  model(x).sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST_F(TwoDevices, OneDeviceIsNoReplicaAndItsResultStays) {
  Scale net;
  net.inside = [](Scale& self, const Tensor&) { self.steps += 1; };
  DataParallel model(net, {.device_ids = {{1}}, .output_device = 0});
  EXPECT_EQ(place_of(net.w), "cuda:1");
  EXPECT_EQ(place_of(model(core::ones({3}))), "cuda:1");
  EXPECT_EQ(net.steps, 1);
}

TEST_F(TwoDevices, TheFunctionLooksForTheModuleOnTheFirstDevice) {
  core::Linear net(2, 2);
  EXPECT_EQ(message_of([&] {
              core::data_parallel(net, core::ones({2, 2}));
            }),
            "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
            "device: cpu");
  net.cuda(1);
  EXPECT_EQ(place_of(core::data_parallel(net, core::ones({2, 2}), {.device_ids = {{1, 0}}, .output_device = 0})),
            "cuda:0");
}

TEST_F(TwoDevices, ABufferOnAnotherDeviceIsRefused) {
  Scale net;
  DataParallel model(net);
  model.cuda();
  net.calls = core::zeros({1}).cuda(1);
  EXPECT_EQ(message_of([&] { model(core::ones({2})); }),
            "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
            "device: cuda:1");
}

// Two programs of the "Multi-GPU examples" tutorial.
TEST_F(FourDevices, ThePrimitivesMakeAParallelForward) {
  core::Linear net(5, 2);
  net.cuda();
  std::vector<Device> devices = core::try_all_gpus();
  Tensor x = core::randn({6, 5});
  auto replicas = core::replicate(net, devices);
  auto inputs = core::scatter(x, devices);
  replicas.resize(inputs.size());
  devices.resize(inputs.size());
  Tensor y = core::gather(core::parallel_apply(replicas, inputs, devices), Device("cuda:3"));
  EXPECT_EQ(inputs.size(), 3U);
  EXPECT_EQ(place_of(y), "cuda:3");
  EXPECT_THAT(floats(y), testing::Pointwise(testing::FloatNear(1e-6F), floats(net(x.cuda(0)))));
  y.sum().backward();
  EXPECT_THAT(floats(net.bias.grad()), ElementsAre(6, 6));
}

TEST_F(TwoDevices, AModelMayLivePartlyOnTheCpu) {
  struct Net : core::ModuleOf<Net> {
    core::Embedding embedding{1000, 10};
    core::Linear fc{10, 10};
    Net() { fc.cuda(); }
    void members(core::Members& m) override { m.child("embedding", embedding).child("fc", fc); }
    Tensor forward(const Tensor& ids) { return fc(embedding(ids).cuda(0)); }
  } net;
  Tensor y = net(core::arange(4));
  y.sum().backward();
  EXPECT_EQ(place_of(y), "cuda:0");
  EXPECT_EQ(place_of(net.embedding.weight.grad()), "cpu");
}

TEST_F(TwoDevices, OneDeviceIsCheckedToo) {
  core::Linear net(2, 1);
  DataParallel model(net, {.device_ids = {{"cuda"}}});
  EXPECT_EQ(place_of(net.weight), "cuda:0");
  net.cuda(1);
  EXPECT_EQ(message_of([&] {
              model(core::ones({2, 2}));
            }),
            "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
            "device: cuda:1");
}

TEST_F(TwoDevices, DataMayLieAnywhere) {
  DataParallel model(core::Linear(2, 1));
  model.cuda();
  Tensor x = core::randn({4, 2});
  std::vector<float> from_cpu = floats(model(x));
  EXPECT_EQ(floats(model(x.cuda(1))), from_cpu);
  EXPECT_EQ(floats(model(x.cuda(0))), from_cpu);
}

TEST_F(TwoDevices, SplitsAlongAnotherDimension) {
  Scale net;
  Notes notes;
  net.inside = [&](Scale&, const Tensor& x) { notes.add(std::to_string(x.size(0)) + "x" + std::to_string(x.size(1))); };
  DataParallel model(net, {.dim = 1});
  model.cuda();
  EXPECT_EQ(model(core::ones({2, 5})).sizes(), (core::Shape{2, 5}));
  EXPECT_THAT(notes.lines, UnorderedElementsAre("2x2", "2x3"));
}

TEST_F(TwoDevices, OutputOnMinusOneIsTheCpuWithAWarning) {
  test::Warnings warnings;
  DataParallel model(core::Linear(2, 1), {.output_device = -1});
  model.cuda();
  EXPECT_EQ(place_of(model(core::ones({2, 2}))), "cpu");
  EXPECT_THAT(warnings.texts, ElementsAre(HasSubstr("Using -1 to represent CPU tensor is deprecated.")));
}

TEST_F(TwoDevices, RefusesWhatIsNoDevice) {
  auto make = [](const core::DataParallelOptions& options) {
    return [options] { DataParallel(core::Linear(1, 1), options); };
  };
  EXPECT_EQ(message_of(make({.output_device = "cpu"})), "Expected a non cpu device, but got: cpu");
  EXPECT_EQ(message_of(make({.device_ids = {{0, 7}}})),
            "Invalid device id: cuda:7 is not available: 2 CUDA devices visible (cuda:0, cuda:1)");
  EXPECT_EQ(message_of(make({.device_ids = {{1, "cuda:1"}}})),
            "device_ids: cuda:1 is given twice; a device runs one replica");
  EXPECT_EQ(message_of(make({.device_ids = {std::vector<core::DeviceId>{}}})), "no available devices were found");
}

TEST(NoDevices, GivenIdsAreIgnored) {
  core::set_logical_devices(0);
  DataParallel model(core::Linear(2, 1), {.device_ids = {{3, 5}}, .output_device = 9});
  EXPECT_TRUE(model.device_ids().empty());
  EXPECT_EQ(place_of(model(core::ones({2, 2}))), "cpu");
  core::Linear net(2, 1);
  EXPECT_EQ(place_of(core::data_parallel(net, core::ones({2, 2}))), "cpu");
}

TEST(Balance, WarnsOfMemoryFirst) {
  test::Warnings warnings;
  core::set_logical_devices({{.total_memory = 8 << 20}, {.total_memory = 5 << 20, .multiprocessors = 1}});
  DataParallel model(core::Linear(1, 1));
  EXPECT_THAT(warnings.texts,
              ElementsAre("\n    There is an imbalance between your GPUs. You may want to exclude GPU 1 which\n    has "
                          "less than 75% of the memory or cores of GPU 0. You can do so by setting\n    the "
                          "device_ids argument to DataParallel, or by setting the CUDA_VISIBLE_DEVICES\n    "
                          "environment variable."));
  core::set_logical_devices(0);
}

TEST(Balance, WarnsOfMultiprocessorsWhereMemoryIsEqual) {
  test::Warnings warnings;
  core::set_logical_devices({{.multiprocessors = 70}, {.multiprocessors = 100}});
  DataParallel model(core::Linear(1, 1));
  EXPECT_THAT(warnings.texts, ElementsAre(HasSubstr("exclude GPU 0 which")));
  core::set_logical_devices(0);
}

TEST(Balance, ThreeQuartersAreEnough) {
  test::Warnings warnings;
  core::set_logical_devices({{.multiprocessors = 75}, {.multiprocessors = 100}});
  { DataParallel model(core::Linear(1, 1)); }
  EXPECT_THAT(warnings.texts, ElementsAre());
  core::set_logical_devices(0);
}

TEST(Balance, TheFunctionDoesNotLook) {
  test::Warnings warnings;
  core::set_logical_devices({{.multiprocessors = 1}, {.multiprocessors = 100}});
  {
    core::Linear net(1, 1);
    net.cuda();
    core::data_parallel(net, core::ones({2, 1}));
  }
  EXPECT_THAT(warnings.texts, ElementsAre());
  core::set_logical_devices(0);
}

}  // namespace

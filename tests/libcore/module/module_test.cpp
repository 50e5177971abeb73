#include "libcore/module/module.h"

#include <gtest/gtest.h>

#include <sstream>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"

namespace {

using core::Linear;
using core::Tensor;

struct Model : core::ModuleOf<Model> {
  Linear fc;
  Model(std::int64_t in, std::int64_t out) : fc(in, out) {}
  void members(core::Members& m) override { m.child("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }
};

/// Two tensors in, two out: forward may have any signature.
struct TwoHeads : core::ModuleOf<TwoHeads> {
  Linear a{2, 1}, b{2, 3};
  void members(core::Members& m) override { m.child("a", a).child("b", b); }
  std::pair<Tensor, Tensor> forward(const Tensor& x, double scale) { return {a(x) * scale, b(x)}; }
};

/// A parameter and buffers of its own beside a child held by pointer.
struct Mixed : core::ModuleOf<Mixed> {
  core::Parameter scale{core::ones({2})};
  Tensor seen = core::zeros({1});
  Tensor scratch = core::zeros({4});
  std::shared_ptr<core::Module> body = std::make_shared<Linear>(2, 2);
  std::shared_ptr<core::Module> nothing;
  void members(core::Members& m) override {
    m.child("body", body).child("nothing", nothing);
    m.buffer("scratch", scratch, false).buffer("seen", seen).parameter("scale", scale);
  }
};

template <class T>
struct Templated : core::ModuleOf<Templated<T>> {
  void members(core::Members&) override {}
};

std::vector<std::string> names(const core::NamedTensors& tensors) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors) result.push_back(name);
  return result;
}

using Names = std::vector<std::string>;

TEST(Module, PrintsAsPyTorch) {
  std::ostringstream out;
  out << Model(5, 2);
  EXPECT_EQ(out.str(), "Model(\n  (fc): Linear(in_features=5, out_features=2, bias=True)\n)");
}

TEST(Module, ClassNameDropsNamespacesAndTemplateArguments) {
  EXPECT_EQ(Templated<std::vector<int>>().str(), "Templated()");
}

TEST(Module, ForwardMayHaveAnySignature) {
  TwoHeads heads;
  const auto [a, b] = heads(core::ones({4, 2}), 0.5);
  EXPECT_EQ(a.sizes(), (core::Shape{4, 1}));
  EXPECT_EQ(b.sizes(), (core::Shape{4, 3}));
  try {
    heads.call(core::ones({4, 2}));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.message(), "Module [TwoHeads] is missing the required \"forward\" function");
  }
}

TEST(Module, ListsParametersThenBuffersThenChildren) {
  Mixed mixed;
  EXPECT_EQ(names(mixed.named_parameters()), (Names{"scale", "body.weight", "body.bias"}));
  EXPECT_EQ(names(mixed.named_buffers()), (Names{"scratch", "seen"}));
  EXPECT_EQ(mixed.state_dict().keys(), (Names{"scale", "seen", "body.weight", "body.bias"}));
  EXPECT_EQ(mixed.tensor_slots().size(), 5U);
}

TEST(Module, RefusesANameThatStandsForTwoMembers) {
  struct Twice : core::ModuleOf<Twice> {
    Linear a{1, 1}, b{1, 1};
    void members(core::Members& m) override { m.child("fc", a).child("fc", b); }
  };
  Twice twice;
  EXPECT_THROW(twice.parameters(), core::Error);
}

TEST(Module, CopyingSharesTensorsAndCloneDoesNot) {
  Model model(2, 2);
  Model copy = model;
  Model deep = model.clone();
  EXPECT_TRUE(copy.fc.weight.is_same(model.fc.weight));
  EXPECT_FALSE(deep.fc.weight.is_same(model.fc.weight));
  {
    const core::NoGradGuard no_grad;
    model.fc.weight.fill_(3);
  }
  EXPECT_EQ(copy.fc.weight.to_vector<float>()[0], 3);
  EXPECT_NE(deep.fc.weight.to_vector<float>()[0], 3);
  EXPECT_TRUE(deep.fc.weight.requires_grad());
  EXPECT_TRUE(deep.fc.weight.is_leaf());
}

TEST(Module, CloneKeepsSharingInside) {
  auto shared = std::make_shared<Linear>(2, 2);
  core::Sequential net(shared, core::ReLU(), shared);
  core::Sequential copy = net.clone();
  EXPECT_EQ(&copy[0], &copy[2]);
  EXPECT_NE(&copy[0], &net[0]);
  EXPECT_EQ(copy.parameters().size(), 2U);
}

TEST(Module, ReplicasCanBeReboundWithoutTheOriginalNoticing) {
  core::Sequential net(Linear(2, 2));
  const Tensor original = net.submodule("0").parameter("weight");
  const std::shared_ptr<core::Module> replica = net.replicate();
  EXPECT_TRUE(replica->parameter("0.weight").is_same(original));
  for (core::TensorSlot& slot : replica->tensor_slots()) *slot.tensor = core::zeros(slot.tensor->sizes());
  EXPECT_TRUE(net.parameter("0.weight").is_same(original));
  EXPECT_EQ(core::sum(replica->call(core::ones({1, 2}))).item<float>(), 0);
}

TEST(Module, ModeReachesEverythingBelow) {
  core::Sequential net(core::Dropout(0.5), core::Sequential(core::Dropout(1.0)));
  net.eval();
  EXPECT_FALSE(net.submodule("1.0").is_training());
  EXPECT_EQ(core::sum(net(core::ones({3}))).item<float>(), 3);
  net.train();
  EXPECT_EQ(core::sum(net(core::ones({3}))).item<float>(), 0);
}

TEST(Module, ConversionKeepsParameterIdentityAndCastsGradients) {
  Model model(2, 1);
  const Tensor weight = model.fc.weight;
  core::sum(model(core::ones({1, 2}))).backward();
  model.to(core::DType::f64);
  EXPECT_TRUE(weight.is_same(model.fc.weight));
  EXPECT_EQ(weight.dtype(), core::DType::f64);
  EXPECT_EQ(weight.grad().dtype(), core::DType::f64);
  EXPECT_TRUE(weight.requires_grad());
}

TEST(Module, ConversionLeavesIntegerBuffersAlone) {
  core::BatchNorm1d norm(2);
  norm.to(core::DType::f64);
  EXPECT_EQ(norm.running_mean.dtype(), core::DType::f64);
  EXPECT_EQ(norm.num_batches_tracked.dtype(), core::DType::i64);
}

TEST(Module, BatchNormCountsABatchThatItRefusesAsPyTorchDoes) {
  core::BatchNorm1d norm(2);
  EXPECT_THROW(norm(core::ones({1, 2})), core::Error);  // one value per channel
  EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 1);
  norm(core::ones({4, 2}));
  EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 2);
}

TEST(Module, ZeroGradDropsOrClears) {
  Model model(2, 1);
  core::sum(model(core::ones({1, 2}))).backward();
  model.zero_grad(false);
  EXPECT_EQ(core::sum(model.fc.weight.grad()).item<float>(), 0);
  model.zero_grad();
  EXPECT_FALSE(model.fc.weight.grad().defined());
}

TEST(Module, ApplyVisitsChildrenFirst) {
  Model model(1, 1);
  Names visited;
  model.apply([&](core::Module& module) { visited.push_back(module.class_name()); });
  EXPECT_EQ(visited, (Names{"Linear", "Model"}));
}

TEST(Module, TypeThatCannotBeCopiedSaysSo) {
  struct Unique : core::ModuleOf<Unique> {
    std::unique_ptr<int> only;
    void members(core::Members&) override {}
  };
  EXPECT_THROW(Unique().copy(), core::Error);
}

TEST(Parameter, PrintsAsParameter) {
  std::ostringstream out;
  out << core::Parameter(core::ones({2}));
  EXPECT_EQ(out.str(), "Parameter containing:\ntensor([1., 1.], requires_grad=True)");
}

TEST(StateDict, KeepsOrderAndReplacesInPlace) {
  core::StateDict state{{"b", core::ones({1})}, {"a", core::ones({1})}};
  state.set("b", core::zeros({1}));
  EXPECT_EQ(state.keys(), (Names{"b", "a"}));
  EXPECT_EQ(state.at("b").item<float>(), 0);
  EXPECT_TRUE(state.erase("b"));
  EXPECT_EQ(state.keys(), (Names{"a"}));
  EXPECT_TRUE(state.contains("a"));
  EXPECT_THROW(state.at("b"), core::Error);
}

TEST(StateDict, RecordsVersionsOfEveryModule) {
  const core::StateDict state = core::Sequential(core::BatchNorm1d(1), core::ReLU()).state_dict();
  EXPECT_EQ(state.versions(), (core::StateDict::Versions{{"", 1}, {"0", 2}, {"1", 1}}));
}

TEST(StateDict, ConsumingAPrefixMovesVersionsToo) {
  core::StateDict state{{"module.fc.weight", core::ones({1})}, {"other", core::ones({1})}};
  state.set_versions({{"", 1}, {"module", 2}, {"module.fc", 3}});
  core::consume_prefix_in_state_dict_if_present(state, "module.");
  EXPECT_EQ(state.keys(), (Names{"other", "fc.weight"}));
  EXPECT_EQ(state.version(""), 2);
  EXPECT_EQ(state.version("fc"), 3);
}

TEST(LoadStateDict, SaysWhatIsMissingAndUnexpected) {
  Model model(5, 2);
  core::StateDict wrapped{{"module.fc.weight", core::ones({2, 5})}, {"module.fc.bias", core::ones({2})}};
  try {
    model.load_state_dict(wrapped);
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.message(),
              "Error(s) in loading state_dict for Model:\n"
              "\tMissing key(s) in state_dict: \"fc.weight\", \"fc.bias\". \n"
              "\tUnexpected key(s) in state_dict: \"module.fc.weight\", \"module.fc.bias\". ");
  }
}

TEST(LoadStateDict, ValuesShareNothingAndVersionsRise) {
  Model from(2, 2), to(2, 2);
  const std::uint32_t before = to.fc.weight.version();
  EXPECT_EQ(to.load_state_dict(from.state_dict()).str(), "<All keys matched successfully>");
  EXPECT_GT(to.fc.weight.version(), before);
  EXPECT_FALSE(to.fc.weight.is_same(from.fc.weight));
  EXPECT_TRUE(core::equal(to.fc.weight.detach(), from.fc.weight.detach()));
}

}  // namespace

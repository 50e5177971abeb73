// Hooks that change things, hooks around the state, extra state, walks with duplicates, casts of whole modules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/autograd/autograd.h"
#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/message_of.h"

namespace {

using core::Module;
using core::StateDict;
using core::Tensor;
using test::message_of;
using testing::ElementsAre;

struct Counter : core::ModuleOf<Counter> {
  core::Linear fc{1, 1};
  std::int64_t seen = 0;
  void members(core::Members& m) override { m.child("fc", fc); }
  Tensor extra_state() const override { return core::full({}, seen); }
  void set_extra_state(const Tensor& state) override { seen = state.item<std::int64_t>(); }
  Tensor forward(const Tensor& x) { return fc(x); }
};

TEST(ExtraState, GoesWithTheStateAndComesBack) {
  Counter counter, other;
  counter.seen = 7;
  const StateDict state = counter.state_dict();
  EXPECT_THAT(state.keys(), ElementsAre("_extra_state", "fc.weight", "fc.bias"));
  other.load_state_dict(state);
  EXPECT_EQ(other.seen, 7);
}

TEST(ExtraState, IsMissedAndRefusedLikeAnyKey) {
  Counter counter;
  StateDict state = counter.state_dict();
  state.erase("_extra_state");
  EXPECT_EQ(message_of([&] { counter.load_state_dict(state); }),
            "Error(s) in loading state_dict for Counter:\n\tMissing key(s) in state_dict: \"_extra_state\". ");
  core::Linear plain(1, 1);
  state = plain.state_dict();
  state.set("_extra_state", core::ones({}));
  EXPECT_EQ(message_of([&] { plain.load_state_dict(state); }),
            "Error(s) in loading state_dict for Linear:\n\tUnexpected key(s) in state_dict: \"_extra_state\". ");
}

TEST(StateHooks, SeeEachModuleWithItsPrefix) {
  core::Sequential net(core::Linear(1, 1, {.bias = false}), core::ReLU());
  std::vector<std::string> prefixes;
  for (Module* module : net.modules()) {
    module->register_state_dict_pre_hook(
        [&](Module& m, const std::string& prefix, bool) { prefixes.push_back(m.class_name() + " " + prefix); });
  }
  net[0].register_state_dict_post_hook(
      [](Module&, StateDict& state, const std::string& prefix) { state.set(prefix + "note", core::ones({})); });
  EXPECT_THAT(net.state_dict().keys(), ElementsAre("0.weight", "0.note"));
  EXPECT_THAT(prefixes, ElementsAre("Sequential ", "Linear 0.", "ReLU 1."));
}

TEST(StateHooks, MayRenameKeysBeforeTheyAreLoaded) {
  core::Sequential net(core::Linear(1, 1, {.bias = false}));
  net[0].register_load_state_dict_pre_hook([](Module&, StateDict& state, const std::string& prefix) {
    const Tensor* old = state.find(prefix + "kernel");
    if (old == nullptr) return;
    state.set(prefix + "weight", *old);
    state.erase(prefix + "kernel");
  });
  net.load_state_dict(StateDict{{"0.kernel", core::full({1, 1}, 5.0)}});
  EXPECT_EQ(net.parameters()[0].item<float>(), 5.0F);
}

TEST(StateHooks, MayForgiveKeysOnceTheyAreLoaded) {
  core::Linear fc(1, 1);
  const auto id = fc.register_load_state_dict_post_hook(
      [](Module&, core::IncompatibleKeys& keys) { std::erase(keys.missing_keys, "bias"); });
  const StateDict state{{"weight", core::ones({1, 1})}};
  EXPECT_EQ(fc.load_state_dict(state).str(), "<All keys matched successfully>");
  fc.remove_hook(id);
  EXPECT_EQ(message_of([&] { fc.load_state_dict(state); }),
            "Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: \"bias\". ");
}

TEST(Hooks, OneThatReturnsSomethingReplacesIt) {
  core::Linear fc(1, 1, {.bias = false});
  fc.weight.detach().fill_(3);
  fc.register_forward_pre_hook([](Module&, const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2}; });
  fc.register_full_backward_pre_hook([](Module&, const Tensor& grad) { return grad * 10; });
  fc.register_full_backward_hook(
      [](Module&, const std::vector<Tensor>& in, const Tensor&) { return std::vector<Tensor>{in[0] + 1}; });
  const Tensor x = core::ones({1, 1}, {.requires_grad = true});
  const Tensor y = fc(x);
  EXPECT_EQ(y.item<float>(), 6.0F);
  core::sum(y).backward();
  EXPECT_EQ(fc.weight.grad().item<float>(), 20.0F);
  EXPECT_EQ(x.grad().item<float>(), 62.0F);  // (1 * 10 * 3 + 1) * 2
}

TEST(Hooks, MustReturnAsManyAsTheyWereGiven) {
  core::Linear fc(1, 1);
  fc.register_full_backward_hook([](Module&, const std::vector<Tensor>& in, const Tensor&) {
    return std::vector<Tensor>{in[0], in[0]};
  });
  const Tensor y = fc(core::ones({1, 1}, {.requires_grad = true}));
  EXPECT_EQ(message_of([&] { core::sum(y).backward(); }),
            "Backward hook returned an invalid number of grad_input, got 2, but expected 1");
}

TEST(Walks, ListWhatIsSharedAsOftenAsAsked) {
  auto fc = std::make_shared<core::Linear>(1, 1);
  core::Sequential net(fc, fc);
  EXPECT_EQ(net.named_modules().size(), 2U);
  EXPECT_EQ(net.named_modules("", false).size(), 3U);
  EXPECT_EQ(net.named_parameters().size(), 2U);
  const core::NamedTensors all = net.named_parameters("net", true, false);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[3].first, "net.1.bias");
  EXPECT_EQ(net.children().size(), 1U);
}

TEST(Module, CastsWholeAndLeavesTheMetaDevice) {
  core::Linear fc(2, 3, {.device = core::Device("meta")});
  fc.to_empty("cpu");
  EXPECT_EQ(fc.to_half().weight.dtype(), core::DType::f16);
  EXPECT_EQ(fc.to_bfloat16().weight.dtype(), core::DType::bf16);
  EXPECT_EQ(fc.to_double().bias.dtype(), core::DType::f64);
  EXPECT_EQ(fc.to_float().weight.sizes(), (core::Shape{3, 2}));
  EXPECT_TRUE(fc.weight.requires_grad());
}

TEST(Module, CopiesNoTensorThatIsTheResultOfAnOperation) {
  core::Linear fc(1, 1);
  static_cast<Tensor&>(fc.weight) = fc.weight * 2;
  EXPECT_THAT(message_of([&] { fc.deep_copy(); }),
              testing::StartsWith("Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                                  "protocol at the moment."));
}

}  // namespace

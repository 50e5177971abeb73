// Classes of one's own that derive from modules, and members that a class forgets, lists wrongly or gets at run time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/dropout.h"
#include "libcore/module/lazy.h"
#include "libcore/module/linear.h"
#include "libcore/module/module.h"
#include "libcore/module/recurrent.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"

namespace {

using core::Linear;
using core::Tensor;
using test::message_of;
using testing::HasSubstr;

struct Doubled : core::ModuleOf<Doubled, Linear> {
  using ModuleOf::ModuleOf;
  Tensor forward(const Tensor& x) { return Linear::forward(x) * 0 + 7; }
};

TEST(OwnClass, RunsItsOwnForwardHoweverItIsCalled) {
  Doubled layer(2, 3);
  const Tensor x = core::ones({1, 2});
  EXPECT_EQ(layer(x).sum().item<float>(), 21);
  EXPECT_EQ(layer.call(x).sum().item<float>(), 21);
  EXPECT_EQ(core::Sequential(std::make_shared<Doubled>(2, 3))(x).sum().item<float>(), 21);
  EXPECT_EQ(core::Sequential({{"a", Doubled(2, 3)}})(x).sum().item<float>(), 21);
  EXPECT_EQ(layer.copy()->call(x).sum().item<float>(), 21);
  EXPECT_EQ(layer.clone()(x).sum().item<float>(), 21);
  EXPECT_EQ(layer.str(), "Doubled(in_features=2, out_features=3, bias=True)");
  EXPECT_EQ(layer.parameters().size(), 2U);
  Doubled moved = Doubled(2, 3).eval().to(core::DType::f64);
  EXPECT_FALSE(moved.is_training());
}

/// As people write it first.
struct Unsaid : Linear {
  using Linear::Linear;
  Tensor forward(const Tensor& x) { return x; }
};

TEST(OwnClass, ThatDoesNotSayWhatItDerivesFromIsNotCalledInSilence) {
  Unsaid layer(2, 2);
  const auto call = [&] { layer(core::ones({1, 2})); };
  EXPECT_THAT(message_of(call), HasSubstr("derive it from core::ModuleOf<Unsaid, Linear>"));
  EXPECT_THAT(message_of([&] { layer.call(core::ones({1, 2})); }), HasSubstr("'Unsaid' derives from Linear"));
}

TEST(OwnClass, AConstantModuleIsCalled) {
  const Doubled layer(2, 3);
  EXPECT_EQ(layer(core::ones({1, 2})).sum().item<float>(), 21);
}

/// Which of its members it lists.
struct Lists {
  bool layer = true, drop = true, scale = true;
  bool scale_as_buffer = false;
};
struct Forgetful : core::ModuleOf<Forgetful> {
  Lists lists;
  Linear layer{2, 3};
  core::Dropout drop;
  core::Parameter scale{core::ones({4})};
  core::Parameter nothing;
  explicit Forgetful(const Lists& given) : lists(given) {}
  void members(core::Members& m) override {
    if (lists.layer) m.child("layer", layer);
    if (lists.drop) m.child("drop", drop);
    if (lists.scale_as_buffer) m.buffer("scale", scale);
    if (lists.scale) m.parameter("scale", scale);
  }
};
std::string walked(const Lists& lists) {
  return message_of([&] { Forgetful(lists).parameters(); });
}

TEST(Members, WhatIsForgottenIsAnErrorAtTheFirstWalk) {
  EXPECT_EQ(walked({}), "no error");
  EXPECT_EQ(
      walked({.layer = false}),
      "module 'Forgetful' holds a Linear(in_features=2, out_features=3, bias=True) (number 1 of its modules) that its "
      "members() does not list: add m.child(\"name\", member)");
  EXPECT_THAT(walked({.drop = false}), HasSubstr("holds a Dropout(p=0.5, inplace=False) (number 2 of its modules)"));
  EXPECT_EQ(
      walked({.scale = false}),
      "module 'Forgetful' holds a Parameter of size [4] that its members() does not list: add m.parameter(\"name\", "
      "member)");
  EXPECT_THAT(walked({.scale = false, .scale_as_buffer = true}), HasSubstr("lists the Parameter 'scale' as a buffer"));
  const Forgetful whole({});
  EXPECT_EQ(message_of([&] { Forgetful(whole).clone().parameters(); }), "no error");
}

struct PlainParameter : core::ModuleOf<PlainParameter> {
  Tensor weight;
  explicit PlainParameter(bool wants_grad) : weight(core::ones({2}, {.requires_grad = wants_grad})) {}
  void members(core::Members& m) override { m.parameter("weight", weight); }
};

TEST(Members, APlainTensorIsNoParameterUnlessItIsLearnt) {
  EXPECT_EQ(message_of([] { PlainParameter(true).parameters(); }), "no error");
  EXPECT_THAT(message_of([] { PlainParameter(false).parameters(); }),
              HasSubstr("lists 'weight' as a parameter, but it is a plain tensor that wants no gradient"));
}

TEST(Members, OfALazyLayerStandInTheModuleAroundIt) {
  core::LazyLinear lazy(3);
  EXPECT_EQ(message_of([&] { static_cast<void>(lazy(core::ones({1, 2}))); }), "no error");
  EXPECT_EQ(lazy.parameters().size(), 2U);
}

/// Lists some of what another module has, as torchvision's IntermediateLayerGetter does.
struct Getter : core::ModuleOf<Getter> {
  core::Sequential body{Linear(2, 2), Linear(2, 2)};
  void members(core::Members& m) override { m.child("first", body[0]); }
};

TEST(Members, OfAnotherModuleMayBeListedInPart) {
  Getter getter;
  EXPECT_EQ(getter.state_dict().keys(), (std::vector<std::string>{"first.weight", "first.bias"}));
}

struct Held : core::ModuleOf<Held> {
  Linear layer{2, 2};
  std::shared_ptr<core::Module> any = std::make_shared<core::ReLU>();
  std::shared_ptr<core::ReLU> relu = std::make_shared<core::ReLU>();
  void members(core::Members& m) override { m.child("layer", layer).child("any", any).child("relu", relu); }
  Tensor forward(const Tensor& x) { return any->call(layer(x)); }
};

TEST(Registered, MembersComeBehindThoseOfTheClass) {
  Held held;
  held.register_parameter("gain", core::Parameter(core::ones({2}))).detach().fill_(3);
  held.register_buffer("seen", core::zeros({1}), false);
  held.register_module("head", Linear(2, 1));
  EXPECT_EQ(held.named_parameters().back().first, "head.bias");
  EXPECT_EQ(held.parameter("gain").sum().item<float>(), 6);
  EXPECT_EQ(held.state_dict().keys(),
            (std::vector<std::string>{"gain", "layer.weight", "layer.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(message_of([&] { held.register_buffer("gain", core::ones({1})); }), "attribute 'gain' already exists");
  EXPECT_EQ(message_of([&] { held.register_module("a.b", Linear(1, 1)); }),
            "module name can't contain \".\", got: a.b");
  EXPECT_EQ(held.named_buffers().size(), 1U);  // what was refused is not there

  Held copy = held.clone();
  copy.parameter("gain").detach().zero_();
  EXPECT_EQ(held.parameter("gain").sum().item<float>(), 6);
  EXPECT_NE(&copy.submodule("head"), &held.submodule("head"));
}

TEST(Registered, SetSubmoduleReplacesWhatCanBeReplaced) {
  Held held;
  held.set_submodule("any", core::Tanh());
  EXPECT_EQ(held.any->class_name(), "Tanh");
  held.set_submodule("fresh", core::Sequential{Linear(2, 2), core::ReLU()});
  held.set_submodule("fresh.1", core::Tanh());
  EXPECT_EQ(held.submodule("fresh.1").class_name(), "Tanh");
  EXPECT_THAT(message_of([&] { held.set_submodule("layer", core::Tanh()); }), HasSubstr("is part of the struct"));
  EXPECT_THAT(message_of([&] { held.set_submodule("relu", core::Tanh()); }), HasSubstr("'Tanh' cannot stand there"));
  EXPECT_EQ(held.relu->class_name(), "ReLU");
  EXPECT_EQ(message_of([&] { held.set_submodule("any", std::shared_ptr<core::Module>()); }),
            "`module` is not an nn.Module, found <class 'NoneType'>");
}

TEST(Containers, ModulesAreSetInsertedAndErased) {
  core::Sequential seq{Linear(1, 2), core::ReLU()};
  seq.insert(1, core::Dropout());
  EXPECT_EQ(seq.keys(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(seq[1].class_name(), "Dropout");
  seq.erase(0);
  seq.set(-1, core::Tanh());
  seq.append(core::Sigmoid());
  EXPECT_EQ(seq.str(), "Sequential(\n  (0): Dropout(p=0.5, inplace=False)\n  (1): Tanh()\n  (2): Sigmoid()\n)");
  EXPECT_EQ(message_of([&] { seq.erase(3); }), "index 3 is out of range");
  EXPECT_EQ(message_of([&] { seq.insert(7, core::Tanh()); }), "Index out of range: 7");
}

TEST(Containers, AListOfOneClassIsReadAsItIs) {
  core::ModuleListOf<Linear> layers;
  layers.emplace_back(2, 2);
  layers.push_back(Linear(2, 2, false));
  Tensor x = core::ones({1, 2});
  for (auto& layer : layers) x = layer(x);
  EXPECT_FALSE(layers[-1].bias.defined());
  EXPECT_EQ(layers.str(),
            "ModuleList(\n  (0): Linear(in_features=2, out_features=2, bias=True)\n  (1): Linear(in_features=2, "
            "out_features=2, bias=False)\n)");
  EXPECT_NE(&layers.clone()[0], &layers[0]);
}

TEST(Hooks, OfAModuleWithSeveralResultsSeeThemAll) {
  core::LSTM lstm(2, 3);
  std::vector<std::size_t> counts;
  lstm.register_forward_hook(
      [&](core::Module&, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) -> std::vector<Tensor> {
        counts = {inputs.size(), outputs.size()};
        return {outputs[0] * 2, outputs[1], outputs[2]};
      });
  std::vector<Tensor> seen;
  lstm.register_full_backward_hook([&](core::Module&, const std::vector<Tensor>& in, const std::vector<Tensor>& out) {
    seen = {in[0], out[0], out[1]};
  });
  const Tensor x = core::ones({4, 1, 2}, {.requires_grad = true});
  auto [y, state] = lstm(x);
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 3}));
  y.sum().backward();
  EXPECT_TRUE(seen.at(0).equal(x.grad()));
  EXPECT_EQ(seen.at(1).sizes(), (core::Shape{4, 1, 3}));
  EXPECT_EQ(seen.at(1).sum().item<float>(), 12);  // of the hooked output
  EXPECT_FALSE(seen.at(2).defined());
}

/// Results that are structs: hooks see what is in those that are made of tensors, and leave others alone.
struct Pair {
  core::ValuesIndices top;
  Tensor rest;
};
struct Counted {
  Tensor a, b;
  int count = 3;
};
template <class Result>
struct Gives : core::ModuleOf<Gives<Result>> {
  void members(core::Members&) override {}
  Result forward(const Tensor& x) { return {{x, x + 1}, x + 2}; }
};
template <>
Counted Gives<Counted>::forward(const Tensor& x) {
  return {x, x + 1};
}

TEST(Hooks, SeeTheTensorsOfStructs) {
  Gives<Pair> pair;
  pair.register_forward_hook([](core::Module&, const std::vector<Tensor>&, const std::vector<Tensor>& outputs) {
    return std::vector<Tensor>{outputs.at(2), outputs.at(1), outputs.at(0)};
  });
  const Pair turned = pair(core::ones({1}));
  EXPECT_EQ(turned.top.values.item<float>(), 3);
  EXPECT_EQ(turned.rest.item<float>(), 1);

  Gives<Counted> counted;
  std::size_t seen = 1;
  counted.register_forward_hook(
      [&](core::Module&, const std::vector<Tensor>&, const std::vector<Tensor>& outputs) { seen = outputs.size(); });
  EXPECT_EQ(counted(core::ones({1})).count, 3);
  EXPECT_EQ(seen, 0U);
}

TEST(Hooks, InTheFormForOneTensorRefuseSeveral) {
  core::GRU gru(2, 3);
  gru.register_forward_hook([](core::Module&, const std::vector<Tensor>&, const Tensor&) {});
  EXPECT_THAT(message_of([&] {
                static_cast<void>(gru(core::ones({4, 1, 2})));
              }),
              HasSubstr("a hook of module 'GRU' takes one tensor, and the module gives 2: let it take const "
                        "std::vector<core::Tensor>&"));
}

}  // namespace

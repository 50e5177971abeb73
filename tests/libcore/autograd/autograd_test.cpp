// Hooks, kept gradients, modes, anomaly detection, checkpoints, backward into chosen inputs: as PyTorch 2.15 does it.
#include <gtest/gtest.h>

#include <cmath>

#include "libcore/core.h"
#include "tests/support/message_of.h"

namespace {

using core::Tensor;
using test::message_of;

std::vector<float> values(const Tensor& t) {
  return t.to_vector<float>();
}

Tensor leaf() {
  return core::tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
}

TEST(Hooks, RunInOrderAndPostAccumulateOnesLast) {
  const Tensor x = leaf();
  std::vector<std::string> calls;
  x.register_post_accumulate_grad_hook([&](const Tensor& t) {
    calls.push_back("post");
    EXPECT_EQ(values(t.grad()), (std::vector<float>{2, 2, 2}));
  });
  x.register_hook([&](const Tensor& g) {
    calls.push_back("first");
    return g * 2;
  });
  x.register_hook([&](const Tensor&) {
    calls.push_back("second");
    return Tensor();
  });
  x.sum().backward();
  EXPECT_EQ(calls, (std::vector<std::string>{"first", "second", "post"}));
}

TEST(Hooks, OfPostAccumulationMayFreeTheGradient) {
  const Tensor x = leaf();
  x.register_post_accumulate_grad_hook([](const Tensor& t) { t.set_grad({}); });
  x.sum().backward();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Hooks, CanBeRemoved) {
  const Tensor x = leaf();
  int calls = 0;
  const auto hook = x.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  const auto post = x.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
  x.remove_hook(hook);
  x.remove_hook(post);
  x.sum().backward();
  EXPECT_EQ(calls, 0);
}

TEST(Hooks, OfALeafSeeTheGradientThatGradGives) {
  const Tensor x = leaf();
  int posts = 0;
  x.register_hook([](const Tensor& g) { return g * 2; });
  x.register_post_accumulate_grad_hook([&](const Tensor&) { ++posts; });
  EXPECT_EQ(values(core::grad({(x * 2).sum()}, {x})[0]), (std::vector<float>{4, 4, 4}));
  EXPECT_EQ(posts, 0);
}

TEST(Hooks, WrongUseIsAnError) {
  const auto see = [](const Tensor&) { return Tensor(); };
  const auto after = [](const Tensor&) {};
  EXPECT_EQ(message_of([&] { core::ones({2}).register_hook(see); }),
            "cannot register a hook on a tensor that doesn't require gradient");
  EXPECT_EQ(message_of([&] { core::ones({2}).register_post_accumulate_grad_hook(after); }),
            "cannot register a hook on a tensor that doesn't require gradient");
  EXPECT_EQ(message_of([&] { (leaf() * 2).register_post_accumulate_grad_hook(after); }),
            "post accumulate grad hooks cannot be registered on non-leaf tensors");
  const Tensor y = leaf() * 2;
  y.register_hook([](const Tensor&) { return core::ones({5}); });
  EXPECT_EQ(message_of([&] { y.sum().backward(); }), "hook 'c++ hook' has changed the size of value");
}

TEST(RetainGrad, SeesWhatHooksMadeOfIt) {
  const Tensor y = leaf() * 2;
  y.retain_grad();
  y.register_hook([](const Tensor& g) { return g * 10; });
  EXPECT_TRUE(y.retains_grad());
  y.sum().backward();
  EXPECT_EQ(values(y.grad()), (std::vector<float>{10, 10, 10}));
}

TEST(RetainGrad, IsOfTheValuesAfterAChangeInPlace) {
  const Tensor y = leaf() * 2;
  y.retain_grad();
  y.mul_(3);
  y.sum().backward();
  EXPECT_EQ(values(y.grad()), (std::vector<float>{1, 1, 1}));
  EXPECT_FALSE(leaf().retains_grad());
}

TEST(BackwardInputs, OthersGetNoGradient) {
  const Tensor a = leaf(), b = leaf();
  core::backward({(a * b).sum()}, {.inputs = {a}});
  EXPECT_EQ(values(a.grad()), (std::vector<float>{1, 2, 3}));
  EXPECT_FALSE(b.grad().defined());
}

TEST(BackwardInputs, MayBeResults) {
  const Tensor x = leaf();
  const Tensor y = x * 2;
  core::backward({(y * y).sum()}, {.inputs = {y}});
  EXPECT_EQ(values(y.grad()), (std::vector<float>{4, 8, 12}));
  EXPECT_FALSE(x.grad().defined());
  EXPECT_EQ(message_of([&] { core::backward({x.sum()}, {.inputs = {core::ones({2})}}); }),
            "can't retain_grad on Tensor that has requires_grad=False");
}

TEST(Grad, OfTheSameInputTwice) {
  const Tensor x = leaf();
  const auto both = core::grad({x.sum()}, {x, x});
  EXPECT_EQ(values(both[1]), (std::vector<float>{1, 1, 1}));
}

TEST(SetGrad, ChecksDtypeAndSize) {
  const Tensor x = leaf();
  EXPECT_EQ(message_of([&] { x.set_grad(core::ones({3}, {.dtype = core::DType::f64})); }),
            "attempting to assign a gradient with dtype 'double' to a tensor with grad_dtype 'Float'. The gradient "
            "must match the tensor's grad_dtype (defaults to the tensor's dtype). You can set the tensor's grad_dtype "
            "attribute with a specific dtype, or None to allow any dtype. Set grad_dtype with caution. Diverging the "
            "dtypes of a tensor and its gradient may break downstream systems that assume they match.");
  EXPECT_EQ(message_of([&] { x.set_grad(core::ones({2})); }),
            "attempting to assign a gradient of size '[2]' to a tensor of size '[3]'. Please ensure that the gradient "
            "and the tensor are the same size");
}

TEST(Modes, NestAndEnd) {
  const Tensor x = leaf();
  const core::NoGradGuard off;
  {
    const core::EnableGradGuard on;
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_FALSE((x * 2).requires_grad());
  const core::InferenceModeGuard inference;
  EXPECT_TRUE((x * 2).is_inference());
  const core::InferenceModeGuard ordinary(false);
  EXPECT_FALSE((x * 2).is_inference());
  EXPECT_TRUE((x * 2).requires_grad());
}

TEST(InferenceMode, ItsTensorsAreRefusedOutside) {
  Tensor made;
  {
    const core::InferenceModeGuard inference;
    made = core::ones({3});
    made.add_(1);
  }
  EXPECT_EQ(message_of([&] { made.add_(1); }),
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
            "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.");
  EXPECT_EQ(message_of([&] { made.requires_grad_(); }),
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
  EXPECT_EQ(message_of([&] { made.version(); }), "Inference tensors do not track version counter.");
  EXPECT_TRUE(message_of([&] { leaf() * made; }).starts_with("Inference tensors cannot be saved for backward."));
  EXPECT_TRUE(made[0].is_inference());
  EXPECT_FALSE(made.clone().is_inference());
}

TEST(InferenceMode, ItsViewsOfOrdinaryTensorsAreOrdinary) {
  const Tensor x = leaf();
  Tensor part;
  {
    const core::InferenceModeGuard inference;
    part = x.slice(0, 0, 2);
  }
  EXPECT_FALSE(part.is_inference());
  EXPECT_EQ(message_of([&] { part.add_(1); }),
            "A view was created in inference mode and is being modified inplace in normal mode. Given that this use "
            "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and "
            "the inplace either both inside the inference_mode block (if you don't want the inplace to be tracked) or "
            "both outside (if you want the inplace to be tracked).");
}

TEST(Deepcopy, OwnsMemoryAndGradient) {
  const Tensor x = leaf();
  x.sum().backward();
  const Tensor copy = x.deepcopy();
  EXPECT_TRUE(copy.requires_grad());
  x.grad().zero_();
  EXPECT_EQ(values(copy.grad()), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(message_of([&] { (x * 2).deepcopy(); }),
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001");
}

TEST(Graph, NamesAndEdges) {
  const Tensor x = leaf();
  const Tensor y = x * core::ones({3}) + 1;
  const auto& node = y.grad_fn();
  EXPECT_EQ(node->name(), "AddBackward0");
  EXPECT_EQ(node->next_edges()[0].node->name(), "MulBackward0");
  const auto& product = node->next_edges()[0].node->next_edges();
  EXPECT_EQ(product[0].node->name(), "torch::autograd::AccumulateGrad");
  EXPECT_EQ(product[1].node.get(), nullptr);
}

/// Collects warnings meanwhile.
class Warnings {
 public:
  Warnings() : previous_(core::set_warning_handler([this](const std::string& text) { texts.push_back(text); })) {}
  ~Warnings() { core::set_warning_handler(previous_); }
  std::vector<std::string> texts;

 private:
  core::WarningHandler previous_;
};

TEST(AnomalyMode, NamesTheOperationThatMadeNan) {
  Warnings warnings;
  const Tensor x = core::tensor({-1.0, 0.0}, {.requires_grad = true});
  const core::AnomalyGuard find;
  const Tensor y = x.sqrt();
  EXPECT_EQ(message_of([&] { y.sum().backward(); }), "Function 'SqrtBackward0' returned nan values in its 0th output.");
  ASSERT_EQ(warnings.texts.size(), 2U);
  EXPECT_EQ(warnings.texts[0],
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.");
  EXPECT_TRUE(warnings.texts[1].starts_with(
      "Error detected in SqrtBackward0. Traceback of forward call that caused the error:\n  "));
}

TEST(AnomalyMode, SaysWhenForwardRanOutsideOfIt) {
  Warnings warnings;
  const Tensor x = core::tensor({-1.0, 0.0}, {.requires_grad = true});
  const Tensor y = x.sqrt();
  const core::AnomalyGuard find;
  EXPECT_THROW(y.sum().backward(), core::Error);
  EXPECT_EQ(warnings.texts[1],
            "Error detected in SqrtBackward0. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information.");
}

TEST(AnomalyMode, MayLeaveNanAlone) {
  Warnings warnings;
  const Tensor x = core::tensor({-1.0}, {.requires_grad = true});
  {
    const core::AnomalyGuard find(false);
    x.sqrt().sum().backward();
    EXPECT_FALSE(core::is_anomaly_check_nan_enabled());
  }
  EXPECT_TRUE(std::isnan(x.grad().item<float>()));
  EXPECT_FALSE(core::is_anomaly_enabled());
}

using In = const std::vector<Tensor>&;

TEST(Checkpoint, HasTheOrdinaryGraphAndGradient) {
  const Tensor x = leaf();
  int runs = 0;
  const auto function = [&runs](In in) {
    ++runs;
    return core::exp(in[0] * 2);
  };
  const Tensor y = core::checkpoint(function, {x});
  EXPECT_EQ(y.grad_fn_name(), "ExpBackward0");
  EXPECT_EQ(runs, 1);
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  const auto found = values(x.grad());
  x.set_grad({});
  function({x}).sum().backward();
  EXPECT_EQ(found, values(x.grad()));
}

TEST(Checkpoint, GivesCapturedParametersTheirGradients) {
  const Tensor w = leaf();
  const Tensor y = core::checkpoint([w](In in) { return core::tanh(in[0] * w); }, {core::ones({3})});
  y.sum().backward();
  const auto found = values(w.grad());
  w.set_grad({});
  core::tanh(w).sum().backward();
  EXPECT_EQ(found, values(w.grad()));
}

TEST(Checkpoint, DrawsTheSameRandomNumbersAgain) {
  core::manual_seed(1);
  const Tensor x = core::ones({100}, {.requires_grad = true});
  const Tensor y = core::checkpoint([](In in) { return core::dropout(in[0] * in[0], 0.5) * 1; }, {x});
  const auto next = values(core::rand({2}));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), values(y * 2));
  core::manual_seed(1);
  core::dropout(core::ones({100}), 0.5);
  EXPECT_EQ(next, values(core::rand({2})));
}

TEST(Checkpoint, HasSecondDerivatives) {
  const Tensor x = core::tensor({0.3, -0.7}, {.dtype = core::DType::f64, .requires_grad = true});
  const auto function = [](std::span<const Tensor> in) {
    const auto inner = [](In t) { return core::tanh(t[0]) * t[0]; };
    return core::checkpoint([inner](In t) { return core::exp(core::checkpoint(inner, t) * t[0]); }, {in[0]});
  };
  EXPECT_TRUE(core::gradcheck(function, {x}));
  EXPECT_TRUE(core::gradgradcheck(function, {x}));
}

TEST(Checkpoint, SecondBackwardNeedsARetainedGraph) {
  const Tensor x = leaf();
  const Tensor y = core::checkpoint([](In in) { return core::exp(in[0]); }, {x}).sum();
  y.backward({}, true);
  y.backward();
  EXPECT_TRUE(message_of([&] { y.backward(); }).starts_with("Trying to backward through the graph a second time"));
}

TEST(Checkpoint, FunctionThatChangesIsAnError) {
  int runs = 0;
  const auto fewer = [&runs](In in) { return ++runs == 1 ? core::sin(core::exp(in[0] * 2)) : core::exp(in[0] * 2); };
  EXPECT_EQ(message_of([&] { core::checkpoint(fewer, {leaf() * 1}).sum().backward(); }),
            "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
            "recomputation.\nNumber of tensors saved during forward: 2\nNumber of tensors saved during recomputation: "
            "1.");
  runs = 0;
  const auto smaller = [&runs](In in) { return ++runs == 1 ? core::exp(in[0]) : core::exp(in[0].sum()); };
  EXPECT_EQ(message_of([&] { core::checkpoint(smaller, {core::ones({2}, {.requires_grad = true})}).sum().backward(); }),
            "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
            "the forward pass.\ntensor at position 0:\nsaved metadata: {'shape': torch.Size([2]), 'dtype': "
            "torch.float32, 'device': device(type='cpu')}\nrecomputed metadata: {'shape': torch.Size([]), 'dtype': "
            "torch.float32, 'device': device(type='cpu')}\n.");
}

TEST(Checkpoint, ChangedInputIsAnError) {
  const Tensor input = leaf() * 1;
  const Tensor y = core::checkpoint([](In in) { return core::exp(in[0]); }, {input});
  input.add_(1);
  EXPECT_TRUE(message_of([&] { y.sum().backward(); })
                  .starts_with("one of the variables needed for gradient computation has been modified by an inplace "
                               "operation: [torch.FloatTensor [3]], which is output 0 of Add, is at version 1; "
                               "expected version 0 instead."));
}

TEST(Casts, GiveGradientsInTheDtypeOfTheInput) {
  const Tensor x = core::tensor({1.0, 2.0}, {.dtype = core::DType::f64, .requires_grad = true});
  const Tensor y = x.to(core::DType::f32);
  EXPECT_EQ(y.grad_fn_name(), "ToCopyBackward0");
  (y * 3).sum().backward();
  EXPECT_EQ(x.grad().dtype(), core::DType::f64);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 3}));
}

TEST(NotDifferentiable, OperationsSaySo) {
  const Tensor x = leaf();
  EXPECT_EQ(message_of([&] { core::heaviside(x, x).sum().backward(); }),
            "derivative for aten::heaviside is not implemented");
  EXPECT_EQ(message_of([&] { core::floor_divide(x, x).sum().backward(); }),
            "derivative for aten::floor_divide is not implemented");
}

}  // namespace

// Changes in place: versions, history, and the errors that guard them, with PyTorch 2.15's texts.
#include <gtest/gtest.h>

#include "libcore/autograd/grad_mode.h"
#include "libcore/module/init.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/index.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "tests/support/message_of.h"

namespace {

using core::DType;
using core::Tensor;
using test::message_of;

Tensor leaf() {
  return core::tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
}

const std::string kSeveralViews =
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should replace the inplace operation by an out-of-place one.";

TEST(InPlace, OneOfSeveralViewsIsRefused) {
  const Tensor y = leaf() * 2;
  EXPECT_EQ(message_of([&] { y.unbind()[0].add_(1); }),
            "Output 0 of Unbind is a view and is being modified inplace. " + kSeveralViews);
  EXPECT_EQ(message_of([&] {
              y.split(core::Shape{1, 2})[0].mul_(1);
            }),
            "Output 0 of SplitWithSizes is a view and is being modified inplace. " + kSeveralViews);
  EXPECT_EQ(message_of([&] { y.chunk(3)[1].mul_(2); }),
            "Output 1 of Split is a view and is being modified inplace. " + kSeveralViews);
  EXPECT_EQ(message_of([] { core::ones({3}).split(1)[0].add_(1); }), "no error");
}

TEST(InPlace, ViewMadeWithoutHistoryIsRefused) {
  const std::string text =
      "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use "
      "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
      "inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if "
      "you want the inplace to be tracked).";
  const Tensor y = leaf() * 2, plain = core::ones({3});
  Tensor part, of_plain;
  {
    const core::NoGradGuard off;
    part = y.slice(0, 0, 2);
    of_plain = plain.slice(0, 0, 2);
  }
  EXPECT_EQ(message_of([&] { part.mul_(2); }), text);
  EXPECT_EQ(message_of([&] { of_plain.mul_(2); }), "no error");
  EXPECT_EQ(message_of([&] { of_plain.add_(leaf().slice(0, 0, 2)); }), text);
  const core::NoGradGuard off;
  EXPECT_EQ(message_of([&] { part.mul_(2); }), "no error");
}

TEST(InPlace, MemoryThatStandsForSeveralElementsIsRefused) {
  const std::string text =
      "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
      "Please "
      "clone() the tensor before performing the operation.";
  EXPECT_EQ(message_of([] { core::ones({3}).expand({2, 3}).add_(1); }), text);
  EXPECT_EQ(message_of([] { core::ones({3}).expand({2, 3}).copy_(core::ones({2, 3})); }), text);
}

TEST(InPlace, PartlyOverlappingOperandIsRefused) {
  const std::string text =
      "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
      "location. Please clone() the tensor before performing the operation.";
  const Tensor x = core::ones({4});
  EXPECT_EQ(message_of([&] { x.slice(0, 1).add_(x.slice(0, 0, 3)); }), text);
  EXPECT_EQ(message_of([&] { x.slice(0, 1).copy_(x.slice(0, 0, 3)); }), text);
  EXPECT_EQ(message_of([&] { core::pow_(x.slice(0, 1), x.slice(0, 0, 3)); }), text);
  EXPECT_EQ(message_of([&] { x.mul_(x); }), "no error");
}

TEST(InPlace, ResultMustFitShapeAndDtype) {
  const Tensor whole = core::ones({3}, {.dtype = DType::i64});
  EXPECT_EQ(message_of([] {
              core::ones({3}).add_(core::ones({2, 3}));
            }),
            "output with shape [3] doesn't match the broadcast shape [2, 3]");
  EXPECT_EQ(message_of([] {
              (leaf() * 1).add_(core::ones({2, 3}));
            }),
            "output with shape [3] doesn't match the broadcast shape [2, 3]");
  EXPECT_EQ(message_of([] {
              core::hypot_(core::ones({3}), core::ones({2, 3}));
            }),
            "output with shape [3] doesn't match the broadcast shape [2, 3]");
  EXPECT_EQ(message_of([&] { whole.add_(1.5); }), "result type Float can't be cast to the desired output type Long");
  EXPECT_EQ(message_of([&] { whole.div_(2); }), "result type Float can't be cast to the desired output type Long");
  EXPECT_EQ(message_of([&] { whole.exp_(); }), "result type Float can't be cast to the desired output type Long");
  EXPECT_EQ(message_of([&] { core::sin_(whole); }), "result type Float can't be cast to the desired output type Long");
  EXPECT_EQ(message_of([&] { core::atan2_(whole, whole); }),
            "result type Float can't be cast to the desired output type Long");
  EXPECT_EQ(message_of([] { core::ones({3}, {.dtype = DType::boolean}).add_(2); }),
            "result type Long can't be cast to the desired output type Bool");
}

/// One change in place each, of a tensor of three elements.
std::vector<std::function<void(const Tensor&)>> all_changes() {
  const Tensor other = core::full({3}, 0.5), index = core::tensor({0, 1, 2});
  const Tensor mask = core::tensor({true, false, true});
  return {[=](const Tensor& x) { x.copy_(other); },
          [](const Tensor& x) { x.fill_(2); },
          [](const Tensor& x) { x.zero_(); },
          [=](const Tensor& x) { x.add_(other); },
          [](const Tensor& x) { x.add_(1); },
          [=](const Tensor& x) { x.sub_(other); },
          [](const Tensor& x) { x.sub_(1); },
          [=](const Tensor& x) { x.mul_(other); },
          [](const Tensor& x) { x.mul_(2); },
          [=](const Tensor& x) { x.div_(other); },
          [](const Tensor& x) { x.div_(2); },
          [=](const Tensor& x) { x.addcmul_(other, other); },
          [=](const Tensor& x) { x.addcdiv_(other, other); },
          [=](const Tensor& x) { x.lerp_(other, 0.5); },
          [](const Tensor& x) { x.clamp_(0, 1); },
          [=](const Tensor& x) { x.masked_fill_(mask, 3); },
          [](const Tensor& x) { x.pow_(2); },
          [=](const Tensor& x) { x.index_add_(0, index, other); },
          [=](const Tensor& x) { x.scatter_(0, index, other); },
          [=](const Tensor& x) { x.scatter_(0, index, 1); },
          [=](const Tensor& x) { x.scatter_add_(0, index, other); },
          [](const Tensor& x) { x.abs_(); },
          [](const Tensor& x) { x.exp_(); },
          [](const Tensor& x) { x.neg_(); },
          [](const Tensor& x) { x.relu_(); },
          [](const Tensor& x) { x.sigmoid_(); },
          [](const Tensor& x) { x.sqrt_(); },
          [](const Tensor& x) { x.tanh_(); },
          [](const Tensor& x) { core::floor_(x); },
          [](const Tensor& x) { core::asinh_(x); },
          [=](const Tensor& x) { core::pow_(x, other); },
          [=](const Tensor& x) { core::eq_(x, other); },
          [](const Tensor& x) { core::cumsum_(x, 0); },
          [](const Tensor& x) { core::elu_(x); },
          [=](const Tensor& x) { core::index_fill_(x, 0, index, 1); },
          [=](const Tensor& x) { core::index_copy_(x, 0, index, other); },
          [=](const Tensor& x) { core::index_put_(x, {index}, other); },
          [=](const Tensor& x) { core::masked_scatter_(x, mask, other); },
          [=](const Tensor& x) { core::put_(x, index, other); },
          [=](const Tensor& x) { core::scatter_reduce_(x, 0, index, other, "amax"); },
          [](const Tensor& x) { core::dropout_(x, 0.5, true); },
          [](const Tensor& x) { core::normal_(x); },
          [](const Tensor& x) { core::uniform_(x); }};
}

TEST(InPlace, EachCountsOnceAndLeavesAreRefused) {
  int number = 0;
  for (const auto& change : all_changes()) {
    const Tensor plain = core::full({3}, 0.25);
    change(plain);
    EXPECT_EQ(plain.version(), 1U) << "change " << number;
    EXPECT_EQ(message_of([&] { change(leaf()); }),
              "a leaf Variable that requires grad is being used in an in-place operation.")
        << "change " << number;
    const Tensor kept = leaf() * 0.25, used = core::sin(kept);
    change(kept);
    EXPECT_TRUE(message_of([&] { used.sum().backward(); })
                    .starts_with("one of the variables needed for gradient computation has been modified by an inplace "
                                 "operation: [torch.FloatTensor [3]], which is output 0 of "))
        << "change " << number;
    ++number;
  }
}

TEST(InPlace, WrittenThroughBracketsCountsAndNamesCopySlices) {
  const Tensor y = leaf() * 2, used = core::sin(y);
  core::index_put_(y, {0}, 5);
  EXPECT_EQ(y.version(), 1U);
  EXPECT_TRUE(message_of([&] { used.sum().backward(); })
                  .starts_with("one of the variables needed for gradient computation has been modified by an inplace "
                               "operation: [torch.FloatTensor [3]], which is output 0 of torch::autograd::CopySlices, "
                               "is at version 1; expected version 0 instead."));
}

TEST(InPlace, ThroughTheDataAliasIsNotCounted) {
  const Tensor x = leaf();
  const Tensor y = x * 2, used = core::sin(y);
  y.data_alias().fill_(5);
  EXPECT_EQ(y.version(), 0U);
  EXPECT_NO_THROW(used.sum().backward());
}

TEST(InPlace, PlainTensorTakesHistoryFromItsOperand) {
  const Tensor x = leaf();
  const Tensor base = core::ones({3});
  const Tensor part = base.slice(0, 0, 2);
  part.add_(x.slice(0, 0, 2));
  EXPECT_EQ(base.grad_fn_name(), "CopySlices");
  EXPECT_EQ(part.grad_fn_name(), "AsStridedBackward0");
  (base * base).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4, 6, 0}));
}

TEST(InPlace, DetachOfAViewIsRefused) {
  EXPECT_TRUE(message_of([] {
                Tensor part = (leaf() * 2).slice(0, 0, 1);
                part.detach_();
              }).starts_with("Can't detach views in-place. Use detach() instead."));
}

}  // namespace

// Memory formats: strides and answers of PyTorch 2.15.
#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "libcore/module/conv.h"
#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::MemoryFormat;
using core::Shape;
using core::Tensor;
using test::message_of;

TEST(MemoryFormat, ChannelsLastPutsChannelsInnermost) {
  const Tensor x = core::arange(120.0).view({2, 3, 4, 5});
  const Tensor y = x.contiguous(MemoryFormat::channels_last);
  EXPECT_EQ(y.strides(), Shape({60, 1, 15, 3}));
  EXPECT_FALSE(y.is_contiguous());
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
  EXPECT_TRUE(y.equal(x));
  EXPECT_TRUE(y.contiguous(MemoryFormat::channels_last).is_same(y));
  EXPECT_EQ(y.contiguous().strides(), x.strides());
}

TEST(MemoryFormat, ElementwiseOperationsKeepIt) {
  const Tensor y = core::ones({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last);
  EXPECT_EQ((y + 1).strides(), y.strides());
  EXPECT_EQ(y.relu().strides(), y.strides());
  EXPECT_EQ(y.clone().strides(), y.strides());
  EXPECT_EQ(y.to(core::DType::f64).strides(), y.strides());
}

TEST(MemoryFormat, OfVolumes) {
  const Tensor y = core::ones({2, 3, 4, 5, 6}).contiguous(MemoryFormat::channels_last_3d);
  EXPECT_EQ(y.strides(), Shape({360, 1, 90, 18, 3}));
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last_3d));
  EXPECT_FALSE(y.is_contiguous(MemoryFormat::channels_last));
}

TEST(MemoryFormat, SizesOfOneFitBoth) {
  EXPECT_TRUE(core::ones({2, 1, 4, 5}).is_contiguous(MemoryFormat::channels_last));
  EXPECT_TRUE(core::ones({2, 3, 1, 1}).is_contiguous(MemoryFormat::channels_last));
  EXPECT_FALSE(core::ones({2, 3}).is_contiguous(MemoryFormat::channels_last));
  EXPECT_EQ(core::ones({2, 1, 4, 5}).contiguous(MemoryFormat::channels_last).strides(), Shape({20, 20, 5, 1}));
}

// As model.to(memory_format=torch.channels_last): the strides of sizes 1 are those of the format too.
TEST(MemoryFormat, ToSetsTheStridesOfSizesOfOne) {
  const Tensor points = core::ones({8, 4, 1, 1}), gray = core::ones({2, 1, 4, 5});
  EXPECT_EQ(points.to(MemoryFormat::channels_last).strides(), Shape({4, 1, 4, 4}));
  EXPECT_EQ(points.contiguous(MemoryFormat::channels_last).strides(), Shape({4, 1, 1, 1}));
  EXPECT_EQ(points.to(MemoryFormat::channels_last).to(MemoryFormat::contiguous).strides(), points.strides());
  EXPECT_EQ(gray.to(MemoryFormat::channels_last).strides(), Shape({20, 1, 5, 1}));
}

struct Suggested {
  Shape sizes, strides;
  bool is_last;
};
/// What torch._prims_common.suggest_memory_format and the strides of max_pool2d(x, 1) say in PyTorch 2.15.
const Suggested kSuggested[] = {
    {{2, 3, 4, 5}, {60, 20, 5, 1}, false},
    {{2, 3, 4, 5}, {60, 1, 15, 3}, true},
    {{2, 1, 4, 5}, {20, 20, 5, 1}, false},
    {{2, 1, 4, 5}, {20, 1, 5, 1}, true},
    {{2, 3, 1, 1}, {3, 1, 1, 1}, false},
    {{2, 3, 1, 1}, {3, 1, 3, 3}, true},
    {{1, 3, 4, 5}, {60, 1, 15, 3}, true},
    {{1, 3, 4, 5}, {1, 1, 15, 3}, false},
    {{2, 3, 4, 5}, {120, 1, 30, 6}, true},
    {{2, 3, 4, 5}, {480, 1, 60, 6}, true},
    {{2, 3, 1, 5}, {15, 1, 15, 3}, true},
    {{2, 3, 1, 5}, {15, 5, 5, 1}, false},
    {{4, 1, 1, 1}, {1, 1, 1, 1}, false},
    {{4, 1, 1, 1}, {5, 5, 5, 5}, false},
    {{1, 3, 1, 5}, {15, 1, 3, 3}, false},
    {{2, 3, 4, 1}, {12, 1, 3, 3}, true},
    {{2, 3, 4, 1}, {12, 1, 3, 1}, false},
    {{2, 3, 4, 5}, {60, 1, 3, 12}, false},
    {{2, 3, 4, 5}, {0, 0, 0, 0}, false},
    {{2, 3, 4, 5}, {3, 1, 0, 0}, false},
    {{1, 1, 4, 5}, {20, 1, 5, 1}, true},
    {{1, 1, 4, 5}, {20, 20, 5, 1}, false},
    {{2, 3}, {1, 2}, false},
    {{0, 3, 4, 5}, {60, 1, 15, 3}, false},
};

TEST(MemoryFormat, SuggestedIsPyTorchs) {
  const Tensor all = core::zeros({2000});
  for (const Suggested& s : kSuggested) {
    const Tensor x = core::raw::view(all, s.sizes, s.strides, 0);
    EXPECT_EQ(core::raw::suggested_format(x), s.is_last ? MemoryFormat::channels_last : MemoryFormat::contiguous)
        << testing::PrintToString(std::vector<std::int64_t>(s.strides.begin(), s.strides.end()));
  }
}

TEST(MemoryFormat, HasHistory) {
  const Tensor x = core::ones({2, 3, 4, 5}, {.requires_grad = true});
  EXPECT_EQ(x.contiguous(MemoryFormat::channels_last).grad_fn_name(), "CloneBackward0");
  EXPECT_EQ(x.clone(MemoryFormat::channels_last).grad_fn_name(), "CloneBackward0");
  EXPECT_EQ(x.to(MemoryFormat::channels_last).grad_fn_name(), "ToCopyBackward0");
  x.to(MemoryFormat::channels_last).sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

TEST(MemoryFormat, ToAndClone) {
  const Shape last{60, 1, 15, 3}, rows{60, 20, 5, 1};
  const Tensor x = core::arange(120.0).view({2, 3, 4, 5}), y = x.to(MemoryFormat::channels_last);
  EXPECT_EQ(y.strides(), last);
  EXPECT_TRUE(y.equal(x));
  EXPECT_TRUE(y.to(MemoryFormat::channels_last).is_same(y));
  EXPECT_TRUE(y.to(MemoryFormat::preserve).is_same(y));
  EXPECT_EQ(y.to(MemoryFormat::contiguous).strides(), rows);
  EXPECT_EQ(x.to({.dtype = core::DType::f64, .memory_format = MemoryFormat::channels_last}).strides(), last);
  EXPECT_EQ(y.to({.copy = true}).strides(), last);
  EXPECT_EQ(x.clone(MemoryFormat::channels_last).strides(), last);
  EXPECT_TRUE(x.clone(MemoryFormat::channels_last).equal(x));
  EXPECT_EQ(y.clone(MemoryFormat::contiguous).strides(), rows);
  EXPECT_EQ(y.clone(MemoryFormat::preserve).strides(), last);
}

TEST(MemoryFormat, Factories) {
  const Shape last{60, 1, 15, 3}, rows{60, 20, 5, 1};
  EXPECT_EQ(core::empty({2, 3, 4, 5}, {.memory_format = MemoryFormat::channels_last}).strides(), last);
  const Tensor x = core::ones({2, 3, 4, 5}), y = x.to(MemoryFormat::channels_last);
  EXPECT_EQ(core::empty_like(x, {.memory_format = MemoryFormat::channels_last}).strides(), last);
  EXPECT_EQ(core::zeros_like(y).strides(), last);
  EXPECT_EQ(core::ones_like(y, {.memory_format = MemoryFormat::contiguous}).strides(), rows);
  EXPECT_EQ(core::full_like(y, 3, {.memory_format = MemoryFormat::preserve}).strides(), last);
  EXPECT_EQ(message_of([] {
              core::empty({2, 3, 4, 5}, {.memory_format = MemoryFormat::preserve});
            }),
            "unsupported memory format Preserve");
}

TEST(MemoryFormat, OfAModule) {
  core::Sequential net(core::Conv2d(3, 4, 2), core::Linear(2, 2));
  const Tensor x = core::randn({1, 3, 3, 3}), before = net(x);
  net.to(MemoryFormat::channels_last);
  EXPECT_EQ(net.parameter("0.weight").strides(), Shape({12, 1, 6, 3}));
  EXPECT_EQ(net.parameter("1.weight").strides(), Shape({2, 1}));
  EXPECT_TRUE(core::allclose(net(x.to(MemoryFormat::channels_last)), before));
  net(x).sum().backward();
  core::SGD optimizer(net.parameters(), {.lr = 0.1});
  optimizer.step();
  EXPECT_EQ(net.parameter("0.weight").strides(), Shape({12, 1, 6, 3}));
}

TEST(MemoryFormat, Text) {
  std::ostringstream text;
  text << MemoryFormat::channels_last << ' ' << MemoryFormat::contiguous << ' ' << MemoryFormat::preserve << ' '
       << MemoryFormat::channels_last_3d;
  EXPECT_EQ(text.str(), "torch.channels_last torch.contiguous_format torch.preserve_format torch.channels_last_3d");
}

TEST(MemoryFormat, WrongRankIsAnError) {
  EXPECT_EQ(message_of([] {
              core::ones({2, 3}).contiguous(MemoryFormat::channels_last);
            }),
            "required rank 4 tensor to use channels_last format");
  EXPECT_EQ(message_of([] {
              core::ones({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last_3d);
            }),
            "required rank 5 tensor to use channels_last_3d format");
}

}  // namespace

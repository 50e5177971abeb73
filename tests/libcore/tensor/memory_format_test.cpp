// Memory formats: strides and answers of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/core.h"
#include "tests/libcore/tensor/op_test.h"

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

TEST(MemoryFormat, HasHistory) {
  const Tensor x = core::ones({2, 3, 4, 5}, {.requires_grad = true});
  EXPECT_EQ(x.contiguous(MemoryFormat::channels_last).grad_fn_name(), "CloneBackward0");
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

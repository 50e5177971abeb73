#include "libcore/base/shape.h"

#include <gtest/gtest.h>

#include <sstream>

#include "libcore/base/checked_math.h"

namespace {

using core::Shape;

TEST(Shape, PrintsAsTorchSize) {
  std::ostringstream out;
  out << Shape{30, 5} << Shape{} << Shape{7};
  EXPECT_EQ(out.str(), "torch.Size([30, 5])torch.Size([])torch.Size([7])");
}

TEST(Shape, GrowsPastItsInlineRoomAndCopies) {
  Shape shape;
  for (int i = 0; i < 20; ++i) shape.push_back(i);
  Shape copy = shape;
  Shape moved = std::move(shape);
  EXPECT_EQ(copy, moved);
  EXPECT_EQ(copy.size(), 20U);
  EXPECT_EQ(copy[19], 19);
  copy = Shape{1, 2};
  EXPECT_EQ(copy.numel(), 2);
}

TEST(Shape, InsertAndErase) {
  Shape shape{1, 3};
  shape.insert(1, 2);
  EXPECT_EQ(shape, (Shape{1, 2, 3}));
  shape.erase(0);
  EXPECT_EQ(shape, (Shape{2, 3}));
}

TEST(Shape, NumelOfFileSizesIsChecked) {
  std::int64_t overflow[] = {INT64_MAX, 4};
  std::int64_t hidden[] = {0, INT64_MAX, 4};
  std::int64_t negative[] = {2, -1};
  EXPECT_EQ(core::try_numel(overflow), std::nullopt);
  EXPECT_EQ(core::try_numel(hidden), std::nullopt);
  EXPECT_EQ(core::try_numel(negative), std::nullopt);
  EXPECT_EQ(core::try_numel(Shape{3, 0, 2}.span()), 0U);
}

TEST(Shape, ContiguousStridesTreatZeroAsOne) {
  EXPECT_EQ(core::contiguous_strides({2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(core::contiguous_strides({0, 4}), (Shape{4, 1}));
  EXPECT_EQ(core::contiguous_strides({2, 0, 4}), (Shape{4, 4, 1}));
}

TEST(CheckedMath, SaysWhenItOverflows) {
  EXPECT_EQ(core::try_add<std::uint64_t>(UINT64_MAX, 1), std::nullopt);
  EXPECT_THROW(core::checked_mul<std::uint64_t>(UINT64_MAX, 2), core::Error);
  EXPECT_EQ(core::align_up(65, 64), 128U);
  EXPECT_EQ(core::align_up(64, 64), 64U);
}

}  // namespace

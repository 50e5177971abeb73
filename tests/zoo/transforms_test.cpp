// Transforms as a user types them, and wrong arguments. Expected texts are torchvision's.
#include "zoo/data/transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/warning.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/support/message_of.h"

namespace {

namespace tv = zoo::transforms;
namespace functional = tv::functional;
using core::Shape;
using core::Tensor;
using test::message_of;

Tensor image(std::int64_t channels = 3) {
  return core::ones({channels, 6, 5}, {.dtype = core::DType::u8});
}

TEST(Transforms, TakeOneNumberPlainOrInBraces) {
  EXPECT_EQ(tv::Resize(10)(image()).sizes(), (Shape{3, 12, 10}));
  EXPECT_EQ(tv::Resize({10})(image()).sizes(), (Shape{3, 12, 10}));
  EXPECT_EQ(tv::CenterCrop({4})(image()).sizes(), (Shape{3, 4, 4}));
  EXPECT_EQ(tv::RandomCrop({4})(image()).sizes(), (Shape{3, 4, 4}));
  EXPECT_EQ(tv::RandomResizedCrop({4})(image()).sizes(), (Shape{3, 4, 4}));
  EXPECT_EQ(tv::Pad({2})(image()).sizes(), (Shape{3, 10, 9}));
  EXPECT_EQ(tv::RandomErasing(1)(image()).sizes(), (Shape{3, 6, 5}));
  EXPECT_EQ(tv::GaussianBlur({3})(image()).sizes(), (Shape{3, 6, 5}));
}

TEST(Transforms, RefuseSizesWithoutPixels) {
  EXPECT_EQ(message_of([] {
              tv::Resize({0, 3})(image());
            }),
            "Input and output sizes should be greater than 0, but got input (H: 6, W: 5) output (H: 0, W: 3)");
  EXPECT_EQ(message_of([] {
              tv::Resize({-2})(core::rand({3, 6, 5}));
            }),
            "Input and output sizes should be greater than 0, but got input (H: 6, W: 5) output (H: -2, W: -2)");
  EXPECT_EQ(tv::Resize({3, 3})(core::zeros({0, 3, 6, 5})).sizes(), (Shape{0, 3, 3, 3}));
  EXPECT_NE(message_of([] { functional::center_crop(image(), Shape{}); }), "");
  EXPECT_EQ(message_of([] {
              functional::gaussian_blur(image(), {3, 3, 3});
            }),
            "If kernel_size is a sequence its length should be 2. Got 3");
}

TEST(Transforms, RefuseWrongArgumentsWhenTheyAreMade) {
  EXPECT_EQ(message_of([] {
              tv::Pad pad({1, 2, 3});
            }),
            "Padding must be an int or a 1, 2, or 4 element of tuple or list, got [1, 2, 3].");
  EXPECT_EQ(message_of([] { tv::Pad pad({1}, {0}, "wrap"); }),
            "Padding mode should be either constant, edge, reflect or symmetric");
  EXPECT_EQ(message_of([] {
              tv::RandomCrop crop({2, 3}, {.padding = {1, 2, 3}});
            }),
            "Padding must be an int or a 1, 2, or 4 element of tuple or list, got [1, 2, 3].");
  EXPECT_EQ(message_of([] { tv::ColorJitter jitter(0, 0, 0, 0.6); }),
            "hue values should be between (-0.5, 0.5) and increasing, but got [-0.6, 0.6].");
  EXPECT_EQ(message_of([] {
              tv::ColorJitter jitter({.contrast = tv::Range{2, 1}});
            }),
            "contrast values should be between (0, inf) and increasing, but got [2.0, 1.0].");
  EXPECT_EQ(message_of([] {
              tv::GaussianBlur blur({3}, {0, 1});
            }),
            "sigma values should be positive and of the form (min, max). Got [0.0, 1.0]");
  EXPECT_EQ(message_of([] { functional::affine(image(), {.scale = 0}); }), "Argument scale should be positive");
  EXPECT_EQ(message_of([] { tv::Compose nothing({tv::Transform()}); }), "a transform is an empty std::function");
}

TEST(Transforms, TakeOneOrThreeChannelsForGrey) {
  for (const std::int64_t channels : {2, 4}) {
    EXPECT_EQ(message_of([&] { functional::rgb_to_grayscale(image(channels)); }),
              "Input image tensor permitted channel values are 1 or 3, but found " + std::to_string(channels));
  }
}

TEST(Transforms, WarnOfAnOrderOnce) {
  int said = 0;
  const auto before = core::set_warning_handler([&](const std::string&) { ++said; });
  const tv::RandomErasing erase({.p = 0, .scale = {0.3, 0.1}});
  const tv::RandomResizedCrop crop({2, 3}, {.ratio = {2, 1}});
  for (int i = 0; i < 3; ++i) crop(image());
  core::set_warning_handler(before);
  EXPECT_EQ(said, 2);
}

TEST(Transforms, RefuseAnImageOfAnotherLength) {
  zoo::Image wrong = zoo::make_image(2, 2, 3);
  wrong.channels = 4;
  EXPECT_EQ(message_of([&] { tv::ToImage()(wrong); }), "an image of 2 x 2 pixels and 4 channels holds 12 values");
}

}  // namespace

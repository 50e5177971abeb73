#pragma once
// Operations on images, as torchvision.transforms.v2.functional on tensors (..., channels, height, width): u8 from 0 to
// 255, or floats from 0 to 1. Thread safety: pure functions. Errors: Error(value, type) with torchvision's texts.
// Use: core::Tensor small = zoo::transforms::functional::resize(x, {224, 224});

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/tensor.h"
#include "zoo/data/image.h"

namespace zoo::transforms::functional {

/// One number for all channels or one each.
using Fill = std::vector<double>;

/// (channels, height, width), u8.
core::Tensor to_image(const Image& image);
/// `scale`: from the range of one type to that of the other. Error(runtime) where that is not safe, as from f32 to i32.
core::Tensor to_dtype(const core::Tensor& image, core::DType dtype = core::DType::f32, bool scale = false);
/// (x - mean) / std. Error(type) for integers, Error(value) for a deviation of 0.
core::Tensor normalize(const core::Tensor& image, const std::vector<double>& mean, const std::vector<double>& std);

struct ResizeOptions {
  std::string interpolation = "bilinear";     ///< nearest, nearest-exact, bicubic
  std::optional<std::int64_t> max_size = {};  ///< of the longer side, where `size` is the shorter one
  bool antialias = true;
};
/// `size`: {height, width} or {shorter side}. Images of u8 are computed in whole numbers, as PyTorch does with AVX2.
core::Tensor resize(const core::Tensor& image, const core::Shape& size, const ResizeOptions& options = {});
/// What lies outside of the image is 0.
core::Tensor crop(const core::Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
                  std::int64_t width);
core::Tensor center_crop(const core::Tensor& image, const core::Shape& size);
/// `padding`: {all}, {left and right, top and bottom} or {left, top, right, bottom}; mode: constant, edge, reflect,
/// symmetric.
core::Tensor pad(const core::Tensor& image, const core::Shape& padding, const Fill& fill = {0},
                 const std::string& padding_mode = "constant");
core::Tensor horizontal_flip(const core::Tensor& image);
core::Tensor vertical_flip(const core::Tensor& image);

struct RotateOptions {
  std::string interpolation = "nearest";             ///< bilinear
  bool expand = false;                               ///< the result holds all of the turned image
  std::optional<std::array<double, 2>> center = {};  ///< in pixels from the upper left corner; default: the middle
  Fill fill = {0};                                   ///< empty: 0, mixed in at the border
};
/// `angle`: degrees, counter-clockwise.
core::Tensor rotate(const core::Tensor& image, double angle, const RotateOptions& options = {});

struct AffineOptions {
  double angle = 0;                          ///< degrees, clockwise
  std::array<double, 2> translate = {0, 0};  ///< pixels to the right and down
  double scale = 1;
  std::array<double, 2> shear = {0, 0};  ///< degrees
  std::string interpolation = "nearest";
  Fill fill = {0};
  std::optional<std::array<double, 2>> center = {};
};
core::Tensor affine(const core::Tensor& image, const AffineOptions& options);

core::Tensor rgb_to_grayscale(const core::Tensor& image, std::int64_t num_output_channels = 1);
core::Tensor adjust_brightness(const core::Tensor& image, double factor);
core::Tensor adjust_contrast(const core::Tensor& image, double factor);
core::Tensor adjust_saturation(const core::Tensor& image, double factor);
/// `factor`: -0.5 to 0.5, a turn of the circle of colours.
core::Tensor adjust_hue(const core::Tensor& image, double factor);

/// 0: blurred, 1: as it is, 2: twice as sharp.
core::Tensor adjust_sharpness(const core::Tensor& image, double factor);
/// Keeps the `bits` upper bits of each value, 0 to 8.
core::Tensor posterize(const core::Tensor& image, std::int64_t bits);
/// Inverts what is not below the threshold.
core::Tensor solarize(const core::Tensor& image, double threshold);
core::Tensor invert(const core::Tensor& image);
/// The darkest value of each channel becomes 0, the lightest white.
core::Tensor autocontrast(const core::Tensor& image);
/// As many pixels of each level, channel by channel, in u8.
core::Tensor equalize(const core::Tensor& image);

/// `kernel_size`: {x, y} or {both}, odd; `sigma` alike, default 0.15 of the size and 0.35.
core::Tensor gaussian_blur(const core::Tensor& image, const core::Shape& kernel_size,
                           const std::vector<double>& sigma = {});

struct Box {
  std::int64_t top, left, height, width;
};
/// A copy where the box has `value`, which broadcasts to (channels, height, width).
core::Tensor erase(const core::Tensor& image, const Box& box, const core::Tensor& value);

}  // namespace zoo::transforms::functional

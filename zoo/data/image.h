#pragma once
// Image: 8-bit pixels, and what a model's preprocessing does to them: colours, size, the middle. Results are those of
// Pillow 13 on the same pixels, to the bit. Thread safety: pure functions; Image is a plain value.
// Use: zoo::Image small = zoo::resize(image, {.width = 224, .height = 224});

#include <cstdint>
#include <vector>

namespace zoo {

/// Rows from the top, pixels from the left, channels of a pixel side by side.
struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 3;  ///< 1: grey; 3: red, green, blue
  std::vector<std::uint8_t> pixels = {};

  const std::uint8_t* row(std::int64_t y) const { return pixels.data() + y * width * channels; }
  std::uint8_t* row(std::int64_t y) { return pixels.data() + y * width * channels; }
};

/// Pixels that a reader of images accepts. More is Error(refused) before memory is taken.
inline constexpr std::int64_t kMaxPixels = 178'956'970;

/// An image of this size, black. Errors: Error(corrupt) for a width or height below 1, Error(refused) past kMaxPixels.
Image make_image(std::int64_t width, std::int64_t height, std::int64_t channels);

/// Grey copies its value to the three colours.
Image to_rgb(const Image& image);
/// 0.299 R + 0.587 G + 0.114 B in fixed point, rounded.
Image to_grey(const Image& image);

enum class Interpolation : std::uint8_t { bilinear, bicubic };

/// Whose results: both multiply whole numbers, PyTorch with weights of 16 bits, which are less exact.
enum class Resampling : std::uint8_t { pillow, torch };

struct ResizeOptions {
  std::int64_t width = 0;
  std::int64_t height = 0;
  Interpolation interpolation = Interpolation::bilinear;
  Resampling resampling = Resampling::pillow;
  bool antialias = true;  ///< false, as PyTorch can: two (bilinear) or four pixels, however much the image shrinks
};

/// Antialiased: the filter grows with the factor by which the image shrinks. Columns first, or rows where Pillow takes
/// them first (more than twice as many rows go as columns), rounded to 8 bits between the two passes.
/// Errors: those of make_image(), for the size and for those between the passes.
/// Source: the resampling of Pillow's Image.resize, bicubic with a = -0.5 (Keys 1981); that of PyTorch's interpolate()
/// for bytes on a CPU with AVX2, bicubic without antialiasing with a = -0.75.
Image resize(const Image& image, const ResizeOptions& options);

/// Width and height when the shorter side becomes `side` and the longer one keeps the ratio, rounded down.
/// Error(refused) past kMaxPixels, which a very long image reaches.
ResizeOptions shorter_side(const Image& image, std::int64_t side);

/// `width` x `height` from the middle; a half pixel goes to the even side. REQUIRES: the image is at least as large.
Image center_crop(const Image& image, std::int64_t width, std::int64_t height);

}  // namespace zoo

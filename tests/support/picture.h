#pragma once
// A picture that any program can draw: test images of any size, and a checksum of pixels.
// Use: zoo::Image image = test::picture(61, 37, 3);

#include <cstdint>
#include <string>

#include "zoo/data/image.h"

namespace test {

/// Pixel (x, y), channel k: (3 x^2 + 5 y^2 + 7 x y + 41 k + 97 ((x / 3 + y / 2) mod 2)) mod 256.
inline zoo::Image picture(std::int64_t width, std::int64_t height, std::int64_t channels) {
  zoo::Image image = zoo::make_image(width, height, channels);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (std::int64_t k = 0; k < channels; ++k) {
        const std::int64_t value = 3 * x * x + 5 * y * y + 7 * x * y + 41 * k + ((x / 3 + y / 2) % 2) * 97;
        image.row(y)[x * channels + k] = static_cast<std::uint8_t>(value % 256);
      }
    }
  }
  return image;
}

/// FNV-1a, 64 bits.
inline std::uint64_t pixel_hash(const zoo::Image& image) {
  std::uint64_t hash = 1469598103934665603U;
  for (std::uint8_t value : image.pixels) hash = (hash ^ value) * 1099511628211U;
  return hash;
}

/// The image as a binary PPM or PGM file.
inline std::string ppm_text(const zoo::Image& image) {
  std::string text = (image.channels == 3 ? "P6\n" : "P5\n") + std::to_string(image.width) + " " +
                     std::to_string(image.height) + "\n255\n";
  for (std::uint8_t value : image.pixels) text += static_cast<char>(value);
  return text;
}

}  // namespace test

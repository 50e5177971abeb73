#include "zoo/data/image.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "libcore/base/error.h"

namespace zoo {
namespace {

using core::Error;
using core::ErrorCode;

double triangle(double x) {
  x = std::abs(x);
  return x < 1 ? 1 - x : 0;
}

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

struct Filter {
  double (*weight)(double);
  double support;  ///< half its width
};

Filter filter_of(Interpolation interpolation) {
  return interpolation == Interpolation::bicubic ? Filter{cubic, 2} : Filter{triangle, 1};
}

/// Bits behind the point: 8 are left for the value and 2 for sums above one.
constexpr int kBits = 32 - 8 - 2;

/// Which inputs make one output, and with which weights.
struct Taps {
  std::int64_t first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Taps> taps_of(std::int64_t in, std::int64_t out, const Filter& filter) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(scale, 1.0);
  const double support = filter.support * stretch;
  std::vector<Taps> all(static_cast<std::size_t>(out));
  std::vector<double> weights;
  for (std::int64_t at = 0; at < out; ++at) {
    const double centre = (static_cast<double>(at) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0);
    const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(centre + support + 0.5), in);
    weights.clear();
    double sum = 0;
    for (std::int64_t x = first; x < last; ++x) {
      weights.push_back(filter.weight((static_cast<double>(x) - centre + 0.5) * (1.0 / stretch)));
      sum += weights.back();
    }
    Taps& taps = all[static_cast<std::size_t>(at)];
    taps.first = first;
    for (double weight : weights) {
      const double part = (sum != 0 ? weight / sum : weight) * (1 << kBits);
      taps.weights.push_back(static_cast<std::int32_t>(part < 0 ? part - 0.5 : part + 0.5));
    }
  }
  return all;
}

std::uint8_t clip(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

Image resize_columns(const Image& image, std::int64_t width, const Filter& filter) {
  Image out = make_image(width, image.height, image.channels);
  const std::vector<Taps> taps = taps_of(image.width, width, filter);
  const std::int64_t step = image.channels;
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t* to = out.row(y);
    for (const Taps& tap : taps) {
      for (std::int64_t c = 0; c < step; ++c) {
        const std::uint8_t* from = image.row(y) + tap.first * step + c;
        std::int32_t sum = 1 << (kBits - 1);
        for (std::size_t i = 0; i < tap.weights.size(); ++i, from += step) sum += *from * tap.weights[i];
        *to++ = clip(sum);
      }
    }
  }
  return out;
}

Image resize_rows(const Image& image, std::int64_t height, const Filter& filter) {
  Image out = make_image(image.width, height, image.channels);
  const std::vector<Taps> taps = taps_of(image.height, height, filter);
  const auto length = static_cast<std::size_t>(image.width * image.channels);
  std::vector<std::int32_t> sums(length);
  for (std::int64_t y = 0; y < height; ++y) {
    const Taps& tap = taps[static_cast<std::size_t>(y)];
    std::fill(sums.begin(), sums.end(), 1 << (kBits - 1));
    for (std::size_t i = 0; i < tap.weights.size(); ++i) {
      const std::uint8_t* from = image.row(tap.first + static_cast<std::int64_t>(i));
      for (std::size_t x = 0; x < length; ++x) sums[x] += from[x] * tap.weights[i];
    }
    std::transform(sums.begin(), sums.end(), out.row(y), clip);
  }
  return out;
}

/// Half of an even or odd difference; Python's round(), which torchvision uses, rounds a half to the even side.
std::int64_t half(std::int64_t difference) {
  return difference / 2 + (difference % 4 == 3 ? 1 : 0);
}

}  // namespace

Image make_image(std::int64_t width, std::int64_t height, std::int64_t channels) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (width < 1 || height < 1) throw Error(ErrorCode::corrupt, "an image of " + size + " pixels has no content");
  if (width > kMaxPixels / height) {
    throw Error(ErrorCode::refused,
                "an image of " + size + " pixels; at most " + std::to_string(kMaxPixels) + " are read");
  }
  Image image{width, height, channels, {}};
  image.pixels.resize(static_cast<std::size_t>(width * height * channels));
  return image;
}

Image to_rgb(const Image& image) {
  if (image.channels == 3) return image;
  Image out = make_image(image.width, image.height, 3);
  auto to = out.pixels.begin();
  for (std::uint8_t value : image.pixels) to = std::fill_n(to, 3, value);
  return out;
}

Image to_grey(const Image& image) {
  if (image.channels == 1) return image;
  Image out = make_image(image.width, image.height, 1);
  const std::uint8_t* from = image.pixels.data();
  for (std::uint8_t& value : out.pixels) {
    value = static_cast<std::uint8_t>((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
    from += 3;
  }
  return out;
}

Image resize(const Image& image, const ResizeOptions& options) {
  const Filter filter = filter_of(options.interpolation);
  Image out = options.width == image.width ? image : resize_columns(image, options.width, filter);
  return options.height == out.height ? out : resize_rows(out, options.height, filter);
}

ResizeOptions shorter_side(const Image& image, std::int64_t side) {
  const bool upright = image.width <= image.height;
  const double longer = static_cast<double>(std::max(image.width, image.height));
  const double shorter = static_cast<double>(std::min(image.width, image.height));
  const double length = static_cast<double>(side) * longer / shorter;
  if (length * static_cast<double>(side) > static_cast<double>(kMaxPixels)) {
    throw Error(ErrorCode::refused, "an image of " + std::to_string(image.width) + " x " +
                                        std::to_string(image.height) + " pixels is too narrow to be enlarged to " +
                                        std::to_string(side) + " pixels on its shorter side");
  }
  const auto other = static_cast<std::int64_t>(length);
  return upright ? ResizeOptions{.width = side, .height = other} : ResizeOptions{.width = other, .height = side};
}

Image center_crop(const Image& image, std::int64_t width, std::int64_t height) {
  Image out = make_image(width, height, image.channels);
  const std::int64_t left = half(image.width - width), top = half(image.height - height);
  for (std::int64_t y = 0; y < height; ++y) {
    std::copy_n(image.row(top + y) + left * image.channels, width * image.channels, out.row(y));
  }
  return out;
}

}  // namespace zoo

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

/// For four pixels, whose weights need not become wider.
double narrow_cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

struct Filter {
  double (*weight)(double);
  double support;  ///< half its width
};

Filter filter_of(const ResizeOptions& options) {
  if (options.interpolation == Interpolation::bilinear) return {triangle, 1};
  return {options.antialias ? cubic : narrow_cubic, 2};
}

/// Which inputs make one output, and with which weights.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights = {};
};

/// Pixels from `first` on, with a sum of one.
Taps antialiased_taps(std::int64_t at, double scale, std::int64_t in, const Filter& filter) {
  const double stretch = std::max(scale, 1.0);
  const double support = filter.support * stretch, centre = (static_cast<double>(at) + 0.5) * scale;
  Taps taps{std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0)};
  const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(centre + support + 0.5), in);
  double sum = 0;
  for (std::int64_t x = taps.first; x < last; ++x) {
    taps.weights.push_back(filter.weight((static_cast<double>(x) - centre + 0.5) * (1.0 / stretch)));
    sum += taps.weights.back();
  }
  if (sum != 0) {
    for (double& weight : taps.weights) weight /= sum;
  }
  return taps;
}

/// The nearest pixels alone; those outside count as the one at the border.
Taps nearest_taps(std::int64_t at, double scale, std::int64_t in, const Filter& filter) {
  const auto half = static_cast<std::int64_t>(filter.support);
  double place = scale * (static_cast<double>(at) + 0.5) - 0.5;
  if (half == 1) place = std::max(place, 0.0);
  const auto middle = std::min<std::int64_t>(static_cast<std::int64_t>(std::floor(static_cast<float>(place))), in - 1);
  const double part = std::clamp(place - static_cast<double>(middle), 0.0, 1.0);
  const std::int64_t begin = middle - half + 1, end = std::min(middle + half + 1, in);
  Taps taps{std::max<std::int64_t>(begin, 0)};
  taps.weights.resize(static_cast<std::size_t>(end - taps.first));
  for (std::int64_t j = 0; j < 2 * half; ++j) {
    const std::int64_t pixel = std::clamp(begin + j, taps.first, end - 1);
    taps.weights[static_cast<std::size_t>(pixel - taps.first)] +=
        filter.weight(static_cast<double>(j + 1 - half) - part);
  }
  return taps;
}

/// All outputs of a line, with whole numbers as weights.
struct Line {
  int bits = 0;  ///< behind the point
  std::vector<Taps> taps = {};
  std::vector<std::vector<std::int32_t>> weights = {};
};

/// Pillow: 8 bits are left for the value and 2 for sums above one. PyTorch: as many as the largest weight leaves of 15.
int bits_of(const std::vector<Taps>& taps, Resampling resampling) {
  constexpr int kMost = 32 - 8 - 2;
  if (resampling == Resampling::pillow) return kMost;
  double largest = 0;
  for (const Taps& one : taps) {
    for (const double weight : one.weights) largest = std::max(largest, weight);
  }
  int bits = 0;
  while (bits < kMost && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

Line line_of(std::int64_t in, std::int64_t out, const ResizeOptions& options) {
  const Filter filter = filter_of(options);
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  Line line;
  for (std::int64_t at = 0; at < out; ++at) {
    line.taps.push_back((options.antialias ? antialiased_taps : nearest_taps)(at, scale, in, filter));
  }
  line.bits = bits_of(line.taps, options.resampling);
  for (const Taps& taps : line.taps) {
    std::vector<std::int32_t>& weights = line.weights.emplace_back();
    for (const double weight : taps.weights) {
      const double part = weight * (1 << line.bits);
      weights.push_back(static_cast<std::int32_t>(part < 0 ? part - 0.5 : part + 0.5));
    }
  }
  return line;
}

std::uint8_t clip(std::int32_t sum, int bits) {
  return static_cast<std::uint8_t>(std::clamp(sum >> bits, 0, 255));
}

Image resize_columns(const Image& image, std::int64_t width, const Line& line) {
  Image out = make_image(width, image.height, image.channels);
  const std::int64_t step = image.channels;
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t* to = out.row(y);
    for (std::size_t x = 0; x < line.taps.size(); ++x) {
      for (std::int64_t c = 0; c < step; ++c) {
        const std::uint8_t* from = image.row(y) + line.taps[x].first * step + c;
        std::int32_t sum = 1 << (line.bits - 1);
        for (const std::int32_t weight : line.weights[x]) {
          sum += *from * weight;
          from += step;
        }
        *to++ = clip(sum, line.bits);
      }
    }
  }
  return out;
}

Image resize_rows(const Image& image, std::int64_t height, const Line& line) {
  Image out = make_image(image.width, height, image.channels);
  const auto length = static_cast<std::size_t>(image.width * image.channels);
  std::vector<std::int32_t> sums(length);
  for (std::int64_t y = 0; y < height; ++y) {
    const Taps& taps = line.taps[static_cast<std::size_t>(y)];
    const std::vector<std::int32_t>& weights = line.weights[static_cast<std::size_t>(y)];
    std::fill(sums.begin(), sums.end(), 1 << (line.bits - 1));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::uint8_t* from = image.row(taps.first + static_cast<std::int64_t>(i));
      for (std::size_t x = 0; x < length; ++x) sums[x] += from[x] * weights[i];
    }
    std::transform(sums.begin(), sums.end(), out.row(y), [&](std::int32_t sum) { return clip(sum, line.bits); });
  }
  return out;
}

/// Since Pillow 13, where many rows go: the other pass has less to do then.
bool takes_rows_first(const Image& image, const ResizeOptions& options) {
  const std::int64_t rows = image.height - options.height, columns = image.width - options.width;
  return options.resampling == Resampling::pillow && rows > 0 && rows > 2 * columns;
}

/// Half of an even or odd difference; Python's round(), which torchvision uses, rounds a half to the even side.
std::int64_t half(std::int64_t difference) {
  return difference / 2 + (difference % 4 == 3 ? 1 : 0);
}

/// Errors: those of make_image().
void check_size(std::int64_t width, std::int64_t height) {
  const auto size = [&] { return "an image of " + std::to_string(width) + " x " + std::to_string(height) + " pixels"; };
  if (width < 1 || height < 1) throw Error(ErrorCode::corrupt, size() + " has no content");
  if (width > kMaxPixels / height) {
    throw Error(ErrorCode::refused, size() + "; at most " + std::to_string(kMaxPixels) + " are read");
  }
}

}  // namespace

Image make_image(std::int64_t width, std::int64_t height, std::int64_t channels) {
  check_size(width, height);
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
  check_size(options.width, image.height);  // before there is a weight for each column and row
  check_size(image.width, options.height);
  check_size(options.width, options.height);
  const auto columns = [&](const Image& from) {
    if (options.width == from.width) return from;
    return resize_columns(from, options.width, line_of(from.width, options.width, options));
  };
  const auto rows = [&](const Image& from) {
    if (options.height == from.height) return from;
    return resize_rows(from, options.height, line_of(from.height, options.height, options));
  };
  return takes_rows_first(image, options) ? columns(rows(image)) : rows(columns(image));
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

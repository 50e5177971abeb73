// Levels of images: what becomes of a value looks at it alone, or at how often there are others.
#include <algorithm>
#include <array>
#include <cmath>

#include "libcore/base/error.h"
#include "libcore/ops/bitwise.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "zoo/data/functional_parts.h"

namespace zoo::transforms::functional {

using core::DType;
using core::Error;
using core::ErrorCode;
using core::Tensor;

namespace {

constexpr std::size_t kLevels = 256;

/// As Pillow's ImageOps.equalize: the levels below each one say where it goes.
void equalize_plane(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) {
  std::array<std::int64_t, kLevels> histogram{};
  for (std::int64_t i = 0; i < count; ++i) ++histogram[from[i]];
  const auto last = std::find_if(histogram.rbegin(), histogram.rend(), [](std::int64_t n) { return n != 0; });
  const std::int64_t step = (count - *last) / 255;
  if (step == 0) {
    std::copy_n(from, count, to);
    return;
  }
  std::array<std::uint8_t, kLevels> level{};
  std::int64_t below = 0;
  for (std::size_t k = 1; k < kLevels; ++k) {
    below += histogram[k - 1];
    level[k] = static_cast<std::uint8_t>(std::min<std::int64_t>((below + step / 2) / step, 255));
  }
  for (std::int64_t i = 0; i < count; ++i) to[i] = level[from[i]];
}

}  // namespace

Tensor invert(const Tensor& image) {
  if (core::is_floating(image.dtype())) return 1.0 - image;
  if (image.dtype() == DType::u8) return core::bitwise_not(image);
  const auto all = static_cast<std::int64_t>((std::uint64_t{1} << value_bits(image.dtype())) - 1);
  return core::bitwise_xor(image, core::full({}, all, {.dtype = image.dtype()}));
}

Tensor solarize(const Tensor& image, double threshold) {
  if (threshold > max_value(image.dtype())) {
    throw Error(ErrorCode::type,
                "Threshold should be less or equal the maximum value of the dtype, but got " + number_text(threshold));
  }
  return core::where(image >= threshold, invert(image), image);
}

Tensor posterize(const Tensor& image, std::int64_t bits) {
  if (bits < 0 || bits > 8) {
    throw Error(ErrorCode::type,
                "bits must be a positive integer in the range [0, 8], got " + std::to_string(bits) + " instead.");
  }
  if (core::is_floating(image.dtype())) {
    const auto levels = static_cast<double>(1 << bits);
    return clamped(core::floor(image * levels), levels - 1) * (1.0 / levels);
  }
  const int all = value_bits(image.dtype());
  if (bits >= all) return image;
  const std::int64_t mask = ((std::int64_t{1} << bits) - 1) << (all - bits);
  return core::bitwise_and(image, core::full({}, mask, {.dtype = image.dtype()}));
}

Tensor autocontrast(const Tensor& image) {
  checked_channels(image);
  if (image.numel() == 0) return image;
  const double white = max_value(image.dtype());
  const Tensor values = core::is_floating(image.dtype()) ? image : image.to(DType::f32);
  const Tensor low = core::amin(values, {.dims = {-2, -1}, .keepdim = true});
  const Tensor high = core::amax(values, {.dims = {-2, -1}, .keepdim = true});
  const Tensor flat = high == low;
  const Tensor scale = core::where(flat, core::ones_like(low), (high - low) * (1.0 / white));
  return clamped((values - core::where(flat, core::zeros_like(low), low)) / scale, white).to(image.dtype());
}

Tensor equalize(const Tensor& image) {
  if (image.numel() == 0) return image;
  const Tensor bytes = to_dtype(image, DType::u8, true).contiguous();
  const Tensor out = core::empty(bytes.sizes(), {.dtype = DType::u8});
  const std::int64_t plane = image.size(-2) * image.size(-1);
  const auto* from = static_cast<const std::uint8_t*>(bytes.raw_data());
  auto* to = static_cast<std::uint8_t*>(out.mutable_raw_data());
  for (std::int64_t at = 0; at < bytes.numel(); at += plane) equalize_plane(from + at, to + at, plane);
  return to_dtype(out, image.dtype(), true);
}

Tensor adjust_sharpness(const Tensor& image, double factor) {
  const std::int64_t channels = image.size(-3), height = image.size(-2), width = image.size(-1);
  if (channels != 1 && channels != 3) {
    throw Error(ErrorCode::type, "Input image tensor can have 1 or 3 channels, but found " + std::to_string(channels));
  }
  if (factor < 0) {
    throw Error(ErrorCode::value, "sharpness_factor (" + number_text(factor) + ") is not non-negative.");
  }
  if (image.numel() == 0 || height <= 2 || width <= 2) return image;
  const bool whole = !core::is_floating(image.dtype());
  const DType compute = whole ? DType::f32 : image.dtype();
  const double a = 1.0 / 13.0, b = 5.0 / 13.0;
  const Tensor kernel =
      core::from_values(std::vector<double>{a, a, a, a, b, a, a, a, a}).to(compute).reshape({1, 1, 3, 3});
  const Tensor out = flat_images(image).to(compute).clone();
  Tensor blurred = core::conv2d(out, kernel.expand({channels, 1, 3, 3}), {}, {.groups = channels});
  if (whole) blurred = core::round(blurred);
  const Tensor inside = out.narrow(-2, 1, height - 2).narrow(-1, 1, width - 2);
  inside.copy_(core::add(inside, blurred - inside, 1.0 - factor));
  return like_images(clamped(out, max_value(image.dtype())), image).to(image.dtype());
}

}  // namespace zoo::transforms::functional

// Colours of images, and what looks at their neighbourhood.
#include <cmath>
#include <limits>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/bitwise.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "zoo/data/functional_parts.h"

namespace zoo::transforms::functional {

using core::DType;
using core::Error;
using core::ErrorCode;
using core::Shape;
using core::Tensor;

double max_value(DType dtype) {
  if (core::is_floating(dtype) || core::is_complex(dtype) || dtype == DType::boolean) return 1;
  return static_cast<double>(core::iinfo(dtype).max);
}

std::string number_text(double number) {
  return core::python_float(number);
}

std::string torch_name(DType dtype) {
  return "torch." + std::string(core::name(dtype));
}

std::int64_t checked_channels(const Tensor& image) {
  const std::int64_t channels = image.size(-3);
  if (channels == 1 || channels == 3) return channels;
  throw Error(ErrorCode::type,
              "Input image tensor permitted channel values are 1 or 3, but found " + std::to_string(channels));
}

Tensor clamped(const Tensor& x, double most) {
  return core::clamp(x, 0, most);
}

Tensor flat_images(const Tensor& image) {
  return image.reshape({-1, image.size(-3), image.size(-2), image.size(-1)});
}

Tensor like_images(const Tensor& images, const Tensor& like) {
  Shape sizes;
  for (std::int64_t d = 0; d < like.dim() - 3; ++d) sizes.push_back(like.size(d));
  for (std::int64_t d = 1; d < 4; ++d) sizes.push_back(images.size(d));
  return images.reshape(sizes);
}

namespace {

bool is_float(const Tensor& image) {
  return core::is_floating(image.dtype());
}

void check_factor(double factor, const char* name) {
  if (factor >= 0) return;
  throw Error(ErrorCode::value, std::string(name) + " (" + number_text(factor) + ") is not non-negative.");
}

Tensor in_type(const Tensor& values, const Tensor& image) {
  return values.dtype() == image.dtype() ? values : values.to(image.dtype());
}

/// One channel of floats; whole numbers where the image has them and `floors`.
Tensor grey(const Tensor& image, bool floors) {
  const std::vector<Tensor> rgb = image.unbind(-3);
  Tensor sum = core::add(core::add(rgb[0] * 0.2989, rgb[1], 0.587), rgb[2], 0.114).unsqueeze(-3);
  return floors && !is_float(image) ? core::floor(sum) : sum;
}

Tensor blend(const Tensor& image, const Tensor& other, double ratio) {
  return in_type(clamped(core::add(image * ratio, other, 1.0 - ratio), max_value(image.dtype())), image);
}

/// Hue, saturation and value of floats from 0 to 1.
struct Hsv {
  Tensor h, s, v;
};

Hsv to_hsv(const Tensor& image) {
  const std::vector<Tensor> rgb = image.unbind(-3);
  const core::MinMax ends = core::aminmax(image, -3);
  const Tensor same = ends.max == ends.min, range = ends.max - ends.min, one = core::ones_like(ends.max);
  const Tensor s = range / core::where(same, one, ends.max);
  const Tensor divisor = core::where(same, one, range).unsqueeze(-3);
  const std::vector<Tensor> far = ((ends.max.unsqueeze(-3) - image) / divisor).unbind(-3);
  const Tensor &rc = far[0], &gc = far[1], &bc = far[2];
  const Tensor not_red = ends.max != rgb[0], green = ends.max == rgb[1];
  const Tensor hg = ((rc + 2.0) - bc) * core::logical_and(green, not_red);
  const Tensor hr = (bc - gc) * core::logical_not(not_red);
  const Tensor hb = ((gc + 4.0) - rc) * core::logical_and(not_red, core::logical_not(green));
  const Tensor h = core::fmod((hr + hg + hb) * (1.0 / 6.0) + 1.0, core::full({}, 1.0, {.dtype = image.dtype()}));
  return {h, s, ends.max};
}

Tensor to_rgb(const Hsv& hsv) {
  const Tensor h6 = hsv.h * 6;
  const Tensor whole = core::floor(h6);
  const Tensor sxf = hsv.s * (h6 - whole), rest = 1.0 - hsv.s;
  const Tensor q = clamped((1.0 - sxf) * hsv.v, 1), t = clamped((sxf + rest) * hsv.v, 1), p = clamped(rest * hsv.v, 1);
  const Tensor sector = core::remainder(whole.to(DType::i64), core::full({}, 6, {.dtype = DType::i64}));
  const Tensor vpqt = core::stack({hsv.v, p, q, t}, -3);
  const std::vector<std::int64_t> picks = {0, 2, 1, 1, 3, 0, 3, 0, 0, 2, 1, 1, 1, 1, 3, 0, 0, 2};
  std::vector<Tensor> channels;
  for (const Tensor& row : core::from_values(picks).reshape({3, 6}).unbind(0)) {
    const Tensor pick = core::index_select(row, 0, sector.flatten()).reshape(sector.sizes());
    channels.push_back(core::gather(vpqt, -3, pick.unsqueeze(-3)));
  }
  return core::cat(channels, -3);
}

Tensor bell(std::int64_t size, double sigma, DType dtype) {
  const double limit = static_cast<double>(size - 1) / (2.0 * std::sqrt(2.0));
  const Tensor x = core::linspace(-limit, limit, size, {.dtype = dtype});
  return core::softmax(core::neg(core::square(x / sigma)), 0);
}

}  // namespace

Tensor rgb_to_grayscale(const Tensor& image, std::int64_t channels) {
  if (channels != 1 && channels != 3) {
    throw Error(ErrorCode::value, "num_output_channels must be 1 or 3, got " + std::to_string(channels) + ".");
  }
  if (image.size(-3) == 1) {
    if (channels == 1) return image.clone();
    Shape times(static_cast<std::size_t>(image.dim()), 1);
    times[times.size() - 3] = 3;
    return image.repeat(times);
  }
  checked_channels(image);
  const Tensor one = in_type(grey(image, false), image);
  return channels == 1 ? one : one.expand(image.sizes());
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  check_factor(factor, "brightness_factor");
  checked_channels(image);
  return in_type(clamped(image * factor, max_value(image.dtype())), image);
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  check_factor(factor, "contrast_factor");
  const bool coloured = checked_channels(image) == 3;
  const Tensor one = coloured ? grey(image, true) : is_float(image) ? image : image.to(DType::f32);
  return blend(image, core::mean(one, {.dims = {-3, -2, -1}, .keepdim = true}), factor);
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  check_factor(factor, "saturation_factor");
  return checked_channels(image) == 1 ? image : blend(image, grey(image, true), factor);
}

Tensor adjust_hue(const Tensor& image, double factor) {
  if (!(factor >= -0.5 && factor <= 0.5)) {
    throw Error(ErrorCode::value, "hue_factor (" + number_text(factor) + ") is not in [-0.5, 0.5].");
  }
  if (checked_channels(image) == 1 || image.numel() == 0) return image;
  Hsv hsv = to_hsv(to_dtype(image, DType::f32, true));
  hsv.h = core::remainder(hsv.h + factor, core::full({}, 1.0, {.dtype = DType::f32}));
  return to_dtype(to_rgb(hsv), image.dtype(), true);
}

Tensor gaussian_blur(const Tensor& image, const Shape& kernel_size, const std::vector<double>& sigma) {
  const auto [x, y] = one_or_two(kernel_size, "kernel_size");
  if (x % 2 != 1 || y % 2 != 1 || x < 0 || y < 0) {
    throw Error(ErrorCode::value, "kernel_size should have odd and positive integers. Got " + core::to_list({x, y}));
  }
  if (sigma.size() > 2) {
    throw Error(ErrorCode::value,
                "If sigma is a sequence, its length should be 2. Got " + std::to_string(sigma.size()));
  }
  const auto usual = [](std::int64_t size) { return static_cast<double>(size) * 0.15 + 0.35; };
  const double sigma_x = sigma.empty() ? usual(x) : sigma[0], sigma_y = sigma.empty() ? usual(y) : sigma.back();
  if (sigma_x <= 0 || sigma_y <= 0) throw Error(ErrorCode::value, "sigma should have positive values.");
  if (image.numel() == 0) return image;
  const DType compute = is_float(image) ? image.dtype() : DType::f32;
  const std::int64_t channels = image.size(-3);
  const Tensor kernel =
      (bell(y, sigma_y, compute).unsqueeze(-1) * bell(x, sigma_x, compute)).expand({channels, 1, y, x});
  const Tensor whole =
      core::pad(flat_images(image).to(compute), {x / 2, x / 2, y / 2, y / 2}, core::PaddingMode::reflect);
  const Tensor out = like_images(core::conv2d(whole, kernel, {}, {.groups = channels}), image);
  return is_float(image) ? out : core::round(out).to(image.dtype());
}

}  // namespace zoo::transforms::functional

// Types, sizes and places of images.
#include "zoo/data/functional.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string_view>

#include "libcore/base/error.h"
#include "libcore/ops/bitwise.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "zoo/data/functional_parts.h"

namespace zoo::transforms::functional {

using core::DType;
using core::Error;
using core::ErrorCode;
using core::Shape;
using core::Tensor;

int value_bits(DType dtype) {
  if (core::is_floating(dtype) || dtype == DType::boolean || core::is_complex(dtype)) {
    throw Error(ErrorCode::type,
                std::string("Number of value bits is only defined for integer dtypes, but got torch.") +
                    std::string(core::name(dtype)) + ".");
  }
  const int bits = static_cast<int>(core::element_bytes(dtype)) * 8;
  return dtype == DType::u8 || dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64 ? bits : bits - 1;
}

namespace {

Tensor float_to_integer(const Tensor& image, DType dtype) {
  const bool from_f32 = image.dtype() == DType::f32 && (dtype == DType::i32 || dtype == DType::i64);
  if (from_f32 || (image.dtype() == DType::f64 && dtype == DType::i64)) {
    throw Error(ErrorCode::runtime, "The conversion from " + torch_name(image.dtype()) + " to " + torch_name(dtype) +
                                        " cannot be performed safely.");
  }
  return (image * (max_value(dtype) + 1.0 - 1e-3)).to(dtype);
}

Tensor integer_to_integer(const Tensor& image, DType dtype) {
  const int from = value_bits(image.dtype()), to = value_bits(dtype);
  const auto shift = [](DType type, int bits) { return core::full({}, bits, {.dtype = type}); };
  if (from > to) return core::bitwise_right_shift(image, shift(image.dtype(), from - to)).to(dtype);
  return core::bitwise_left_shift(image.to(dtype), shift(dtype, to - from));
}

}  // namespace

std::array<std::int64_t, 2> one_or_two(const Shape& numbers, const char* name) {
  if (numbers.size() == 1) return {numbers[0], numbers[0]};
  if (numbers.size() == 2) return {numbers[0], numbers[1]};
  throw Error(ErrorCode::value, std::string("If ") + name + " is a sequence its length should be 2. Got " +
                                    std::to_string(numbers.size()));
}

namespace {

/// Height and width that resize() makes.
std::array<std::int64_t, 2> resized_size(std::int64_t height, std::int64_t width, const Shape& size,
                                         const std::optional<std::int64_t>& max_size) {
  if (size.size() == 2 && !max_size) return {size[0], size[1]};
  if (size.size() != 1) {
    throw Error(ErrorCode::value,
                "max_size should only be passed if size is None or specifies the length of the smaller edge, i.e. size "
                "should be an int or a sequence of length 1 in torchscript mode.");
  }
  const std::int64_t shorter = std::min(width, height), longer = std::max(width, height);
  const auto part = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    return static_cast<std::int64_t>(static_cast<double>(a * b) / static_cast<double>(c));
  };
  std::int64_t new_short = size[0], new_long = part(size[0], longer, shorter);
  if (max_size && *max_size <= new_short) {
    throw Error(ErrorCode::value,
                "max_size = " + std::to_string(*max_size) +
                    " must be strictly greater than the requested size for the smaller edge size = [" +
                    std::to_string(size[0]) + "]");
  }
  if (max_size && new_long > *max_size) {
    new_short = part(*max_size, new_short, new_long);
    new_long = *max_size;
  }
  return width <= height ? std::array{new_long, new_short} : std::array{new_short, new_long};
}

/// Images of u8 in whole numbers: (n, channels, height, width).
Tensor resized_bytes(const Tensor& images, std::array<std::int64_t, 2> size, const ResizeOptions& o) {
  const zoo::ResizeOptions how{
      .width = size[1],
      .height = size[0],
      .interpolation = o.interpolation == "bicubic" ? Interpolation::bicubic : Interpolation::bilinear,
      .resampling = Resampling::torch,
      .antialias = o.antialias};
  const Tensor pixels = images.permute({0, 2, 3, 1}).contiguous();
  const Tensor out = core::empty({images.size(0), size[0], size[1], images.size(1)}, {.dtype = DType::u8});
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    Image image = make_image(images.size(3), images.size(2), images.size(1));
    std::memcpy(image.pixels.data(), pixels[i].raw_data(), image.pixels.size());
    const Image small = zoo::resize(image, how);
    std::memcpy(out[i].mutable_raw_data(), small.pixels.data(), small.pixels.size());
  }
  return out.permute({0, 3, 1, 2}).contiguous();
}

Tensor resized_images(const Tensor& images, std::array<std::int64_t, 2> size, const ResizeOptions& o) {
  const bool nearest = o.interpolation == "nearest" || o.interpolation == "nearest-exact";
  const DType dtype = images.dtype();
  core::InterpolateOptions how{.size = {size[0], size[1]}, .mode = o.interpolation};
  if (nearest && (core::is_floating(dtype) || dtype == DType::u8)) return core::interpolate(images, how);
  if (!nearest) {
    if (dtype == DType::u8 && images.device().is_cpu()) return resized_bytes(images, size, o);
    how.align_corners = false;
    how.antialias = o.antialias;
  }
  if (dtype == DType::f32 || dtype == DType::f64) return core::interpolate(images, how);
  Tensor out = core::interpolate(images.to(DType::f32), how);
  if (dtype == DType::u8 && o.interpolation == "bicubic") out = clamped(out, 255);
  if (!core::is_floating(dtype) && dtype != DType::boolean) out = core::round(out);
  return out.to(dtype);
}

/// Before and after the last dimension, then the one before: left, right, top, bottom.
Shape sides_of(const Shape& padding) {
  if (padding.size() == 1) return {padding[0], padding[0], padding[0], padding[0]};
  if (padding.size() == 2) return {padding[0], padding[0], padding[1], padding[1]};
  if (padding.size() == 4) return {padding[0], padding[2], padding[1], padding[3]};
  throw Error(ErrorCode::value,
              "Padding must be an int or a 1, 2, or 4 element tuple or list. Found " + std::to_string(padding.size()));
}

/// The border once more, then what is beside it.
Tensor symmetric(const Tensor& image, std::int64_t dim, std::int64_t before, std::int64_t after) {
  const std::int64_t size = image.size(dim);
  if (before < 0 || after < 0 || before > size || after > size) {
    throw Error(ErrorCode::value, "symmetric padding of " + std::to_string(before) + " and " + std::to_string(after) +
                                      " pixels does not fit a side of " + std::to_string(size) + " pixels");
  }
  std::vector<std::int64_t> from;
  for (std::int64_t i = before; i-- > 0;) from.push_back(i);
  for (std::int64_t i = 0; i < size; ++i) from.push_back(i);
  for (std::int64_t i = 0; i < after; ++i) from.push_back(size - 1 - i);
  return core::index_select(image, dim, core::from_values(from));
}

Tensor padded(const Tensor& image, const Shape& sides, double fill, const std::string& mode) {
  if (mode == "constant") return core::pad(image, sides, core::PaddingMode::zeros, fill);
  if (mode == "symmetric") return symmetric(symmetric(image, -1, sides[0], sides[1]), -2, sides[2], sides[3]);
  const Tensor images = flat_images(image);
  const core::PaddingMode how = mode == "edge" ? core::PaddingMode::replicate : core::PaddingMode::reflect;
  const bool casts = !core::is_floating(image.dtype());
  const Tensor out = core::pad(casts ? images.to(DType::f32) : images, sides, how);
  return like_images(casts ? out.to(image.dtype()) : out, image);
}

/// A colour around the image.
Tensor with_border(Tensor out, const Shape& sides, const Fill& fill, const std::string& mode) {
  if (mode != "constant") {
    throw Error(ErrorCode::value, "Padding mode '" + mode + "' is not supported if fill is not scalar");
  }
  const Tensor colour =
      core::from_values(std::vector<float>(fill.begin(), fill.end())).to(out.dtype()).reshape({-1, 1, 1});
  const std::int64_t width = out.size(-1), height = out.size(-2);
  for (const Tensor& part : {out.narrow(-2, 0, sides[2]), out.narrow(-1, 0, sides[0]),
                             out.narrow(-2, height - sides[3], sides[3]), out.narrow(-1, width - sides[1], sides[1])}) {
    part.copy_(colour.expand(part.sizes()));
  }
  return out;
}

}  // namespace

Tensor to_image(const Image& image) {
  const auto there = static_cast<std::int64_t>(image.pixels.size());
  if (image.height * image.width * image.channels != there) {
    throw Error(ErrorCode::value, "an image of " + std::to_string(image.width) + " x " + std::to_string(image.height) +
                                      " pixels and " + std::to_string(image.channels) + " channels holds " +
                                      std::to_string(there) + " values");
  }
  const Tensor pixels =
      core::empty({image.height, image.width, image.channels}, {.dtype = DType::u8, .device = core::Device("cpu")});
  std::memcpy(pixels.mutable_raw_data(), image.pixels.data(), image.pixels.size());
  return pixels.permute({2, 0, 1}).contiguous();
}

Tensor to_dtype(const Tensor& image, DType dtype, bool scale) {
  if (image.dtype() == dtype) return image;
  if (!scale) return image.to(dtype);
  const bool from_float = core::is_floating(image.dtype()), to_float = core::is_floating(dtype);
  if (from_float) return to_float ? image.to(dtype) : float_to_integer(image, dtype);
  return to_float ? image.to(dtype) * (1.0 / max_value(image.dtype())) : integer_to_integer(image, dtype);
}

Tensor normalize(const Tensor& image, const std::vector<double>& mean, const std::vector<double>& std) {
  if (!core::is_floating(image.dtype())) {
    throw Error(ErrorCode::type, "Input tensor should be a float tensor. Got " + torch_name(image.dtype()) + ".");
  }
  if (image.dim() < 3) {
    throw Error(ErrorCode::value, "Expected tensor to be a tensor image of size (..., C, H, W). Got torch.Size(" +
                                      core::to_list(image.sizes()) + ").");
  }
  if (std::find(std.begin(), std.end(), 0.0) != std.end()) {
    throw Error(ErrorCode::value, "std evaluated to zero, leading to division by zero.");
  }
  const auto column = [&](const std::vector<double>& values) {
    return core::from_values(values, {.device = image.device()}).to(image.dtype()).reshape({-1, 1, 1});
  };
  return (image - column(mean)).div_(column(std));
}

Tensor resize(const Tensor& image, const Shape& size, const ResizeOptions& o) {
  if (o.interpolation != "nearest" && o.interpolation != "nearest-exact" && o.interpolation != "bilinear" &&
      o.interpolation != "bicubic") {
    throw Error(ErrorCode::value, "Interpolation mode '" + o.interpolation + "' is unsupported with Tensor input");
  }
  const std::int64_t height = image.size(-2), width = image.size(-1);
  const std::array<std::int64_t, 2> to =
      height > 0 && width > 0 ? resized_size(height, width, size, o.max_size) : std::array{height, width};
  if (to[0] <= 0 || to[1] <= 0) {
    const auto text = [](std::int64_t h, std::int64_t w) {
      return "(H: " + std::to_string(h) + ", W: " + std::to_string(w) + ")";
    };
    throw Error(ErrorCode::runtime, "Input and output sizes should be greater than 0, but got input " +
                                        text(height, width) + " output " + text(to[0], to[1]));
  }
  if (to[0] == height && to[1] == width) return image;
  const Tensor images = flat_images(image);
  return like_images(resized_images(images, to, o), image);
}

Tensor crop(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width) {
  const std::int64_t h = image.size(-2), w = image.size(-1), right = left + width, bottom = top + height;
  const auto part = [](const Tensor& x, std::int64_t dim, std::int64_t from, std::int64_t to) {
    const std::int64_t begin = std::clamp<std::int64_t>(from, 0, x.size(dim));
    return x.narrow(dim, begin, std::max<std::int64_t>(std::clamp<std::int64_t>(to, 0, x.size(dim)) - begin, 0));
  };
  const Tensor inside = part(part(image, -2, top, bottom), -1, left, right);
  if (left >= 0 && top >= 0 && right <= w && bottom <= h) return inside;
  const auto above = [](std::int64_t n) { return std::max<std::int64_t>(n, 0); };
  const Shape sides = {above(std::min<std::int64_t>(right, 0) - left), above(right - std::max(w, left)),
                       above(std::min<std::int64_t>(bottom, 0) - top), above(bottom - std::max(h, top))};
  return core::pad(inside, sides);
}

Tensor center_crop(const Tensor& image, const Shape& size) {
  const auto [height, width] = one_or_two(size, "size");
  Tensor whole = image;
  const auto missing = [](std::int64_t wanted, std::int64_t there) {
    return std::max<std::int64_t>(wanted - there, 0);
  };
  const std::int64_t x = missing(width, image.size(-1)), y = missing(height, image.size(-2));
  if (x > 0 || y > 0) whole = core::pad(image, {x / 2, (x + 1) / 2, y / 2, (y + 1) / 2});
  const auto half = [](std::int64_t n) {
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(n) / 2));
  };
  return crop(whole, half(whole.size(-2) - height), half(whole.size(-1) - width), height, width);
}

Tensor pad(const Tensor& image, const Shape& padding, const Fill& fill, const std::string& mode) {
  const Shape sides = sides_of(padding);
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "symmetric") {
    throw Error(ErrorCode::value, "Padding mode should be either constant, edge, reflect or symmetric");
  }
  if (fill.size() <= 1) return padded(image, sides, fill.empty() ? 0 : fill[0], mode);
  return with_border(padded(image, sides, 0, "constant"), sides, fill, mode);
}

Tensor horizontal_flip(const Tensor& image) {
  return core::flip(image, {-1});
}
Tensor vertical_flip(const Tensor& image) {
  return core::flip(image, {-2});
}

Tensor erase(const Tensor& image, const Box& box, const Tensor& value) {
  const Tensor out = image.clone();
  const Tensor part = out.narrow(-2, box.top, box.height).narrow(-1, box.left, box.width);
  part.copy_(value.to(image.dtype()).expand(part.sizes()));
  return out;
}

}  // namespace zoo::transforms::functional

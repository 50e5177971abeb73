// Turned, sheared and moved images.
#include <cmath>
#include <numbers>

#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/factory.h"
#include "zoo/data/functional_parts.h"

namespace zoo::transforms::functional {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using core::Tensor;
using Point = std::array<double, 2>;

struct Size {
  std::int64_t height, width;
};

double radians(double degrees) {
  return degrees * (std::numbers::pi / 180.0);
}

/// Two rows of three: from a place in the result to one in the image, both from the middle.
std::vector<double> inverse_matrix(const Point& centre, const AffineOptions& o) {
  const double turn = radians(o.angle), sx = radians(o.shear[0]), sy = radians(o.shear[1]);
  const double a = std::cos(turn - sy) / std::cos(sy), b = -(a * std::tan(sx) + std::sin(turn));
  const double c = std::sin(turn - sy) / std::cos(sy), d = std::cos(turn) - c * std::tan(sx);
  std::vector<double> m = {d / o.scale, -b / o.scale, 0.0, -c / o.scale, a / o.scale, 0.0};
  const double x = centre[0] + o.translate[0], y = centre[1] + o.translate[1];
  m[2] += centre[0] - m[0] * x - m[1] * y;
  m[5] += centre[1] - m[3] * x - m[4] * y;
  return m;
}

Point from_middle(const std::optional<Point>& centre, const Tensor& image) {
  if (!centre) return {0, 0};
  return {(*centre)[0] - static_cast<double>(image.size(-1)) * 0.5,
          (*centre)[1] - static_cast<double>(image.size(-2)) * 0.5};
}

void check(const Tensor& image, const std::string& interpolation, const Fill& fill) {
  if (fill.size() > 1 && static_cast<std::int64_t>(fill.size()) != image.size(-3)) {
    throw Error(ErrorCode::value,
                "The number of elements in 'fill' cannot broadcast to match the number of channels of the image (" +
                    std::to_string(fill.size()) + " != " + std::to_string(image.size(-3)) + ")");
  }
  if (interpolation != "nearest" && interpolation != "bilinear") {
    throw Error(ErrorCode::value, "Interpolation mode '" + interpolation + "' is unsupported with Tensor input");
  }
}

Tensor as_type(const std::vector<double>& values, DType dtype) {
  return core::from_values(values).to(dtype);
}

/// The places of grid_sample() for a result of `size`.
Tensor grid_of(const std::vector<double>& matrix, const Tensor& image, const Size& size, DType dtype) {
  const auto line = [&](std::int64_t n) {
    const auto length = static_cast<double>(n);
    return core::linspace((1.0 - length) * 0.5, (length - 1.0) * 0.5, n, {.dtype = DType::f32}).to(dtype);
  };
  const Tensor x = line(size.width), y = line(size.height).unsqueeze(-1);
  const Tensor halves =
      as_type({0.5 * static_cast<double>(image.size(-1)), 0.5 * static_cast<double>(image.size(-2))}, dtype);
  const Tensor theta = as_type(matrix, dtype).reshape({2, 3}).t() / halves;
  // In this order and without fused steps, as a place in the middle between two pixels goes to one or the other by it.
  const auto along = [&](std::int64_t k) { return x * theta[0][k] + y * theta[1][k] + theta[2][k]; };
  return core::stack({along(0), along(1)}, -1).unsqueeze(0);
}

Tensor sampled(const Tensor& image, const Tensor& grid, const std::string& mode, const Fill& fill) {
  const Tensor images = flat_images(image);
  Tensor values = images.dtype() == grid.dtype() ? images : images.to(grid.dtype());
  const std::int64_t channels = values.size(1);
  if (!fill.empty()) {
    const Tensor inside = core::ones({values.size(0), 1, values.size(2), values.size(3)}, {.dtype = grid.dtype()});
    values = core::cat({values, inside}, 1);
  }
  values = core::grid_sample(values, grid.expand({values.size(0), -1, -1, -1}),
                             {.mode = mode, .padding_mode = "zeros", .align_corners = false});
  if (!fill.empty()) {
    const Tensor inside = values.narrow(1, channels, 1);
    values = values.narrow(1, 0, channels);
    const Tensor colour = as_type(fill, grid.dtype()).reshape({1, -1, 1, 1});
    values = mode == "nearest" ? core::where(inside < 0.5, colour, values) : (values - colour) * inside + colour;
  }
  return like_images(image.dtype() == grid.dtype() ? values : core::round(values).to(image.dtype()), image);
}

DType grid_type(const Tensor& image) {
  return core::is_floating(image.dtype()) ? image.dtype() : DType::f32;
}

/// Room for the whole image when it is turned.
Size expanded(const std::vector<double>& matrix, const Tensor& image) {
  const double w = 0.5 * static_cast<double>(image.size(-1)), h = 0.5 * static_cast<double>(image.size(-2));
  const Tensor corners = as_type({-w, -h, 1, -w, h, 1, w, h, 1, w, -h, 1}, DType::f32).reshape({4, 3});
  const core::MinMax ends = core::aminmax(core::matmul(corners, as_type(matrix, DType::f32).reshape({2, 3}).t()), 0);
  const Tensor halves = as_type({w, h}, DType::f32);
  // Without what is beyond the fourth digit, which would make a pixel of its own.
  const auto cut = [&](const Tensor& x) { return core::trunc((x + halves) * (1.0 / 1e-4)) * 1e-4; };
  const Tensor size = core::ceil(cut(ends.max)) - core::floor(cut(ends.min));
  return {static_cast<std::int64_t>(size[1].item<float>()), static_cast<std::int64_t>(size[0].item<float>())};
}

}  // namespace

Tensor affine(const Tensor& image, const AffineOptions& o) {
  if (!(o.scale > 0)) throw Error(ErrorCode::value, "Argument scale should be positive");
  check(image, o.interpolation, o.fill);
  const Size size{image.size(-2), image.size(-1)};
  const std::vector<double> matrix = inverse_matrix(from_middle(o.center, image), o);
  return sampled(image, grid_of(matrix, image, size, grid_type(image)), o.interpolation, o.fill);
}

Tensor rotate(const Tensor& image, double angle, const RotateOptions& o) {
  angle = std::fmod(angle, 360.0);
  if (angle < 0) angle += 360.0;
  if (!o.center) {
    if (angle == 0) return image.clone();
    if (angle == 180) return core::rot90(image, 2, {-2, -1});
    const bool turns = o.expand || image.size(-1) == image.size(-2);
    if (turns && angle == 90) return core::rot90(image, 1, {-2, -1});
    if (turns && angle == 270) return core::rot90(image, 3, {-2, -1});
  }
  check(image, o.interpolation, o.fill);
  const std::vector<double> matrix = inverse_matrix(from_middle(o.center, image), {.angle = -angle});
  const Size size = o.expand ? expanded(matrix, image) : Size{image.size(-2), image.size(-1)};
  return sampled(image, grid_of(matrix, image, size, grid_type(image)), o.interpolation, o.fill);
}

}  // namespace zoo::transforms::functional

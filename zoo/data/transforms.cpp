// What is drawn, in torchvision's order.
#include "zoo/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace zoo::transforms {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using core::Shape;
using core::Tensor;

[[noreturn]] void fail(const std::string& text, ErrorCode code = ErrorCode::value) {
  throw Error(code, text);
}

/// One float from the generator.
double uniform(double from, double to) {
  const Tensor one = core::empty({1}, {.dtype = DType::f32, .device = core::Device("cpu")});
  core::uniform_(one, from, to);
  return static_cast<double>(one.item<float>());
}

/// False with probability p.
bool passes(double p) {
  return core::rand({1}, {.dtype = DType::f32}).item<float>() >= static_cast<float>(p);
}

/// 0 ... n - 1.
std::int64_t draw(std::int64_t n) {
  return core::randint(0, n, {1}).item<std::int64_t>();
}

std::int64_t rounded(double x) {
  return static_cast<std::int64_t>(std::nearbyint(x));
}

double checked_probability(double p) {
  if (!(p >= 0 && p <= 1)) fail("`p` should be a floating point value in the interval [0.0, 1.0].");
  return p;
}

std::vector<Transform> checked(std::vector<Transform> transforms) {
  if (transforms.empty()) fail("Pass at least one transform");
  if (std::any_of(transforms.begin(), transforms.end(), [](const Transform& each) { return !each; })) {
    fail("a transform is an empty std::function");
  }
  return transforms;
}

Shape pair_of(const Shape& size, const char* message) {
  if (size.size() == 1) return {size[0], size[0]};
  if (size.size() != 2) fail(message);
  return size;
}

constexpr const char* kTwoSizes = "Please provide only two dimensions (h, w) for size.";

Range angles(double degrees) {
  if (degrees < 0) fail("If degrees is a single number, it must be positive.");
  return {-degrees, degrees};
}

/// As Python prints it: "[0.5, 2.0]".
std::string text_of(const Range& range) {
  return "[" + core::python_float(range[0]) + ", " + core::python_float(range[1]) + "]";
}

void warn_of_order(const Range& scale, const Range& ratio) {
  if (scale[0] > scale[1] || ratio[0] > ratio[1]) core::warn("Scale and ratio should be of kind (min, max)");
}

Shape checked_padding(const Shape& padding) {
  if (padding.size() == 1 || padding.size() == 2 || padding.size() == 4) return padding;
  fail("Padding must be an int or a 1, 2, or 4 element of tuple or list, got " + core::to_list(padding) + ".");
}

std::string checked_mode(std::string mode) {
  if (mode == "constant" || mode == "edge" || mode == "reflect" || mode == "symmetric") return mode;
  fail("Padding mode should be either constant, edge, reflect or symmetric");
}

/// A part of an image whose area and ratio are drawn. `ratio`: logarithms, as floats.
struct Draw {
  Range scale;
  Range log_ratio;

  Draw(const Range& scales, const Range& ratios) : scale(scales) {
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor log = core::log(core::full({1}, ratios[i], {.dtype = DType::f32}));
      log_ratio[i] = static_cast<double>(log.item<float>());
    }
  }
  struct Sides {
    double area, ratio;
  };
  Sides sides(std::int64_t pixels) const {
    const double area = static_cast<double>(pixels) * uniform(scale[0], scale[1]);
    const Tensor log = core::empty({1}, {.dtype = DType::f32});
    core::uniform_(log, log_ratio[0], log_ratio[1]);
    return {area, static_cast<double>(core::exp(log).item<float>())};
  }
};

}  // namespace

// --- Several

Compose::Compose(std::vector<Transform> transforms) : transforms_(checked(std::move(transforms))) {}
Tensor Compose::operator()(const Tensor& image) const {
  return std::accumulate(transforms_.begin(), transforms_.end(), image,
                         [](const Tensor& x, const Transform& f) { return f(x); });
}

RandomApply::RandomApply(std::vector<Transform> transforms, double p)
    : transforms_(checked(std::move(transforms))), p_(checked_probability(p)) {}
Tensor RandomApply::operator()(const Tensor& image) const {
  return passes(p_) ? image : Compose(transforms_)(image);
}

RandomChoice::RandomChoice(std::vector<Transform> transforms, std::vector<double> p)
    : transforms_(checked(std::move(transforms))), p_(std::move(p)) {
  if (p_.empty()) p_.assign(transforms_.size(), 1);
  if (p_.size() != transforms_.size()) {
    fail("Length of p doesn't match the number of transforms: " + std::to_string(p_.size()) +
         " != " + std::to_string(transforms_.size()));
  }
  const double sum = std::accumulate(p_.begin(), p_.end(), 0.0);
  for (double& each : p_) each /= sum;
}
Tensor RandomChoice::operator()(const Tensor& image) const {
  const Tensor weights = core::from_values(p_).to(DType::f32);
  return transforms_[static_cast<std::size_t>(core::multinomial(weights, {.num_samples = 1}).item<std::int64_t>())](
      image);
}

RandomOrder::RandomOrder(std::vector<Transform> transforms) : transforms_(checked(std::move(transforms))) {}
Tensor RandomOrder::operator()(const Tensor& image) const {
  const Tensor order = core::randperm(static_cast<std::int64_t>(transforms_.size()));
  Tensor out = image;
  for (std::int64_t i = 0; i < order.numel(); ++i)
    out = transforms_[static_cast<std::size_t>(order[i].item<std::int64_t>())](out);
  return out;
}

// --- Geometry

Resize::Resize(Shape size, functional::ResizeOptions options) : size_(std::move(size)), options_(std::move(options)) {
  if (size_.size() != 1 && size_.size() != 2) {
    fail("size can be an integer, a sequence of one or two integers, or None, but got " + core::to_list(size_) +
         " instead.");
  }
}

CenterCrop::CenterCrop(Shape size) : size_(pair_of(size, kTwoSizes)) {}

RandomCrop::RandomCrop(Shape size, RandomCropOptions options)
    : size_(pair_of(size, kTwoSizes)), options_(std::move(options)) {
  if (options_.padding.empty()) return;
  checked_padding(options_.padding);
  checked_mode(options_.padding_mode);
}

Tensor RandomCrop::operator()(const Tensor& image) const {
  std::int64_t height = image.size(-2), width = image.size(-1);
  Shape sides = {0, 0, 0, 0};  // left, top, right, bottom
  if (!options_.padding.empty()) {
    const Shape& p = options_.padding;
    sides = p.size() == 4 ? p : Shape{p[0], p[p.size() - 1], p[0], p[p.size() - 1]};
    height += sides[1] + sides[3];
    width += sides[0] + sides[2];
  }
  const auto widen = [&](std::int64_t& size, std::int64_t wanted, std::size_t before) {
    const std::int64_t missing = wanted - size;
    if (!options_.pad_if_needed || missing <= 0) return;
    sides[before] += missing;
    sides[before + 2] += missing;
    size += 2 * missing;
  };
  widen(height, size_[0], 1);
  widen(width, size_[1], 0);
  if (height < size_[0] || width < size_[1]) {
    fail("Required crop size (" + std::to_string(size_[0]) + ", " + std::to_string(size_[1]) + ") is larger than " +
         (options_.padding.empty() ? "" : "padded ") + "input image size (" + std::to_string(height) + ", " +
         std::to_string(width) + ").");
  }
  const std::int64_t top = height > size_[0] ? draw(height - size_[0] + 1) : 0;
  const std::int64_t left = width > size_[1] ? draw(width - size_[1] + 1) : 0;
  const bool pads = std::any_of(sides.begin(), sides.end(), [](std::int64_t n) { return n != 0; });
  const Tensor whole = pads ? functional::pad(image, sides, options_.fill, options_.padding_mode) : image;
  return functional::crop(whole, top, left, size_[0], size_[1]);
}

RandomResizedCrop::RandomResizedCrop(Shape size, RandomResizedCropOptions options)
    : size_(pair_of(size, kTwoSizes)), options_(std::move(options)) {
  warn_of_order(options_.scale, options_.ratio);
}

Tensor RandomResizedCrop::operator()(const Tensor& image) const {
  const std::int64_t height = image.size(-2), width = image.size(-1);
  const Range& ratio = options_.ratio;
  const Draw drawn(options_.scale, {std::min(ratio[0], ratio[1]), std::max(ratio[0], ratio[1])});
  const auto made = [&](const functional::Box& box) {
    const Tensor part = functional::crop(image, box.top, box.left, box.height, box.width);
    return functional::resize(part, size_, {.interpolation = options_.interpolation, .antialias = options_.antialias});
  };
  for (int tries = 0; tries < 10; ++tries) {
    const auto [area, sides] = drawn.sides(height * width);
    const std::int64_t w = rounded(std::sqrt(area * sides)), h = rounded(std::sqrt(area / sides));
    if (w <= 0 || w > width || h <= 0 || h > height) continue;
    const std::int64_t top = draw(height - h + 1);
    return made({top, draw(width - w + 1), h, w});
  }
  const double is = static_cast<double>(width) / static_cast<double>(height);
  const double least = std::min(ratio[0], ratio[1]), most = std::max(ratio[0], ratio[1]);
  const std::int64_t h = is < least ? rounded(static_cast<double>(width) / least) : height;
  const std::int64_t w = is > most ? rounded(static_cast<double>(height) * most) : width;
  return made({(height - h) / 2, (width - w) / 2, h, w});
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(checked_probability(p)) {}
Tensor RandomHorizontalFlip::operator()(const Tensor& image) const {
  return passes(p_) ? image : functional::horizontal_flip(image);
}
RandomVerticalFlip::RandomVerticalFlip(double p) : p_(checked_probability(p)) {}
Tensor RandomVerticalFlip::operator()(const Tensor& image) const {
  return passes(p_) ? image : functional::vertical_flip(image);
}

Pad::Pad(Shape padding, functional::Fill fill, std::string padding_mode)
    : padding_(checked_padding(padding)),
      fill_(std::move(fill)),
      padding_mode_(checked_mode(std::move(padding_mode))) {}

RandomRotation::RandomRotation(Range degrees, functional::RotateOptions options)
    : degrees_(degrees), options_(std::move(options)) {}
RandomRotation::RandomRotation(double degrees, functional::RotateOptions options)
    : RandomRotation(angles(degrees), std::move(options)) {}
Tensor RandomRotation::operator()(const Tensor& image) const {
  return functional::rotate(image, uniform(degrees_[0], degrees_[1]), options_);
}

RandomAffine::RandomAffine(Range degrees, RandomAffineOptions options)
    : degrees_(degrees), options_(std::move(options)) {
  for (const double part : options_.translate.value_or(Range{0, 0})) {
    if (!(part >= 0 && part <= 1)) fail("translation values should be between 0 and 1");
  }
  for (const double factor : options_.scale.value_or(Range{1, 1})) {
    if (!(factor > 0)) fail("scale values should be positive");
  }
  if (!options_.shear.empty() && options_.shear.size() != 2 && options_.shear.size() != 4) {
    fail("shear should be a sequence of length 2 or 4.");
  }
}
RandomAffine::RandomAffine(double degrees, RandomAffineOptions options)
    : RandomAffine(angles(degrees), std::move(options)) {}

Tensor RandomAffine::operator()(const Tensor& image) const {
  functional::AffineOptions o{
      .interpolation = options_.interpolation, .fill = options_.fill, .center = options_.center};
  o.angle = uniform(degrees_[0], degrees_[1]);
  if (options_.translate) {
    const double x = (*options_.translate)[0] * static_cast<double>(image.size(-1));
    const double y = (*options_.translate)[1] * static_cast<double>(image.size(-2));
    o.translate[0] = static_cast<double>(rounded(uniform(-x, x)));
    o.translate[1] = static_cast<double>(rounded(uniform(-y, y)));
  }
  if (options_.scale) o.scale = uniform((*options_.scale)[0], (*options_.scale)[1]);
  if (!options_.shear.empty()) o.shear[0] = uniform(options_.shear[0], options_.shear[1]);
  if (options_.shear.size() == 4) o.shear[1] = uniform(options_.shear[2], options_.shear[3]);
  return functional::affine(image, o);
}

// --- Colours

namespace {

/// Nothing where the factor could be `centre` alone.
std::optional<Range> checked_range(const std::optional<Range>& range, const char* name, double centre, Range bound) {
  if (!range) return range;
  if (!(bound[0] <= (*range)[0] && (*range)[0] <= (*range)[1] && (*range)[1] <= bound[1])) {
    const char* const limits = centre == 0 ? "(-0.5, 0.5)" : "(0, inf)";
    fail(std::string(name) + " values should be between " + limits + " and increasing, but got " + text_of(*range) +
         ".");
  }
  return (*range)[0] == centre && (*range)[1] == centre ? std::nullopt : range;
}

std::optional<Range> around(double amount, const char* name, double centre) {
  if (amount < 0) fail(std::string("If ") + name + " is a single number, it must be non negative.");
  const double low = centre - amount;
  return Range{centre == 0 ? low : std::max(low, 0.0), centre + amount};
}

}  // namespace

ColorJitter::ColorJitter(const ColorJitterOptions& o) {
  const double most = std::numeric_limits<double>::infinity();
  options_ = {.brightness = checked_range(o.brightness, "brightness", 1, {0, most}),
              .contrast = checked_range(o.contrast, "contrast", 1, {0, most}),
              .saturation = checked_range(o.saturation, "saturation", 1, {0, most}),
              .hue = checked_range(o.hue, "hue", 0, {-0.5, 0.5})};
}
ColorJitter::ColorJitter(double brightness, double contrast, double saturation, double hue)
    : ColorJitter(ColorJitterOptions{.brightness = around(brightness, "brightness", 1),
                                     .contrast = around(contrast, "contrast", 1),
                                     .saturation = around(saturation, "saturation", 1),
                                     .hue = around(hue, "hue", 0)}) {}

Tensor ColorJitter::operator()(const Tensor& image) const {
  const Tensor order = core::randperm(4);
  const std::array ranges = {options_.brightness, options_.contrast, options_.saturation, options_.hue};
  std::array<double, 4> factors{};
  for (std::size_t i = 0; i < 4; ++i) {
    if (ranges[i]) factors[i] = uniform((*ranges[i])[0], (*ranges[i])[1]);
  }
  constexpr std::array kSteps = {functional::adjust_brightness, functional::adjust_contrast,
                                 functional::adjust_saturation, functional::adjust_hue};
  Tensor out = image;
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto step = static_cast<std::size_t>(order[i].item<std::int64_t>());
    if (ranges[step]) out = kSteps[step](out, factors[step]);
  }
  return out;
}

RandomGrayscale::RandomGrayscale(double p) : p_(checked_probability(p)) {}
Tensor RandomGrayscale::operator()(const Tensor& image) const {
  return passes(p_) ? image : functional::rgb_to_grayscale(image, image.size(-3));
}

GaussianBlur::GaussianBlur(Shape kernel_size, Range sigma)
    : kernel_size_(pair_of(kernel_size, "Kernel size should be a tuple/list of two integers")), sigma_(sigma) {
  for (const std::int64_t size : kernel_size_) {
    if (size <= 0 || size % 2 == 0) fail("Kernel size value should be an odd and positive number.");
  }
  if (!(sigma[0] > 0 && sigma[0] <= sigma[1])) {
    fail("sigma values should be positive and of the form (min, max). Got " + text_of(sigma));
  }
}
Tensor GaussianBlur::operator()(const Tensor& image) const {
  return functional::gaussian_blur(image, kernel_size_, {uniform(sigma_[0], sigma_[1])});
}

RandomErasing::RandomErasing(RandomErasingOptions options) : options_(std::move(options)) {
  checked_probability(options_.p);
  if (options_.scale[0] < 0 || options_.scale[1] > 1) fail("Scale should be between 0 and 1");
  warn_of_order(options_.scale, options_.ratio);
}

Tensor RandomErasing::operator()(const Tensor& image) const {
  if (passes(options_.p)) return image;
  const std::int64_t channels = image.size(-3), height = image.size(-2), width = image.size(-1);
  const std::vector<double>& value = options_.value;
  if (value.size() > 1 && static_cast<std::int64_t>(value.size()) != channels) {
    fail("If value is a sequence, it should have either a single value or " + std::to_string(channels) +
         " (number of inpt channels)");
  }
  const Draw drawn(options_.scale, options_.ratio);
  for (int tries = 0; tries < 10; ++tries) {
    const auto [area, ratio] = drawn.sides(height * width);
    const std::int64_t h = rounded(std::sqrt(area * ratio)), w = rounded(std::sqrt(area / ratio));
    if (h >= height || w >= width) continue;
    const Tensor filled = value.empty() ? core::randn({channels, h, w}, {.dtype = DType::f32})
                                        : core::from_values(value).to(DType::f32).reshape({-1, 1, 1});
    const std::int64_t top = draw(height - h + 1);
    return functional::erase(image, {top, draw(width - w + 1), h, w}, filled);
  }
  return image;
}

}  // namespace zoo::transforms

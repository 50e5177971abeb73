#include "zoo/data/augment.h"

#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "zoo/data/functional_parts.h"

namespace zoo::transforms {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using core::Tensor;

/// In the order in which torchvision draws them; the last one is AutoAugment's alone.
enum class Step : std::uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize,
  invert,
};
constexpr std::int64_t kDrawn = 14;

/// How far the steps go.
struct Space {
  double shear, translate_x, translate_y, rotate, levels, posterize;
};

/// The magnitude at `bin` of `bins`; 0 for steps that have none.
double magnitude_of(Step step, const Space& space, std::int64_t bins, std::int64_t bin) {
  const auto line = [&](double from, double to) {
    return static_cast<double>(core::linspace(from, to, bins, {.dtype = DType::f32})[bin].item<float>());
  };
  switch (step) {
    case Step::shear_x:
    case Step::shear_y:
      return line(0, space.shear);
    case Step::translate_x:
      return line(0, space.translate_x);
    case Step::translate_y:
      return line(0, space.translate_y);
    case Step::rotate:
      return line(0, space.rotate);
    case Step::brightness:
    case Step::color:
    case Step::contrast:
    case Step::sharpness:
      return line(0, space.levels);
    case Step::posterize:
      return std::nearbyint(8.0F - static_cast<float>(bin) /
                                       static_cast<float>(static_cast<double>(bins - 1) / space.posterize));
    case Step::solarize:
      return line(1, 0);
    default:
      return 0;
  }
}

bool is_signed(Step step) {
  return step >= Step::shear_x && step <= Step::sharpness;
}
bool has_magnitude(Step step) {
  return step >= Step::shear_x && step <= Step::solarize;
}

struct Look {
  const std::string& interpolation;
  const functional::Fill& fill;
};

Tensor sheared(const Tensor& image, double x, double y, const Look& look) {
  const auto degrees = [](double slope) { return std::atan(slope) * (180.0 / std::numbers::pi); };
  return functional::affine(image, {.shear = {degrees(x), degrees(y)},
                                    .interpolation = look.interpolation,
                                    .fill = look.fill,
                                    .center = std::array{0.0, 0.0}});
}

Tensor moved(const Tensor& image, double x, double y, const Look& look) {
  return functional::affine(
      image, {.translate = {std::trunc(x), std::trunc(y)}, .interpolation = look.interpolation, .fill = look.fill});
}

Tensor done(const Tensor& image, Step step, double magnitude, const Look& look) {
  switch (step) {
    case Step::identity:
      return image;
    case Step::shear_x:
      return sheared(image, magnitude, 0, look);
    case Step::shear_y:
      return sheared(image, 0, magnitude, look);
    case Step::translate_x:
      return moved(image, magnitude, 0, look);
    case Step::translate_y:
      return moved(image, 0, magnitude, look);
    case Step::rotate:
      return functional::rotate(image, magnitude, {.interpolation = look.interpolation, .fill = look.fill});
    case Step::brightness:
      return functional::adjust_brightness(image, 1.0 + magnitude);
    case Step::color:
      return functional::adjust_saturation(image, 1.0 + magnitude);
    case Step::contrast:
      return functional::adjust_contrast(image, 1.0 + magnitude);
    case Step::sharpness:
      return functional::adjust_sharpness(image, 1.0 + magnitude);
    case Step::posterize:
      return functional::posterize(image, static_cast<std::int64_t>(magnitude));
    case Step::solarize:
      return functional::solarize(image, functional::max_value(image.dtype()) * magnitude);
    case Step::autocontrast:
      return functional::autocontrast(image);
    case Step::equalize:
      return functional::equalize(image);
    default:
      return functional::invert(image);
  }
}

std::int64_t draw(std::int64_t n) {
  return core::randint(0, n, {}).item<std::int64_t>();
}
/// True with probability p.
bool happens(float p) {
  return core::rand(core::Shape{}, {.dtype = DType::f32}).item<float>() <= p;
}

/// One step whose sign is drawn behind its magnitude.
Tensor stepped(const Tensor& image, Step step, double magnitude, const Look& look) {
  return done(image, step, is_signed(step) && happens(0.5F) ? -magnitude : magnitude, look);
}

/// That of AutoAugment and RandAugment.
Space space_for(const Tensor& image) {
  const double part = 150.0 / 331.0;
  return {.shear = 0.3,
          .translate_x = part * static_cast<double>(image.size(-1)),
          .translate_y = part * static_cast<double>(image.size(-2)),
          .rotate = 30,
          .levels = 0.9,
          .posterize = 4};
}

/// How often a step of a policy is taken, and its magnitude of ten; -1: none.
struct PolicyStep {
  Step step;
  float probability;
  int bin;
};
using SubPolicy = std::array<PolicyStep, 2>;

// Source: torchvision's tables, of the paper AutoAugment (Cubuk et al. 2019).
constexpr std::array<SubPolicy, 25> kImagenet = {{
    {{{Step::posterize, 0.4F, 8}, {Step::rotate, 0.6F, 9}}},
    {{{Step::solarize, 0.6F, 5}, {Step::autocontrast, 0.6F, -1}}},
    {{{Step::equalize, 0.8F, -1}, {Step::equalize, 0.6F, -1}}},
    {{{Step::posterize, 0.6F, 7}, {Step::posterize, 0.6F, 6}}},
    {{{Step::equalize, 0.4F, -1}, {Step::solarize, 0.2F, 4}}},
    {{{Step::equalize, 0.4F, -1}, {Step::rotate, 0.8F, 8}}},
    {{{Step::solarize, 0.6F, 3}, {Step::equalize, 0.6F, -1}}},
    {{{Step::posterize, 0.8F, 5}, {Step::equalize, 1.0F, -1}}},
    {{{Step::rotate, 0.2F, 3}, {Step::solarize, 0.6F, 8}}},
    {{{Step::equalize, 0.6F, -1}, {Step::posterize, 0.4F, 6}}},
    {{{Step::rotate, 0.8F, 8}, {Step::color, 0.4F, 0}}},
    {{{Step::rotate, 0.4F, 9}, {Step::equalize, 0.6F, -1}}},
    {{{Step::equalize, 0.0F, -1}, {Step::equalize, 0.8F, -1}}},
    {{{Step::invert, 0.6F, -1}, {Step::equalize, 1.0F, -1}}},
    {{{Step::color, 0.6F, 4}, {Step::contrast, 1.0F, 8}}},
    {{{Step::rotate, 0.8F, 8}, {Step::color, 1.0F, 2}}},
    {{{Step::color, 0.8F, 8}, {Step::solarize, 0.8F, 7}}},
    {{{Step::sharpness, 0.4F, 7}, {Step::invert, 0.6F, -1}}},
    {{{Step::shear_x, 0.6F, 5}, {Step::equalize, 1.0F, -1}}},
    {{{Step::color, 0.4F, 0}, {Step::equalize, 0.6F, -1}}},
    {{{Step::equalize, 0.4F, -1}, {Step::solarize, 0.2F, 4}}},
    {{{Step::solarize, 0.6F, 5}, {Step::autocontrast, 0.6F, -1}}},
    {{{Step::invert, 0.6F, -1}, {Step::equalize, 1.0F, -1}}},
    {{{Step::color, 0.6F, 4}, {Step::contrast, 1.0F, 8}}},
    {{{Step::equalize, 0.8F, -1}, {Step::equalize, 0.6F, -1}}},
}};
constexpr std::array<SubPolicy, 25> kCifar10 = {{
    {{{Step::invert, 0.1F, -1}, {Step::contrast, 0.2F, 6}}},
    {{{Step::rotate, 0.7F, 2}, {Step::translate_x, 0.3F, 9}}},
    {{{Step::sharpness, 0.8F, 1}, {Step::sharpness, 0.9F, 3}}},
    {{{Step::shear_y, 0.5F, 8}, {Step::translate_y, 0.7F, 9}}},
    {{{Step::autocontrast, 0.5F, -1}, {Step::equalize, 0.9F, -1}}},
    {{{Step::shear_y, 0.2F, 7}, {Step::posterize, 0.3F, 7}}},
    {{{Step::color, 0.4F, 3}, {Step::brightness, 0.6F, 7}}},
    {{{Step::sharpness, 0.3F, 9}, {Step::brightness, 0.7F, 9}}},
    {{{Step::equalize, 0.6F, -1}, {Step::equalize, 0.5F, -1}}},
    {{{Step::contrast, 0.6F, 7}, {Step::sharpness, 0.6F, 5}}},
    {{{Step::color, 0.7F, 7}, {Step::translate_x, 0.5F, 8}}},
    {{{Step::equalize, 0.3F, -1}, {Step::autocontrast, 0.4F, -1}}},
    {{{Step::translate_y, 0.4F, 3}, {Step::sharpness, 0.2F, 6}}},
    {{{Step::brightness, 0.9F, 6}, {Step::color, 0.2F, 8}}},
    {{{Step::solarize, 0.5F, 2}, {Step::invert, 0.0F, -1}}},
    {{{Step::equalize, 0.2F, -1}, {Step::autocontrast, 0.6F, -1}}},
    {{{Step::equalize, 0.2F, -1}, {Step::equalize, 0.6F, -1}}},
    {{{Step::color, 0.9F, 9}, {Step::equalize, 0.6F, -1}}},
    {{{Step::autocontrast, 0.8F, -1}, {Step::solarize, 0.2F, 8}}},
    {{{Step::brightness, 0.1F, 3}, {Step::color, 0.7F, 0}}},
    {{{Step::solarize, 0.4F, 5}, {Step::autocontrast, 0.9F, -1}}},
    {{{Step::translate_y, 0.9F, 9}, {Step::translate_y, 0.7F, 9}}},
    {{{Step::autocontrast, 0.9F, -1}, {Step::solarize, 0.8F, 3}}},
    {{{Step::equalize, 0.8F, -1}, {Step::invert, 0.1F, -1}}},
    {{{Step::translate_y, 0.7F, 9}, {Step::autocontrast, 0.9F, -1}}},
}};
constexpr std::array<SubPolicy, 25> kSvhn = {{
    {{{Step::shear_x, 0.9F, 4}, {Step::invert, 0.2F, -1}}},
    {{{Step::shear_y, 0.9F, 8}, {Step::invert, 0.7F, -1}}},
    {{{Step::equalize, 0.6F, -1}, {Step::solarize, 0.6F, 6}}},
    {{{Step::invert, 0.9F, -1}, {Step::equalize, 0.6F, -1}}},
    {{{Step::equalize, 0.6F, -1}, {Step::rotate, 0.9F, 3}}},
    {{{Step::shear_x, 0.9F, 4}, {Step::autocontrast, 0.8F, -1}}},
    {{{Step::shear_y, 0.9F, 8}, {Step::invert, 0.4F, -1}}},
    {{{Step::shear_y, 0.9F, 5}, {Step::solarize, 0.2F, 6}}},
    {{{Step::invert, 0.9F, -1}, {Step::autocontrast, 0.8F, -1}}},
    {{{Step::equalize, 0.6F, -1}, {Step::rotate, 0.9F, 3}}},
    {{{Step::shear_x, 0.9F, 4}, {Step::solarize, 0.3F, 3}}},
    {{{Step::shear_y, 0.8F, 8}, {Step::invert, 0.7F, -1}}},
    {{{Step::equalize, 0.9F, -1}, {Step::translate_y, 0.6F, 6}}},
    {{{Step::invert, 0.9F, -1}, {Step::equalize, 0.6F, -1}}},
    {{{Step::contrast, 0.3F, 3}, {Step::rotate, 0.8F, 4}}},
    {{{Step::invert, 0.8F, -1}, {Step::translate_y, 0.0F, 2}}},
    {{{Step::shear_y, 0.7F, 6}, {Step::solarize, 0.4F, 8}}},
    {{{Step::invert, 0.6F, -1}, {Step::rotate, 0.8F, 4}}},
    {{{Step::shear_y, 0.3F, 7}, {Step::translate_x, 0.9F, 3}}},
    {{{Step::shear_x, 0.1F, 6}, {Step::invert, 0.6F, -1}}},
    {{{Step::solarize, 0.7F, 2}, {Step::translate_y, 0.6F, 7}}},
    {{{Step::shear_y, 0.8F, 4}, {Step::invert, 0.8F, -1}}},
    {{{Step::shear_x, 0.7F, 9}, {Step::translate_y, 0.8F, 3}}},
    {{{Step::shear_y, 0.8F, 5}, {Step::autocontrast, 0.7F, -1}}},
    {{{Step::shear_x, 0.7F, 2}, {Step::invert, 0.1F, -1}}},
}};

const std::array<SubPolicy, 25>& policies_of(AutoAugmentPolicy policy) {
  if (policy == AutoAugmentPolicy::imagenet) return kImagenet;
  return policy == AutoAugmentPolicy::cifar10 ? kCifar10 : kSvhn;
}

}  // namespace

AutoAugment::AutoAugment(AutoAugmentOptions options) : options_(std::move(options)) {}

Tensor AutoAugment::operator()(const Tensor& image) const {
  const Space space = space_for(image);
  Tensor out = image;
  for (const PolicyStep& one : policies_of(options_.policy)[static_cast<std::size_t>(draw(25))]) {
    if (!happens(one.probability)) continue;
    const double magnitude = has_magnitude(one.step) ? magnitude_of(one.step, space, 10, one.bin) : 0;
    out = stepped(out, one.step, magnitude, {options_.interpolation, options_.fill});
  }
  return out;
}

RandAugment::RandAugment(RandAugmentOptions options) : options_(std::move(options)) {
  if (options_.num_ops < 0) {
    throw Error(ErrorCode::value,
                "num_ops should be a non-negative integer, but got " + std::to_string(options_.num_ops) + " instead.");
  }
  if (options_.magnitude < 0 || options_.magnitude >= options_.num_magnitude_bins) {
    throw Error(ErrorCode::value, "magnitude " + std::to_string(options_.magnitude) + " is none of " +
                                      std::to_string(options_.num_magnitude_bins) + " steps");
  }
}

Tensor RandAugment::operator()(const Tensor& image) const {
  const Space space = space_for(image);
  Tensor out = image;
  for (std::int64_t i = 0; i < options_.num_ops; ++i) {
    const auto step = static_cast<Step>(draw(kDrawn));
    const double magnitude = magnitude_of(step, space, options_.num_magnitude_bins, options_.magnitude);
    out = stepped(out, step, magnitude, {options_.interpolation, options_.fill});
  }
  return out;
}

TrivialAugmentWide::TrivialAugmentWide(TrivialAugmentWideOptions options) : options_(std::move(options)) {}

Tensor TrivialAugmentWide::operator()(const Tensor& image) const {
  constexpr Space kWide{
      .shear = 0.99, .translate_x = 32, .translate_y = 32, .rotate = 135, .levels = 0.99, .posterize = 6};
  const auto step = static_cast<Step>(draw(kDrawn));
  const std::int64_t bins = options_.num_magnitude_bins;
  const double magnitude = has_magnitude(step) ? magnitude_of(step, kWide, bins, draw(bins)) : 0;
  return stepped(image, step, magnitude, {options_.interpolation, options_.fill});
}

}  // namespace zoo::transforms

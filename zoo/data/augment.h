#pragma once
// Changes of an image's levels at random, and the policies that choose among many, as torchvision.transforms.v2 on
// tensors: AutoAugment, RandAugment, TrivialAugmentWide. Thread safety: as transforms.h. Errors: Error(value, type)
// with torchvision's texts. Use: zoo::transforms::RandAugment augment({.num_ops = 2, .magnitude = 9}); auto y =
// augment(x);

#include <cstdint>
#include <string>

#include "libcore/tensor/tensor.h"
#include "zoo/data/functional.h"
#include "zoo/data/transforms.h"

namespace zoo::transforms {

struct RandomInvert : RandomApply {
  explicit RandomInvert(double p = 0.5) : RandomApply({functional::invert}, p) {}
};
struct RandomEqualize : RandomApply {
  explicit RandomEqualize(double p = 0.5) : RandomApply({functional::equalize}, p) {}
};
struct RandomAutocontrast : RandomApply {
  explicit RandomAutocontrast(double p = 0.5) : RandomApply({functional::autocontrast}, p) {}
};
/// Keeps so many bits of each value.
struct RandomPosterize : RandomApply {
  explicit RandomPosterize(std::int64_t bits, double p = 0.5)
      : RandomApply({[bits](const core::Tensor& x) { return functional::posterize(x, bits); }}, p) {}
};
/// Inverts what is not below the threshold.
struct RandomSolarize : RandomApply {
  explicit RandomSolarize(double threshold, double p = 0.5)
      : RandomApply({[threshold](const core::Tensor& x) { return functional::solarize(x, threshold); }}, p) {}
};
struct RandomAdjustSharpness : RandomApply {
  explicit RandomAdjustSharpness(double factor, double p = 0.5)
      : RandomApply({[factor](const core::Tensor& x) { return functional::adjust_sharpness(x, factor); }}, p) {}
};

enum class AutoAugmentPolicy : std::uint8_t { imagenet, cifar10, svhn };

struct AutoAugmentOptions {
  AutoAugmentPolicy policy = AutoAugmentPolicy::imagenet;
  std::string interpolation = "nearest";
  functional::Fill fill = {};  ///< of what turns and shears uncover; empty: 0
};
class AutoAugment {
 public:
  explicit AutoAugment(AutoAugmentOptions options = {});
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  AutoAugmentOptions options_;
};

struct RandAugmentOptions {
  std::int64_t num_ops = 2;
  std::int64_t magnitude = 9;  ///< of num_magnitude_bins steps
  std::int64_t num_magnitude_bins = 31;
  std::string interpolation = "nearest";
  functional::Fill fill = {};
};
class RandAugment {
 public:
  /// Error(value) for a negative number of operations, and for a magnitude beyond the steps.
  explicit RandAugment(RandAugmentOptions options = {});
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  RandAugmentOptions options_;
};

struct TrivialAugmentWideOptions {
  std::int64_t num_magnitude_bins = 31;
  std::string interpolation = "nearest";
  functional::Fill fill = {};
};
class TrivialAugmentWide {
 public:
  explicit TrivialAugmentWide(TrivialAugmentWideOptions options = {});
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  TrivialAugmentWideOptions options_;
};

}  // namespace zoo::transforms

#pragma once
// What a training does to its images, as torchvision.transforms.v2 does it to tensors (..., channels, height, width):
// the same numbers, and from the same seed the same crops, flips and colours, drawn from core's generator of the CPU.
// Pixels are u8 from 0 to 255, or floats from 0 to 1. What is random is a class; the functions behind it are in
// functional.h. Thread safety: as the generator's draws; a transform is a plain value. Errors: Error(value, type) with
// torchvision's texts. Use: zoo::transforms::Compose train({zoo::transforms::RandomCrop({32, 32}, {.padding = {4}}),
// zoo::transforms::RandomHorizontalFlip(), zoo::transforms::ToDtype(core::DType::f32, true)}); auto y = train(x);

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/tensor.h"
#include "zoo/data/functional.h"
#include "zoo/data/image.h"

namespace zoo::transforms {

/// Every class here, and any function of yours.
using Transform = std::function<core::Tensor(const core::Tensor&)>;
/// From the first to the second number.
using Range = std::array<double, 2>;

// --- Several

class Compose {
 public:
  explicit Compose(std::vector<Transform> transforms);
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  std::vector<Transform> transforms_;
};

/// All of them with probability p, or none.
class RandomApply {
 public:
  explicit RandomApply(std::vector<Transform> transforms, double p = 0.5);
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  std::vector<Transform> transforms_;
  double p_;
};

/// One of them; `p`: how often each, default all alike.
class RandomChoice {
 public:
  explicit RandomChoice(std::vector<Transform> transforms, std::vector<double> p = {});
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  std::vector<Transform> transforms_;
  std::vector<double> p_;
};

/// All of them in random order.
class RandomOrder {
 public:
  explicit RandomOrder(std::vector<Transform> transforms);
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  std::vector<Transform> transforms_;
};

// --- Types

/// (channels, height, width) of u8; a tensor stays as it is.
struct ToImage {
  core::Tensor operator()(const Image& image) const { return functional::to_image(image); }
  core::Tensor operator()(const core::Tensor& image) const { return image; }
};

/// `scale`: from the range of one type to that of the other (u8 to f32: divided by 255).
struct ToDtype {
  core::DType dtype = core::DType::f32;
  bool scale = false;
  explicit ToDtype(core::DType to, bool scales = false) : dtype(to), scale(scales) {}
  core::Tensor operator()(const core::Tensor& image) const { return functional::to_dtype(image, dtype, scale); }
};

/// ToImage and ToDtype(f32, true) in one.
struct ToTensor {
  core::Tensor operator()(const Image& image) const { return (*this)(functional::to_image(image)); }
  core::Tensor operator()(const core::Tensor& image) const {
    return functional::to_dtype(image, core::DType::f32, true);
  }
};

/// A number a channel, or one for all.
struct Normalize {
  std::vector<double> mean, std;
  Normalize(std::vector<double> means, std::vector<double> deviations)
      : mean(std::move(means)), std(std::move(deviations)) {}
  core::Tensor operator()(const core::Tensor& image) const { return functional::normalize(image, mean, std); }
};

// --- Geometry

/// `size`: {height, width}, or {shorter side}, which keeps the ratio.
class Resize {
 public:
  explicit Resize(core::Shape size, functional::ResizeOptions options = {});
  explicit Resize(std::initializer_list<std::int64_t> size, functional::ResizeOptions options = {})
      : Resize(core::Shape(size), std::move(options)) {}
  core::Tensor operator()(const core::Tensor& image) const { return functional::resize(image, size_, options_); }

 private:
  core::Shape size_;
  functional::ResizeOptions options_;
};

/// Zeros around an image that is smaller.
class CenterCrop {
 public:
  explicit CenterCrop(core::Shape size);
  explicit CenterCrop(std::initializer_list<std::int64_t> size) : CenterCrop(core::Shape(size)) {}
  core::Tensor operator()(const core::Tensor& image) const { return functional::center_crop(image, size_); }

 private:
  core::Shape size_;
};

struct RandomCropOptions {
  core::Shape padding = {};  ///< {all}, {left and right, top and bottom} or {left, top, right, bottom}
  bool pad_if_needed = false;
  functional::Fill fill = {0};
  std::string padding_mode = "constant";  ///< edge, reflect, symmetric
};
class RandomCrop {
 public:
  explicit RandomCrop(core::Shape size, RandomCropOptions options = {});
  explicit RandomCrop(std::initializer_list<std::int64_t> size, RandomCropOptions options = {})
      : RandomCrop(core::Shape(size), std::move(options)) {}
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  core::Shape size_;
  RandomCropOptions options_;
};

struct RandomResizedCropOptions {
  Range scale = {0.08, 1};           ///< of the area
  Range ratio = {3.0 / 4, 4.0 / 3};  ///< of width and height
  std::string interpolation = "bilinear";
  bool antialias = true;
};
class RandomResizedCrop {
 public:
  explicit RandomResizedCrop(core::Shape size, RandomResizedCropOptions options = {});
  explicit RandomResizedCrop(std::initializer_list<std::int64_t> size, RandomResizedCropOptions options = {})
      : RandomResizedCrop(core::Shape(size), std::move(options)) {}
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  core::Shape size_;
  RandomResizedCropOptions options_;
};

class RandomHorizontalFlip {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  double p_;
};
class RandomVerticalFlip {
 public:
  explicit RandomVerticalFlip(double p = 0.5);
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  double p_;
};

class Pad {
 public:
  explicit Pad(core::Shape padding, functional::Fill fill = {0}, std::string padding_mode = "constant");
  explicit Pad(std::initializer_list<std::int64_t> padding, functional::Fill fill = {0},
               std::string padding_mode = "constant")
      : Pad(core::Shape(padding), std::move(fill), std::move(padding_mode)) {}
  core::Tensor operator()(const core::Tensor& image) const {
    return functional::pad(image, padding_, fill_, padding_mode_);
  }

 private:
  core::Shape padding_;
  functional::Fill fill_;
  std::string padding_mode_;
};

class RandomRotation {
 public:
  /// `degrees`: counter-clockwise.
  explicit RandomRotation(Range degrees, functional::RotateOptions options = {});
  explicit RandomRotation(double degrees, functional::RotateOptions options = {});
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  Range degrees_;
  functional::RotateOptions options_;
};

struct RandomAffineOptions {
  std::optional<Range> translate = {};  ///< at most this part of width and of height
  std::optional<Range> scale = {};
  std::vector<double> shear = {};  ///< degrees: {x from, x to} or {x from, x to, y from, y to}
  std::string interpolation = "nearest";
  functional::Fill fill = {0};
  std::optional<Range> center = {};  ///< in pixels from the upper left corner; default: the middle
};
class RandomAffine {
 public:
  explicit RandomAffine(Range degrees, RandomAffineOptions options = {});
  explicit RandomAffine(double degrees, RandomAffineOptions options = {});
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  Range degrees_;
  RandomAffineOptions options_;
};

// --- Colours

struct ColorJitterOptions {
  std::optional<Range> brightness = {}, contrast = {}, saturation = {};  ///< factors
  std::optional<Range> hue = {};                                         ///< within -0.5 and 0.5
};
class ColorJitter {
 public:
  explicit ColorJitter(const ColorJitterOptions& options);
  /// As one number each: 1 - b to 1 + b, ...; hue from -h to h. 0: none.
  explicit ColorJitter(double brightness = 0, double contrast = 0, double saturation = 0, double hue = 0);
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  ColorJitterOptions options_;
};

struct Grayscale {
  std::int64_t num_output_channels = 1;
  explicit Grayscale(std::int64_t channels = 1) : num_output_channels(channels) {}
  core::Tensor operator()(const core::Tensor& image) const {
    return functional::rgb_to_grayscale(image, num_output_channels);
  }
};
/// Grey in as many channels as there were.
class RandomGrayscale {
 public:
  explicit RandomGrayscale(double p = 0.1);
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  double p_;
};

/// `kernel_size`: {x, y} or {both}; sigma is drawn.
class GaussianBlur {
 public:
  explicit GaussianBlur(core::Shape kernel_size, Range sigma = {0.1, 2});
  explicit GaussianBlur(std::initializer_list<std::int64_t> kernel_size, Range sigma = {0.1, 2})
      : GaussianBlur(core::Shape(kernel_size), sigma) {}
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  core::Shape kernel_size_;
  Range sigma_;
};

struct RandomErasingOptions {
  double p = 0.5;
  Range scale = {0.02, 0.33};  ///< of the area
  Range ratio = {0.3, 3.3};
  std::vector<double> value = {0};  ///< one for all channels or one each; empty: normal noise
};
class RandomErasing {
 public:
  explicit RandomErasing(RandomErasingOptions options = {});
  explicit RandomErasing(double p) : RandomErasing(RandomErasingOptions{.p = p}) {}
  core::Tensor operator()(const core::Tensor& image) const;

 private:
  RandomErasingOptions options_;
};

}  // namespace zoo::transforms

#pragma once
// What a model expects of an image: size, crop, interpolation, mean and standard deviation. Those are part of a trained
// model as much as its weights. Thread safety: pure functions.
// Use: core::Tensor x = zoo::preprocess(image, *zoo::preprocessing("resnet50")).unsqueeze(0);   // (1, 3, 224, 224)

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/tensor/tensor.h"
#include "zoo/data/image.h"

namespace zoo {

struct Preprocessing {
  std::int64_t resize = 256;  ///< of the shorter side; 0: both sides become `crop`, whatever the ratio
  std::int64_t crop = 224;    ///< width and height taken from the middle; 0: all
  Interpolation interpolation = Interpolation::bilinear;
  std::int64_t channels = 3;  ///< 1: grey
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};
  std::array<float, 3> std = {0.229F, 0.224F, 0.225F};
};

/// What goes with the weights that are published for this model of the zoo; `file`, the name of the weights' file,
/// decides where there are several ("resnet50-11ad3fa6.pth"). nullopt for models that take no images.
/// Source: the presets that torchvision 0.29.2 lists beside its weights; for small models what their programs do.
std::optional<Preprocessing> preprocessing(std::string_view model, std::string_view file = {});

/// "shorter side to 256 (bilinear), middle 224 x 224, mean 0.485 0.456 0.406, std 0.229 0.224 0.225".
std::string describe(const Preprocessing& steps);

/// "mean 0.485 0.456 0.406, std 0.229 0.224 0.225", of as many channels.
std::string describe_scale(const std::array<float, 3>& mean, const std::array<float, 3>& std, std::int64_t channels);

/// The 8-bit pixels that are left: colours, size and crop without mean and deviation. Errors: those of preprocess().
Image sized(const Image& image, const Preprocessing& steps);

/// (channels, height, width), f32. Errors: Error(usage) when `crop` is larger than `resize`; those of shorter_side().
core::Tensor preprocess(const Image& image, const Preprocessing& steps);

}  // namespace zoo

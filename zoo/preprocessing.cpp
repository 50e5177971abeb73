#include "zoo/preprocessing.h"

#include <cstdio>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "zoo/zoo.h"

namespace zoo {
namespace {

constexpr auto kBicubic = Interpolation::bicubic;
constexpr Preprocessing kHalves{.mean = {0.5F, 0.5F, 0.5F}, .std = {0.5F, 0.5F, 0.5F}};

/// Values / 255 and nothing else.
constexpr Preprocessing grey(std::int64_t side, float mean = 0, float std = 1) {
  return {.resize = side, .crop = side, .channels = 1, .mean = {mean, mean, mean}, .std = {std, std, std}};
}

struct Row {
  std::string_view model;
  Preprocessing steps;
};

// Models of images that are not here have torchvision's usual steps.
constexpr Row kRows[] = {
    {"inception_v3", {.resize = 342, .crop = 299}},
    {"inception_v3_no_aux", {.resize = 342, .crop = 299}},
    {"resnext101_64x4d", {.resize = 232}},
    {"shufflenet_v2_x1_5", {.resize = 232}},
    {"shufflenet_v2_x2_0", {.resize = 232}},
    {"efficientnet_b0", {.resize = 256, .crop = 224, .interpolation = kBicubic}},
    {"efficientnet_b1", {.resize = 256, .crop = 240, .interpolation = kBicubic}},
    {"efficientnet_b2", {.resize = 288, .crop = 288, .interpolation = kBicubic}},
    {"efficientnet_b3", {.resize = 320, .crop = 300, .interpolation = kBicubic}},
    {"efficientnet_b4", {.resize = 384, .crop = 380, .interpolation = kBicubic}},
    {"efficientnet_b5", {.resize = 456, .crop = 456, .interpolation = kBicubic}},
    {"efficientnet_b6", {.resize = 528, .crop = 528, .interpolation = kBicubic}},
    {"efficientnet_b7", {.resize = 600, .crop = 600, .interpolation = kBicubic}},
    {"efficientnet_v2_s", {.resize = 384, .crop = 384}},
    {"efficientnet_v2_m", {.resize = 480, .crop = 480}},
    {"efficientnet_v2_l",
     {.resize = 480, .crop = 480, .interpolation = kBicubic, .mean = kHalves.mean, .std = kHalves.std}},
    // Published for 224 x 224 only as a linear classifier over features learnt elsewhere.
    {"regnet_y_128gf", {.resize = 224, .crop = 224, .interpolation = kBicubic}},
    {"vit_h_14", {.resize = 224, .crop = 224, .interpolation = kBicubic}},
    {"vit_l_16", {.resize = 242}},
    {"convnext_tiny", {.resize = 236}},
    {"convnext_small", {.resize = 230}},
    {"convnext_base", {.resize = 232}},
    {"convnext_large", {.resize = 232}},
    {"swin_t", {.resize = 232, .interpolation = kBicubic}},
    {"swin_s", {.resize = 246, .interpolation = kBicubic}},
    {"swin_b", {.resize = 238, .interpolation = kBicubic}},
    {"fcn_resnet50", {.resize = 520, .crop = 0}},
    {"fcn_resnet101", {.resize = 520, .crop = 0}},
    {"deeplabv3_resnet50", {.resize = 520, .crop = 0}},
    {"deeplabv3_resnet101", {.resize = 520, .crop = 0}},
    {"hf_vit_base", {.resize = 0, .crop = 224, .mean = kHalves.mean, .std = kHalves.std}},
    {"hf_vit_large", {.resize = 0, .crop = 224, .mean = kHalves.mean, .std = kHalves.std}},
    {"beit_base", {.resize = 0, .crop = 224, .mean = kHalves.mean, .std = kHalves.std}},
    {"dinov2_base", {.resize = 256, .crop = 224, .interpolation = kBicubic}},
    {"cifar_net", {.resize = 32, .crop = 32, .mean = kHalves.mean, .std = kHalves.std}},
    {"mnist_net", grey(28, 0.1307F, 0.3081F)},
    {"lenet5", grey(28)},
    {"mlp", grey(28)},
    {"batchnorm_net", grey(28)},
    {"capsnet", grey(28)},
    {"capsnet_small", grey(28)},
    {"autoencoder", grey(28)},
    {"vae", grey(28)},
};

/// Weights that were published later, for other steps: the end of their file's name.
constexpr Row kVersions[] = {
    {"efficientnet_b1-c27df63c.pth", {.resize = 255, .crop = 240}},
    {"mobilenet_v2-7ebf99e0.pth", {.resize = 232}},
    {"mobilenet_v3_large-5c1a4163.pth", {.resize = 232}},
    {"regnet_x_16gf-ba3796d7.pth", {.resize = 232}},
    {"regnet_x_1_6gf-a12f2b72.pth", {.resize = 232}},
    {"regnet_x_32gf-6eb8fdc6.pth", {.resize = 232}},
    {"regnet_x_3_2gf-7071aa85.pth", {.resize = 232}},
    {"regnet_x_400mf-62229a5f.pth", {.resize = 232}},
    {"regnet_x_800mf-94a99ebd.pth", {.resize = 232}},
    {"regnet_x_8gf-2b70d774.pth", {.resize = 232}},
    {"regnet_y_128gf_swag-c8ce3e52.pth", {.resize = 384, .crop = 384, .interpolation = kBicubic}},
    {"regnet_y_16gf-3e4a00f9.pth", {.resize = 232}},
    {"regnet_y_16gf_lc_swag-f3ec0043.pth", {.resize = 224, .interpolation = kBicubic}},
    {"regnet_y_16gf_swag-43afe44d.pth", {.resize = 384, .crop = 384, .interpolation = kBicubic}},
    {"regnet_y_1_6gf-0d7bc02a.pth", {.resize = 232}},
    {"regnet_y_32gf-8db6d4b5.pth", {.resize = 232}},
    {"regnet_y_32gf_lc_swag-e1583746.pth", {.resize = 224, .interpolation = kBicubic}},
    {"regnet_y_32gf_swag-04fdfa75.pth", {.resize = 384, .crop = 384, .interpolation = kBicubic}},
    {"regnet_y_3_2gf-9180c971.pth", {.resize = 232}},
    {"regnet_y_400mf-e6988f5f.pth", {.resize = 232}},
    {"regnet_y_800mf-58fc7688.pth", {.resize = 232}},
    {"regnet_y_8gf-dc2b1b54.pth", {.resize = 232}},
    {"resnet101-cd907fc2.pth", {.resize = 232}},
    {"resnet152-f82ba261.pth", {.resize = 232}},
    {"resnet50-11ad3fa6.pth", {.resize = 232}},
    {"resnext101_32x8d-110c445d.pth", {.resize = 232}},
    {"resnext50_32x4d-1a0047aa.pth", {.resize = 232}},
    {"vit_b_16_lc_swag-4e70ced5.pth", {.resize = 224, .interpolation = kBicubic}},
    {"vit_b_16_swag-9ac1b537.pth", {.resize = 384, .crop = 384, .interpolation = kBicubic}},
    {"vit_h_14_swag-80465313.pth", {.resize = 518, .crop = 518, .interpolation = kBicubic}},
    {"vit_l_16_lc_swag-4d563306.pth", {.resize = 224, .interpolation = kBicubic}},
    {"vit_l_16_swag-4f3808c9.pth", {.resize = 512, .crop = 512, .interpolation = kBicubic}},
    {"wide_resnet101_2-d733dc28.pth", {.resize = 232}},
    {"wide_resnet50_2-9ba9bcbe.pth", {.resize = 232}},
    {"vgg16_features-amdegroot-88682ab5.pth",
     {.mean = {0.48235F, 0.45882F, 0.40784F}, .std = {1.0F / 255, 1.0F / 255, 1.0F / 255}}},
};

std::string numbers(const std::array<float, 3>& values, std::int64_t channels) {
  std::string text;
  for (std::int64_t c = 0; c < channels; ++c) {
    char one[32];
    std::snprintf(one, sizeof one, " %.4g", static_cast<double>(values[static_cast<std::size_t>(c)]));
    text += one;
  }
  return text;
}

}  // namespace

std::optional<Preprocessing> preprocessing(std::string_view model, std::string_view file) {
  const Model* known = find(model);
  if (known == nullptr || known->input != Input::images) return std::nullopt;
  for (const Row& row : kVersions) {
    if (file.ends_with(row.model) && row.model.starts_with(model)) return row.steps;
  }
  for (const Row& row : kRows) {
    if (row.model == model) return row.steps;
  }
  return Preprocessing();
}

std::string describe(const Preprocessing& steps) {
  const std::string how = steps.interpolation == kBicubic ? " (bicubic)" : " (bilinear)";
  const std::string square = std::to_string(steps.crop) + " x " + std::to_string(steps.crop);
  std::string text = steps.channels == 1 ? "grey, " : "";
  text += steps.resize == 0 ? "to " + square + how : "shorter side to " + std::to_string(steps.resize) + how;
  if (steps.resize != 0 && steps.crop != 0) text += ", middle " + square;
  return text + ", " + describe_scale(steps.mean, steps.std, steps.channels);
}

std::string describe_scale(const std::array<float, 3>& mean, const std::array<float, 3>& std, std::int64_t channels) {
  return "mean" + numbers(mean, channels) + ", std" + numbers(std, channels);
}

Image sized(const Image& image, const Preprocessing& steps) {
  if (steps.resize != 0 && steps.crop > steps.resize) {
    throw core::Error(core::ErrorCode::usage,
                      "no " + std::to_string(steps.crop) + " pixels can be cut out of " + std::to_string(steps.resize));
  }
  const Image coloured = steps.channels == 1 ? to_grey(image) : to_rgb(image);
  if (steps.resize == 0) {
    return resize(coloured, {.width = steps.crop, .height = steps.crop, .interpolation = steps.interpolation});
  }
  ResizeOptions size = shorter_side(coloured, steps.resize);
  size.interpolation = steps.interpolation;
  const Image whole = resize(coloured, size);
  return steps.crop == 0 ? whole : center_crop(whole, steps.crop, steps.crop);
}

core::Tensor preprocess(const Image& image, const Preprocessing& steps) {
  const Image part = sized(image, steps);
  const auto plane = static_cast<std::size_t>(part.width * part.height);
  const auto channels = static_cast<std::size_t>(part.channels);
  std::vector<float> values(plane * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const float mean = steps.mean[c], std = steps.std[c];
    for (std::size_t i = 0; i < plane; ++i) {
      values[c * plane + i] = (static_cast<float>(part.pixels[i * channels + c]) / 255.0F - mean) / std;
    }
  }
  return core::from_values(std::span<const float>(values), core::Shape{part.channels, part.height, part.width},
                           {.device = core::Device("cpu")});
}

}  // namespace zoo

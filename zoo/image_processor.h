#pragma once
// What the folder of a model says about images: sizes, the middle, the scale, mean and deviation, as the image
// processors of transformers read preprocessor_config.json and compute it with Pillow. Thread safety: pure functions.
// Use: core::Tensor x = zoo::process(image, zoo::folder_image_processor("vit-base-patch16-224")).unsqueeze(0);

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "libcore/tensor/tensor.h"
#include "zoo/config.h"
#include "zoo/data/image.h"

namespace zoo {

struct ImageProcessor {
  std::int64_t shorter = 0;            ///< of the shorter side, the ratio kept; 0: by the next two
  std::int64_t height = 0, width = 0;  ///< whatever the ratio; 0: as it is
  Interpolation interpolation = Interpolation::bilinear;
  std::int64_t crop_height = 0, crop_width = 0;  ///< of the middle, black around what is smaller; 0: all
  std::int64_t channels = 3;                     ///< 1: grey
  bool blue_first = false;
  bool middle_rounds = false;  ///< a half pixel goes to the even number, as torchvision has it; else up and to the left
  double scale = 1.0 / 255;    ///< of the 8-bit values
  std::array<float, 3> mean = {0, 0, 0};
  std::array<float, 3> std = {1, 1, 1};
};

/// From the fields of a preprocessor_config.json: those of the processors of ViT, DeiT, BEiT, DINOv2 (Bit), ConvNeXt,
/// MobileViT and CLIP. Errors: Error(unsupported) naming the processor, or a field whose feature is not here; those of
/// Fields.
ImageProcessor read_image_processor(const Config& config);

/// Of a folder of timm what its config.json says (timm_images.h); of others preprocessor_config.json, or the part
/// "image_processor" of processor_config.json, of the kind of its family where it names none; without them what its
/// family has by itself, at the size that config.json says. Errors: those of folder_config() and
/// read_image_processor(), which name the file.
ImageProcessor folder_image_processor(const std::filesystem::path& folder);

/// "to 224 x 224 (bicubic), mean 0.5 0.5 0.5, std 0.5 0.5 0.5".
std::string describe(const ImageProcessor& steps);

/// The 8-bit pixels that are left: colours, size and middle. Errors: Error(refused) for sizes past kMaxPixels.
Image sized(const Image& image, const ImageProcessor& steps);

/// (channels, height, width), f32. Errors: those of sized().
core::Tensor process(const Image& image, const ImageProcessor& steps);

}  // namespace zoo

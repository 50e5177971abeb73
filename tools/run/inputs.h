#pragma once
// What a model is given: images brought to the form it expects, or tensors as they are in a file.
// Thread safety: one thread (standard input is read once). Use: ModelInput x = read_input("dog.jpg", expected);

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/tensor/tensor.h"
#include "zoo/image_processor.h"
#include "zoo/preprocessing.h"
#include "zoo/zoo.h"

namespace cli {

/// What the model takes.
struct Expected {
  zoo::Input kind = zoo::Input::numbers;
  std::optional<zoo::Preprocessing> steps = {};       ///< of images
  std::optional<zoo::ImageProcessor> processor = {};  ///< of images, where a folder says it
};

struct ModelInput {
  std::string name;     ///< as the user typed it
  std::string what;     ///< "image of 500 x 375 pixels", "tensor [1, 3, 224, 224]"
  core::Tensor tensor;  ///< images: (n, channels, height, width); tokens: (n, t) int64; numbers: as in the file
};

/// A file ("-": standard input): an image by its content, else any file with one tensor (FILE::name picks one of
/// several). Bytes of (height, width), (height, width, 1 or 3) count as an image too. Errors with the name as context:
/// those of try_read_image() and ckpt::open(); Error(unsupported) for several tensors, or one that does not fit.
ModelInput read_input(const std::string& name, const Expected& expected);

}  // namespace cli

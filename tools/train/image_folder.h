#pragma once
// Folders of images, one sub-folder a class, as torchvision's ImageFolder has them; sizes and colours become what the
// model wants, as `ckpt zoo run` brings images to it. Thread safety: pure functions.
// Use: if (train::holds_classes(folder)) DataSet data = train::load_image_folder(folder, {.model = "resnet18"});

#include <filesystem>

#include "tools/train/data_sets.h"

namespace train {

/// Whether `folder` has a sub-folder with an image (by its name) somewhere below.
bool holds_classes(const std::filesystem::path& folder);

/// Classes are the sub-folders in the order of their names, images the files below them in the order of theirs: PNG,
/// JPEG, PPM and PGM. Where the folder holds "train", and perhaps "test", "val" or "valid", these hold the classes.
/// Size, crop, colours, mean and deviation are those of zoo::preprocessing(model), the size `resize` where it is
/// given; without a model lenet5 for grey images, else resnet18. A model that says none of it gets the images as they
/// are. Errors: Error(usage) for a class without images, classes that only the test part has, and images of several
/// sizes that nothing brings to one; Error(corrupt), Error(unsupported) naming the file that cannot be read.
DataSet load_image_folder(const std::filesystem::path& folder, const DataRequest& request);

}  // namespace train

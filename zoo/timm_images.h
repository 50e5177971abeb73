#pragma once
// What timm's config.json says about images ("pretrained_cfg"): size, mean, deviation, interpolation and the share that
// the middle has, as timm's transforms for evaluation take them, and the names of the classes. Thread safety: pure.
// Use: std::optional<zoo::ImageProcessor> steps = zoo::timm_image_processor(zoo::Config::read("config.json"));

#include <optional>
#include <string>
#include <vector>

#include "zoo/image_processor.h"

namespace zoo {

/// nullopt for a file that is not timm's, or says nothing of images. Errors: Error(unsupported) naming a field whose
/// feature is not here; those of Fields.
std::optional<ImageProcessor> timm_image_processor(const Config& file);

/// "label_names" in the order of the classes; none where the file has none.
std::vector<std::string> timm_class_names(const Config& file);

}  // namespace zoo

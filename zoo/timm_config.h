#pragma once
// timm's config.json: which model of the zoo its architecture is, and its arguments under torchvision's names.
// Thread safety: pure. Use: auto [name, fields] = zoo::timm_model("vit_tiny_patch16_224", config);

#include <string>
#include <utility>

#include "zoo/config.h"

namespace zoo {

/// The name of a known model or family and the fields over it; the architecture itself where nothing here is like it.
/// `file`: {"architecture": ..., "num_classes": 10, "model_args": {...}}. A tag behind a dot in the architecture says
/// which weights and is left out. Errors: Error(unsupported) naming an argument that is not known here; those of
/// Fields.
std::pair<std::string, Config> timm_model(const std::string& architecture, const Config& file);

}  // namespace zoo

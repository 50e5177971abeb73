#pragma once
// The model zoo by name: which models there are, and one of them built with freshly drawn parameters.
// Thread safety: list() is a constant; make() draws from the default generator.
// Use: auto net = zoo::make("resnet50", {.num_classes = 10}); core::Tensor logits = net->call(images);

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "libcore/module/module.h"

namespace zoo {

/// What can be asked of every model; 0 leaves it as the model has it.
struct ModelOptions {
  std::int64_t num_classes = 0;  ///< logits of a classifier, classes of a segmentation
  std::int64_t in_channels = 0;  ///< of the images
};

struct Model {
  std::string_view name;   ///< "resnet50"
  std::string_view about;  ///< one line for a person
  std::shared_ptr<core::Module> (*make_size)(std::string_view size, const ModelOptions& options);
  std::string_view size;  ///< which of its family: "50"
};

/// All models, family by family.
std::span<const Model> list();
/// Null when there is no such model.
const Model* find(std::string_view name);
/// Error(usage) that names what is near when there is no such model, or for an option that the model does not have.
std::shared_ptr<core::Module> make(std::string_view name, const ModelOptions& options = {});

}  // namespace zoo

#pragma once
// The model zoo by name: which models there are, and one of them built with freshly drawn parameters.
// Thread safety: list() is a constant; make() draws from the default generator.
// Use: auto net = zoo::make("resnet50", {.num_classes = 10}); core::Tensor logits = net->call(images);

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "libcore/module/module.h"
#include "zoo/config.h"

namespace zoo {

/// What can be asked of every model; 0 leaves it as the model has it.
struct ModelOptions {
  std::int64_t num_classes = 0;  ///< logits of a classifier, classes of a segmentation
  std::int64_t in_channels = 0;  ///< of the images
};

/// What a model takes.
enum class Input : std::uint8_t {
  images,   ///< (n, channels, height, width), made as preprocessing() says
  tokens,   ///< (n, t) i64
  numbers,  ///< anything else
};

/// What its main output says.
enum class Answer : std::uint8_t {
  classes,        ///< (n, classes) logits
  lengths,        ///< (n, classes) lengths of capsules, no logits
  pixels,         ///< (n, classes, height, width) logits
  next_token,     ///< (n, t, tokens) logits of the token that follows
  hidden_tokens,  ///< (n, t, tokens) logits of the tokens that the input hides
  features,       ///< values; classes of a model that was made with a number of them
  values,         ///< anything else
};

struct Family;

/// One of the known models: a family and what it is built from.
struct Model {
  std::string_view name;   ///< "resnet50"
  std::string_view about;  ///< one line for a person
  const Family* family;
  std::string_view config;  ///< the fields that differ from the family's own, one JSON object
  Input input;
  Answer answer;
};

/// All models, family by family.
std::span<const Model> list();
/// Null when there is no such model.
const Model* find(std::string_view name);
/// Error(usage) that names what is near when there is no such model, or for an option that the model does not have.
std::shared_ptr<core::Module> make(std::string_view name, const ModelOptions& options = {});
/// A model of a family by the keyword arguments of its constructor: zoo::make("ResNet", Config::parse(R"({"block":
/// "Bottleneck", "layers": [2, 2, 2, 2]})")). The name of a known model stands for its family with its own fields, of
/// which `config` sets others. Errors: Error(usage) that names what is near; Error(unsupported) naming a field whose
/// feature is not here, or Error(usage) one whose value cannot be; those of the model's own checks.
std::shared_ptr<core::Module> make(std::string_view family, const Config& config);
/// The family that `name` stands for, and all its fields: those of a known model with `config` over them. Error(usage)
/// as make().
std::pair<const Family*, Config> resolve(std::string_view name, const Config& config);

/// The main output of `module`, which was made as this model, for a batch `x`. Errors: those of its forward.
core::Tensor main_output(const Model& model, core::Module& module, const core::Tensor& x);
/// What that output says: Answer::classes in place of Answer::features where `module` has classes.
Answer answer_of(const Model& model, const core::Module& module);

}  // namespace zoo

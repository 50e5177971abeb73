#pragma once
// The model zoo by name: which models there are, and one of them built with freshly drawn parameters.
// Thread safety: list() is a constant; make() draws from the default generator.
// Use: auto net = zoo::make("resnet50", {.num_classes = 10}); core::Tensor logits = net->call(images);

#include <array>
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

struct Model {
  std::string_view name;   ///< "resnet50"
  std::string_view about;  ///< one line for a person
  Input input;
  Answer answer;
  std::shared_ptr<core::Module> (*make)(const Model& model, const ModelOptions& options);
  std::array<std::int64_t, 6> sizes = {};  ///< what tells it from others of its family, as `make` reads it: layers, ...
  std::string_view form = {};              ///< the same in a word: "large"
  /// Its main output for `x` where a plain call does not give it; else null.
  core::Tensor (*main_output)(core::Module& module, const core::Tensor& x) = nullptr;
};

/// All models, family by family.
std::span<const Model> list();
/// Null when there is no such model.
const Model* find(std::string_view name);
/// Error(usage) that names what is near when there is no such model, or for an option that the model does not have.
std::shared_ptr<core::Module> make(std::string_view name, const ModelOptions& options = {});

/// The main output of `module`, which was made as this model, for a batch `x`. Errors: those of its forward.
core::Tensor main_output(const Model& model, core::Module& module, const core::Tensor& x);
/// What that output says: Answer::classes in place of Answer::features where `module` has classes.
Answer answer_of(const Model& model, const core::Module& module);

}  // namespace zoo

#pragma once
// Models made to the measure of a file: the number of its classes, its image channels, and for the families of
// measure.h also depth and width, read from the names and shapes of the file's tensors. Nothing is loaded. Thread
// safety: as make(); not beside other threads that make tensors, since models are laid out on the meta device. Use:
// zoo::Fit fit = zoo::fit("resnet18", "mine.pth"); zoo::load_into(*fit.model, "resnet18", "mine.pth");

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "libcore/module/module.h"
#include "zoo/load.h"

namespace zoo {

struct FitOptions {
  LoadOptions load = {};
  /// Attention heads of a text model: no shape says how many. 0: those of the named model where the sizes are its own,
  /// else what the file's "model_args" says.
  std::int64_t heads = 0;
  /// Fields of the family that no shape says, such as heads and epsilons, and any others; they stand over what shapes
  /// say.
  Config config = {};
};

struct Fit {
  std::shared_ptr<core::Module> model;  ///< freshly drawn
  std::string text;                     ///< what is not as the named model has it: "10 classes", "" for nothing
};

/// A model of this name or family whose parameters have the shapes of the file's tensors, as far as classes (rows of
/// the vocabulary, for text models), image channels, and for nanoGPT, the character models and the families of
/// measure.h layers and widths go. Fields that no shape says are those of the named model where the width is its own.
/// Errors: those of make(); Error(usage) that names a field which no shape says and which was not given;
/// Error(unsupported) for a family whose sizes are not read from files; those of ckpt::open().
Fit fit(std::string_view name, const std::filesystem::path& file, const FitOptions& options = {});

}  // namespace zoo

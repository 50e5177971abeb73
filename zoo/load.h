#pragma once
// Loading weights from anywhere into a model of the zoo: from DataParallel or torch.compile, nested in a training
// state, tagged with devices that are not there, in the names of another project (zoo/rules).
// Thread safety: as make(). Use: auto net = zoo::load("resnet50", "model_best.pth.tar"); net->eval();

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/analyze/key_list.h"
#include "libckpt/open_save.h"
#include "libcore/module/module.h"
#include "zoo/zoo.h"

namespace zoo {

struct LoadOptions {
  ModelOptions model = {};
  /// Which state dict, where a file holds several: "ema.model". Empty: the one that fits best.
  std::string at = {};
  /// Also take a plan that ckpt::Diagnosis::guesses(): names tell nothing and the order is not the model's, so that
  /// several tensors of one shape are paired in the order that they have among themselves. Tensors in the model's order
  /// with its shapes are paired without it.
  bool guess = false;
  ckpt::OpenOptions open = {};
};

/// What was done to the file's tensors on their way.
struct LoadNotes {
  std::vector<std::string> steps;     ///< "strip 'module.'", one line each
  std::vector<std::string> warnings;  ///< of opening the file, and what two projects do differently beside names
};

/// The names, shapes and dtypes that a module's state has, and which of them are one tensor, for ckpt::why.
ckpt::KeyList key_list_of(const core::Module& module, std::string_view name);

/// Whether load_into() would take the file, in a few words: "fit", "fit after: strip 'module.'", "do not fit: ...".
/// Reads names and shapes alone; a module on the meta device will do. Errors: Error(io).
std::string fit_of(const core::Module& module, const std::filesystem::path& file);

/// A new model with the weights of `file`, on the CPU. Errors: those of make(); Error(unsupported) that says what does
/// not fit and what helps; those of ckpt::open().
std::shared_ptr<core::Module> load(std::string_view name, const std::filesystem::path& file,
                                   const LoadOptions& options = {}, LoadNotes* notes = nullptr);

/// The same into a module that is there already.
void load_into(core::Module& module, std::string_view name, const std::filesystem::path& file,
               const LoadOptions& options = {}, LoadNotes* notes = nullptr);

}  // namespace zoo

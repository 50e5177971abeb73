#pragma once
// A model from the folder that people have: its configuration and its weights, of one file or several, as Hugging Face
// and timm publish them, or with a config.json that names a family of the zoo.
// Thread safety: as make(); not beside other threads that make tensors, since the model is laid out first.
// Use: zoo::FolderModel net = zoo::from_folder("Llama-3.2-1B"); core::Tensor logits = net.model->call(tokens);

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libcore/base/dtype.h"
#include "zoo/config.h"
#include "zoo/family.h"
#include "zoo/load.h"

namespace zoo {

/// What a folder says of its model.
struct FolderConfig {
  const Family* family = nullptr;
  /// The fields of config.json that the family reads; of timm's and of a known model's also those that its name says.
  Config config;
};

/// Reads config.json alone. "architectures" names the family; without it "model_type" (the usual head is taken),
/// timm's "architecture", or "family": the name of a family or a known model, whose fields lie beside it. Errors: those
/// of Config::read(); Error(unsupported) for a family that is not here, naming it.
FolderConfig folder_config(const std::filesystem::path& folder);

/// Names of classes by their numbers ("id2label"); none where the fields have none, or not one for each number from 0.
/// Errors: Error(corrupt) for what is no JSON.
std::vector<std::string> class_names(const Config& config);

/// The floating dtype that most of the folder's weights have. Errors: those of ckpt::open().
core::DType folder_dtype(const std::filesystem::path& folder);

struct FolderOptions {
  LoadOptions load = {};
  /// Of floating parameters; nullopt: that of the weights, so that a model in bf16 never becomes f32 in memory.
  std::optional<core::DType> dtype = {};
  Config config = {};                            ///< fields over those of the folder
  std::optional<ckpt::Checkpoint> weights = {};  ///< by the model's own names, in the place of the folder's
};

struct FolderModel {
  std::shared_ptr<core::Module> model;  ///< on the CPU, in evaluation mode
  const Family* family = nullptr;
  Config config;
  core::DType dtype = core::DType::f32;
  LoadNotes notes;
};

/// The model with the folder's weights. Errors: those of folder_config(), make() and load(); Error(unsupported) saying
/// of which model the weights look to be where config.json is of another; Error(device) saying how much the weights
/// need where so much is not free. All name the folder.
FolderModel from_folder(const std::filesystem::path& folder, const FolderOptions& options = {});

}  // namespace zoo

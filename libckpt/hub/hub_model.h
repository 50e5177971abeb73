#pragma once
// HubModel: what a folder holds that Hugging Face's libraries load, and how it is written as one whole.
// Thread safety: plain value. Use: ckpt::save_hub_model(ckpt::from_gguf_model(gguf), "back");
// ckpt::save_hub_model(ckpt::hub_model_like("base", checkpoint), "tuned");

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"
#include "libcore/base/bytes.h"

namespace ckpt {

struct HubModel {
  Checkpoint weights;
  std::string weights_name = "model.safetensors";                    ///< in the folder
  std::vector<std::pair<std::string, core::ByteVector>> files = {};  ///< config.json and what else lies beside them
};

/// `weights` with the files that lie beside those of the model in `folder`: its configurations, its tokenizer, its code
/// and its licence, not other weights, adapters or states of a training. Where a table of tokens has other rows than
/// there, "vocab_size" of config.json follows. Errors: Error(io) for a folder without config.json; Error(refused) for a
/// symbolic link that leads out of it, unless `allow_symlinks`; those of open() for the folder's own weights.
HubModel hub_model_like(const std::filesystem::path& folder, Checkpoint weights, bool allow_symlinks = false);

/// Writes the folder, which appears when all is in it. Errors: those of save(); Error(io) when there is such a file or
/// folder, with options.overwrite only for a folder that holds other files than such a model has.
void save_hub_model(const HubModel& model, const std::filesystem::path& folder, const SaveOptions& options = {});

}  // namespace ckpt

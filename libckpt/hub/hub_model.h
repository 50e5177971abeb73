#pragma once
// HubModel: what a folder holds that Hugging Face's libraries load, and how it is written as one whole.
// Thread safety: plain value. Use: ckpt::save_hub_model(ckpt::from_gguf_model(gguf), "back");

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

/// Writes the folder, which appears when all is in it. Errors: those of save(); Error(io) when there is such a file or
/// folder, with options.overwrite only for a folder that holds other files than such a model has.
void save_hub_model(const HubModel& model, const std::filesystem::path& folder, const SaveOptions& options = {});

}  // namespace ckpt

#pragma once
// What `ckpt convert` does with models of Hugging Face and llama.cpp: a folder with a config.json becomes the GGUF file
// that llama.cpp's converter writes, and such a file a folder. Thread safety: one thread.
// Use: if (is_hub_folder(job.source)) edit = take_hub_model(checkpoint, job.source.path, {"Q8_0"}, options);

#include <string>

#include "libckpt/hub/hub_model.h"
#include "libckpt/hub/quantization_config.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {

/// What --dtype says in --help.
std::string gguf_type_names();

struct HubModelTypes {
  std::string dtype;        ///< of matrices: "f16", "Q8_0"; "" keeps theirs
  bool dequantize = false;  ///< layers of GPTQ and others first
};

/// The folder's model as llama.cpp has it. Of models that are not known the tensors as they are, with a warning.
/// Error(usage) for a type that GGUF files do not get.
Edit take_hub_model(const ckpt::Checkpoint& checkpoint, const std::filesystem::path& folder, const HubModelTypes& types,
                    const EditOptions& options);

/// How the file at `path` is quantised as far as the files beside it say; of those that cannot be read nothing.
inline ckpt::QuantizationConfig config_beside(const std::filesystem::path& path) {
  try {
    return ckpt::quantization_config(path);
  } catch (const core::Error&) {
    return {};
  }
}

/// Whether this is a folder whose config.json may say what its model is.
bool is_hub_folder(const Address& source);

/// Whether a GGUF file is to become a folder of transformers: a file whose name ends in .gguf, and a target that is, or
/// by a final '/' asks for, a folder.
bool makes_hub_folder(const Address& source, const std::string& target, const std::string& format);

/// The folder `options.output`, without a final '/'. Error(io) where there is such a file or folder, without --force.
std::filesystem::path hub_folder_target(const EditOptions& options);

/// Saves the model with a progress bar, unless it is a dry run.
void save_hub_folder(const EditOptions& options, const ckpt::HubModel& model, const std::filesystem::path& target,
                     ckpt::Report& report);

/// "96 KiB of weights written, and 4 files beside them".
std::string written_hub_text(const EditOptions& options, const ckpt::HubModel& model, const ckpt::Report& report);

/// Writes the folder `options.output`. Returns the exit code.
int write_hub_folder(Context& context, const EditOptions& options, const Address& source, bool dequantize);

}  // namespace cli

#pragma once
// A folder as one model: the shard index in it. Thread safety: pure.
// Use: Checkpoint c = ckpt::open(ckpt::find_model_index("llama/"));

#include <filesystem>

namespace ckpt {

/// The only file "*.index.json" in a folder. Anything that is no folder is given back as it is. Errors: Error(usage)
/// listing the candidates when there are several; Error(io) when there is none or the folder cannot be read.
std::filesystem::path find_model_index(const std::filesystem::path& folder);

}  // namespace ckpt

#pragma once
// PyTorch files that are parts of one checkpoint, such as those of the processes of DeepSpeed and Megatron.
// Thread safety: pure. Use: Value root = read_torch_part(input, folder, "mp_rank_00/model_optim_rng.pt", options);

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

/// The dict that a file of `folder` holds; objects of unknown classes are kept as data. `input` is the checkpoint,
/// which counts what is read. All errors name the file: those of the reader, Error(corrupt) for a file of another
/// format.
Value read_torch_part(const Input& input, const std::filesystem::path& folder, const std::string& name,
                      const OpenOptions& options);

/// What verify() says of files in `folder` that are joined to one checkpoint. `join` reads and joins them and gives
/// their names; then each is held to what it records. Errors: those of `join`.
VerifyResult verify_joined_parts(const std::filesystem::path& folder, const OpenOptions& options,
                                 const Progress& progress,
                                 const std::function<std::vector<std::string>(const OpenOptions&)>& join);

}  // namespace ckpt::detail

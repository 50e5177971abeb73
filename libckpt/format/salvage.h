#pragma once
// What can be read of files that their own readers refuse: cut ones, and archives without a directory. Tensors that are
// not there throw when they are read, so that one sieve serves all formats.
// Thread safety: pure. Use: if (auto found = salvage_zip(input, options)) ...

#include <optional>

#include "libckpt/format/format.h"
#include "libckpt/rescue.h"

namespace ckpt::detail {

struct Salvage {
  Checkpoint checkpoint;
  std::string format;
  bool proven = true;  ///< the format has a checksum for every tensor
  std::vector<Finding> lost = {};
  bool damaged = false;  ///< its own reader refuses the file
};

/// A PyTorch zip file or .npz by the headers of its records. Errors: Error(corrupt) when what describes the tensors
/// (data.pkl) is not among them; nullopt for a file that is neither.
std::optional<Salvage> salvage_zip(const Input& input, const RescueOptions& options);

/// A safetensors file that is cut behind its header.
std::optional<Salvage> salvage_safetensors(const Input& input, const RescueOptions& options,
                                           const std::filesystem::path& scratch);

}  // namespace ckpt::detail

#pragma once
// The tar archive of PyTorch before 0.1.11: storages, tensors over them, and a pickle that refers to both by number.
// Storages stay in the file. Thread safety: pure. Use: TarCheckpoint tar = read_tar_checkpoint(file, options, check);

#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/open_save.h"

namespace ckpt {

struct TarCheckpoint {
  Value root;
  std::uint64_t storages = 0;
};

/// Errors: Error(unsupported) for a tar that is no checkpoint; Error(corrupt) for one that is cut off or contradicts
/// itself; Error(refused) for symbols that are not accepted.
TarCheckpoint read_tar_checkpoint(const SourcePtr& file, const OpenOptions& options, SymbolCheck check);

}  // namespace ckpt

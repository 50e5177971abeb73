#pragma once
// The tar archive of PyTorch before 0.1.11: storages, tensors over them, and a pickle that refers to both by number.
// Storages stay in the file. Thread safety: pure. Use: TarCheckpoint tar = read_tar_checkpoint(file, options, check);

#include <functional>
#include <string>

#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/options.h"
#include "libckpt/value.h"

namespace ckpt {

struct TarCheckpoint {
  Value root;
  std::uint64_t storages = 0;
};

/// Gets every pickle of the archive as it is found: the member it is in, its first byte there, and its bytes.
using TarPickleObserver = std::function<void(const std::string& member, std::uint64_t at, core::Bytes pickle)>;

/// Errors: Error(unsupported) for a tar that is no checkpoint; Error(corrupt) for one that is cut off or contradicts
/// itself; Error(refused) for symbols that are not accepted.
TarCheckpoint read_tar_checkpoint(const SourcePtr& file, const OpenOptions& options, SymbolCheck check,
                                  const TarPickleObserver& observer = {});

}  // namespace ckpt

#pragma once
// The files of one FSDP checkpoint: one a rank, each a PyTorch file with ShardedTensors or DTensors. Thread safety:
// pure. Use: FsdpFiles files = read_fsdp_files(input, options);

#include <optional>
#include <string>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

/// "model_rank1.pth" without its rank: "model_rank" and ".pth".
struct FsdpName {
  std::string before;
  std::string behind;
  std::uint64_t rank = 0;

  std::string of(std::uint64_t other) const { return before + std::to_string(other) + behind; }
};

/// nullopt for a name that ends in no number before .pth, .pt, .bin or .ckpt.
std::optional<FsdpName> fsdp_name(const std::string& file);
/// Whether a PyTorch file has ShardedTensors or DTensors, as far as its first megabytes show.
bool names_shards(const ByteSource& file);
/// The files of this name for any rank that are in the folder, by rank.
std::vector<std::string> ranks_beside(const std::filesystem::path& folder, const FsdpName& name);

struct FsdpFiles {
  std::vector<std::string> names;  ///< in the order of ranks
  std::vector<Value> roots;        ///< the same
};

/// Errors: Error(corrupt) naming the files that are missing, or the one of another run or rank; Error(refused) for
/// classes that no table knows; those of the reader of PyTorch files.
FsdpFiles read_fsdp_files(const Input& input, const OpenOptions& options);

}  // namespace ckpt::detail

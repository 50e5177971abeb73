#pragma once
// The files of one checkpoint of Megatron-LM: one a rank, read as PyTorch files. Thread safety: pure.
// Use: MegatronFiles files = read_megatron_files(input, options);

#include <optional>
#include <string>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

/// What "mp_rank_01_003/model_optim_rng.pt" says.
struct MegatronRank {
  std::string file = {};           ///< from the folder of the checkpoint
  std::vector<std::size_t> ranks;  ///< of tensor parallelism, then of pipeline and of experts, where they are in use
};

/// The ranks that a folder's name says: "mp_rank_00", "mp_rank_00_001". nullopt for another name.
std::optional<std::vector<std::size_t>> megatron_ranks(const std::string& folder);
/// Of all ranks in the folder of the checkpoint, sorted.
std::vector<MegatronRank> list_megatron_ranks(const std::filesystem::path& folder);

struct MegatronFiles {
  std::size_t tensor = 1;          ///< ranks that each hold a part of every tensor
  std::size_t stages = 1;          ///< of the pipeline, which hold layers
  std::size_t experts = 1;         ///< ranks that each hold some experts of every layer
  double version = 0;              ///< checkpoint_version
  std::vector<std::string> names;  ///< expert ranks, in each the stages, in each the tensor-parallel ranks
  std::vector<Value> roots;        ///< as `names`
  const Value* find_argument(std::string_view name) const;  ///< of the command line that trained it; null without
  std::size_t at(std::size_t expert, std::size_t stage, std::size_t rank) const {
    return (expert * stages + stage) * tensor + rank;
  }
  /// The same for a whole number above 0; 0 without.
  std::uint64_t number(std::string_view name) const;
};

/// Errors: Error(corrupt) naming the files that are missing; those of the reader of PyTorch files.
MegatronFiles read_megatron_files(const Input& input, const OpenOptions& options);

}  // namespace ckpt::detail

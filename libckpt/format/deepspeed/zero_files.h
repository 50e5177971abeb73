#pragma once
// The files of one ZeRO checkpoint: what each process wrote, read as PyTorch files. Thread safety: pure.
// Use: ZeroFiles files = read_zero_files(input, options);

#include <string>
#include <vector>

#include "libckpt/format/format.h"

namespace ckpt::detail {

/// The name without its rank: "bf16_zero_pp_rank_" and "_mp_rank_00_optim_states.pt".
struct ZeroName {
  std::string before;
  std::string behind;

  std::string of(std::uint64_t rank) const { return before + std::to_string(rank) + behind; }
};

/// nullopt for a name of another form.
std::optional<ZeroName> zero_name(const std::string& file);

struct ZeroFiles {
  std::int64_t stage = 0;
  std::vector<std::string> names;  ///< of all files
  std::vector<Value> optimizers;   ///< optimizer_state_dict of every process, in the order of their ranks
  std::vector<Value> models;       ///< of every process; stages 1 and 2: one
};

/// Errors: Error(corrupt) naming the files that are missing, or what a file lacks; those of the reader of PyTorch
/// files.
ZeroFiles read_zero_files(const Input& input, const OpenOptions& options);

/// The value under a key. Errors: Error(corrupt) when there is none.
const Value& required(const Value& dict, std::string_view key);

}  // namespace ckpt::detail

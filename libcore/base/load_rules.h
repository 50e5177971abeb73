#pragma once
// The rules of load_state_dict that need no tensor: which shape a parameter takes, which key may be missing, and the
// words for what does not fit. Module::load_state_dict loads by them, and whoever has only names and shapes foretells
// by them whether it would. Source: torch.nn.Module._load_from_state_dict, _NormBase._load_from_state_dict.
// Thread safety: pure. Use: if (!core::load_takes_shape(wanted, given))
// errors.push_back(core::size_mismatch_text(...));

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/shape.h"

namespace core {

/// Whether a parameter or buffer of shape `target` takes a tensor of shape `given`: the same shape, or the one element
/// of shape [1] that scalars had before PyTorch 0.4.
bool load_takes_shape(const Shape& target, const Shape& given);

/// PyTorch's line about a tensor that does not fit.
std::string size_mismatch_text(const std::string& key, const Shape& given, const Shape& target);

/// Whether `num_batches_tracked` may be missing: norms saved before version 2, or without a version, did not have it.
bool load_adds_counter(std::optional<std::int64_t> saved_version);

/// What load_state_dict found, in module order.
struct LoadProblems {
  std::vector<std::string> missing = {};     ///< keys that the module has and the state dict has not
  std::vector<std::string> unexpected = {};  ///< keys that the state dict has and no module
  std::vector<std::string> errors = {};      ///< one line each: another shape, no tensor
  bool none() const { return missing.empty() && unexpected.empty() && errors.empty(); }
};

/// PyTorch's lines: "Missing key(s) in state_dict: ...", "Unexpected key(s) in state_dict: ...", then the errors.
std::vector<std::string> load_problem_lines(const LoadProblems& problems);

}  // namespace core

#pragma once
// The state of optimizers in a training file: whose it is, by name; without it, on another device, under other keys.
// An optimizer is a dict with "state" and "param_groups", as torch.optim writes it, wherever it stands (Lightning's
// optimizer_states too); parameters are numbered there, or named where FSDP or a rekey wrote it. One with flat keys
// ("state.fc.weight.exp_avg", of a distributed checkpoint) is read as one that is keyed by names. Thread safety: pure.
// Use: for (const ckpt::OptimizerState& o : ckpt::describe_optimizers(checkpoint)) for (auto& p : o.params) std::cout
// << p.name;

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/map_location.h"

namespace ckpt {

struct OptimizerOptions {
  std::string at = {};  ///< dotted path of one optimizer; "" = all
  /// State dict whose order and shapes give numbers their names; null = the one beside the optimizer, if there is one.
  const Value* model = nullptr;
};

/// How a parameter got its name.
enum class NameEvidence : std::uint8_t {
  key,          ///< the file says it: the state is keyed by names
  param_names,  ///< the file says it: param_names of the group
  order,        ///< the order of the model's parameters; no state to compare shapes with
  shape,        ///< the order, and the shapes of the state fit
  ambiguous,    ///< several parameters fit
  unknown,      ///< no model to compare with, or nothing fits
};
std::string_view name(NameEvidence evidence);

struct OptimizerSlot {
  std::string name;  ///< "exp_avg"
  Value value;       ///< a tensor, or a number
};

struct OptimizerParam {
  Value key;         ///< number or name, as in the file
  std::string name;  ///< "" when it is not certain
  NameEvidence evidence = NameEvidence::unknown;
  std::string candidates;  ///< ambiguous: "'a.weight' or 'b.weight'", the first and the last that fit
  std::size_t group = 0;
  std::vector<OptimizerSlot> slots;
  std::uint64_t bytes = 0;
};

struct OptimizerGroup {
  std::uint64_t params = 0;
  std::vector<std::pair<std::string, Value>> settings;  ///< lr, betas, ...
};

struct OptimizerState {
  std::string at;  ///< dotted path, "" for the top
  bool by_name = false;
  std::vector<OptimizerGroup> groups;
  std::vector<OptimizerParam> params;  ///< in the order of the groups
  std::uint64_t bytes = 0;
  std::string note;  ///< why names are missing, "" when none is
};

/// Errors: Error(key) when there is no optimizer, or none at `at`; Error(corrupt) for groups that contradict the state.
std::vector<OptimizerState> describe_optimizers(const Checkpoint& checkpoint, const OptimizerOptions& options = {});

struct OptimizerChanges {
  std::vector<std::string> optimizers;  ///< dotted paths of those that were changed
  std::uint64_t params = 0;
  std::uint64_t bytes = 0;  ///< of the state
};

/// The file without its optimizers. Errors: as above; Error(refused) when nothing else is in the file.
Checkpoint drop_optimizers(const Checkpoint& checkpoint, const OptimizerOptions& options = {},
                           OptimizerChanges* changes = nullptr);

/// Other device tags for the state. Step counters stay on the CPU where PyTorch wants them there: unless a group is
/// capturable or fused. Errors: as above; Error(usage) for a tag that is not a device.
Checkpoint move_optimizers(const Checkpoint& checkpoint, const std::string& to, const OptimizerOptions& options = {},
                           LocationChanges* changes = nullptr);

enum class OptimizerKeys : std::uint8_t {
  index,  ///< 0, 1, ... in the order of the groups, names in param_names: what torch.optim loads
  name,   ///< the names themselves, in state and params: what FSDP's full state has
};

/// Errors: as above; Error(refused) listing parameters without a certain name.
Checkpoint rekey_optimizers(const Checkpoint& checkpoint, OptimizerKeys keys, const OptimizerOptions& options = {},
                            OptimizerChanges* changes = nullptr);

}  // namespace ckpt

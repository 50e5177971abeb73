#pragma once
// State dicts of several checkpoints that are to be combined tensor by tensor. Internal to average and merge.
// Thread safety: pure. Use: const std::vector<ComparedModel> models = same_models({checkpoint, checkpoint}, {});

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/children.h"

namespace ckpt::detail {

struct ComparedModel {
  std::string file;  ///< for messages
  const Value* value = nullptr;
  std::vector<NamedEntry> entries;
  std::map<std::string, const Entry*, std::less<>> by_name;
};

/// The model of each; `at`: which state dict, one for all or one a checkpoint, empty for the only one. They point into
/// the checkpoints. Errors: those of choose_state_dict(); Error(refused) listing keys, shapes and dtypes that differ
/// from the first's.
std::vector<ComparedModel> same_models(const std::vector<Checkpoint>& checkpoints, const std::vector<std::string>& at);

}  // namespace ckpt::detail

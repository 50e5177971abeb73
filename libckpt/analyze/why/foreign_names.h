#pragma once
// Names of another project: rule packs that fit what is left to explain.
// Thread safety: one owner of the attempt. Use: if (!find_foreign_names(attempt, packs)) ...

#include <string_view>
#include <vector>

#include "libckpt/analyze/why/attempt.h"
#include "libckpt/transform/rule_pack.h"

namespace ckpt::detail {

/// Tries every pack both ways, on keys without wrappers; one that brings keys to their partners becomes a cause with a
/// step. False when several packs fit as well and give tensors other names: that is left to the user, as a cause.
bool find_foreign_names(Attempt& attempt, const std::vector<RulePack>& packs);

/// Keras 3 counts the layers of a class: layers.conv2d_7.vars.0.
bool is_counted_by_keras(std::string_view name);

/// Known models by what rules for the file's names make of it, best first: Keras' kernels lie otherwise, so that their
/// shapes alone (nearest_models()) say nothing. Of rules for one depth only; empty where none knows a name.
std::vector<NearModel> models_by_rules(const std::vector<FileKey>& file, const std::vector<RulePack>& packs,
                                       const std::vector<KeyList>& known);

}  // namespace ckpt::detail

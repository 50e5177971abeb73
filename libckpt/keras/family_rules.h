#pragma once
// Rules of a family (rule_pack.h) for files of Keras before 3, and for those that Keras 3 writes like them (.h5): such
// name their layers, where the rules count them by class. Thread safety: pure.
// Use: ckpt::apply_rules(checkpoint, ckpt::keras_family_rules(pack, checkpoint, keys));

#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/rule_pack.h"

namespace ckpt {

/// rules_for(), before which the names of a legacy .h5 file ("conv1_conv.conv1_conv.kernel:0") become those of Keras 3
/// ("layers.conv2d.vars.0") as far as the pack knows them: by `model_config` where the file has one, also of a model
/// inside of the file's, else by the kinds of weights in the order of the file. `keys` are the tensors that the rules
/// are for, in that order. Errors: those of rules_for(); Error(refused) where names are of Keras before 3 and neither a
/// configuration nor the file of HDF5 itself says in which order the layers are.
Rules keras_family_rules(const RulePack& pack, const Checkpoint& checkpoint, const std::vector<NamedShape>& keys);

}  // namespace ckpt

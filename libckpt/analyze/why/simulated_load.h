#pragma once
// What load_state_dict(strict=True) would say of a state dict, known from names, shapes and versions alone: a diagnosis
// is put to this test before anything is promised. The rules are those Module::load_state_dict loads by
// (libcore/base/load_rules.h).
// Thread safety: pure. Use: if (simulate_load(dict, wanted).none()) ...

#include "libckpt/analyze/key_list.h"
#include "libcore/base/load_rules.h"

namespace ckpt::detail {

/// Problems in PyTorch's words, in the order of `wanted` and of the dict. A key that is wanted without a shape takes
/// any. Cost: linear.
core::LoadProblems simulate_load(const Dict& state_dict, const KeyList& wanted);

/// True when torch.load and safetensors' load_file give the value itself as what load_state_dict takes: a dict, with
/// names as keys and nothing but tensors in it.
bool is_dict_of_tensors(const Value& value);

}  // namespace ckpt::detail

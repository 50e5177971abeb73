#pragma once
// Query, key and value of attention: one tensor in some projects, three in others.
// Thread safety: pure; one owner of the attempt. Use: find_projections(attempt);

#include <string_view>

#include "libckpt/analyze/why/attempt.h"

namespace ckpt::detail {

/// "q_proj", "key": the name of a module that holds one of the three.
bool holds_one_projection(std::string_view module);
/// "qkv", "in_proj": of one that holds all.
bool holds_all_projections(std::string_view module);

/// Joins three tensors of the file into one of the model, or splits one into three. Where the model's shapes are not
/// known, the one is split only where it has three times as many rows as columns: with fewer heads for keys and values
/// the parts are not of one size.
void find_projections(Attempt& attempt);

}  // namespace ckpt::detail

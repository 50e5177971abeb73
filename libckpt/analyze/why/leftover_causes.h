#pragma once
// Causes that lie in keys without a partner: counters of batch norm, tied names, stale buffers, extra and missing keys.
// Thread safety: one owner of the attempt. Use: find_leftovers(attempt); find_missing_and_extra(attempt, kinship);

#include "libckpt/analyze/why/attempt.h"

namespace ckpt::detail {

/// "conv1.total_ops", "conv1.total_params": what thop leaves in a model that it counted.
bool is_profiler_count(std::string_view key);

/// "lm_head.weight", "wte.weight": what GPT-2, BERT, T5 and their kin tie to another tensor.
bool is_usually_tied(std::string_view key);

/// What has an explanation of its own.
void find_leftovers(Attempt& attempt);

enum class Kinship : std::uint8_t { same_model, other_model };

/// The rest. Extra keys are dropped only from a file of the same model.
void find_missing_and_extra(Attempt& attempt, Kinship kinship);

}  // namespace ckpt::detail

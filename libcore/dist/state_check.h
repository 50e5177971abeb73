#pragma once
// Whether all ranks of a training still have the same parameters, to the bit: with CORE_DIST_CHECK=1 in the environment
// every 100th step compares a hash of each, and names the first that differs.
// Thread safety: all ranks call alike. Use: core::distributed::check_equal_state(module, group, step);

#include <cstdint>

#include "libcore/dist/process_group.h"
#include "libcore/module/module.h"

namespace core::distributed {

/// Does nothing without CORE_DIST_CHECK=1, and in other steps than 0, 100, 200 ... Error(runtime) "rank 1 has other
/// values than rank 0 in fc.weight at step 200".
void check_equal_state(const Module& module, const Group& group, std::int64_t step);

}  // namespace core::distributed

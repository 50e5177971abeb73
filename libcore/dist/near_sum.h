#pragma once
// Sums over ranks that can read each other's memory, with Gloo's bits. Internal to dist. Thread safety: as NearRanks;
// calls at once have tags that differ. Errors: those of NearRanks. Use: sum_nearby(near, addends, call);

#include <cstdint>

#include "libcore/dist/near_ranks.h"
#include "libcore/dist/reduce_op.h"

namespace core::distributed {

struct Addends {
  void* data = nullptr;
  std::int64_t bytes = 0;
  std::int64_t element = 1;  ///< bytes of one
  ReduceFunction combine = nullptr;
};

/// Into the memory of the addends, on every rank.
void sum_nearby(NearRanks& near, const Addends& addends, const Call& call);

}  // namespace core::distributed

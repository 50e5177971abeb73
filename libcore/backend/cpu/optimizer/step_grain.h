#pragma once
// How steps of optimizers on the host are shared out to threads. Thread safety: a constant.
// Use: core::parallel_for(count, core::kStepGrain, body);

#include <cstdint>

namespace core {

/// Elements of a parameter that are worth a thread's start.
inline constexpr std::int64_t kStepGrain = 65536;

}  // namespace core

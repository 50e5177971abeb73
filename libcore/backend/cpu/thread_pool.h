#pragma once
// Splitting a kernel over the cores. Work below `grain` stays on the calling thread. The team is OpenMP's, the one that
// oneDNN and OpenBLAS use too, so that no two pools fight for the cores.
// Thread safety: callable from several threads at once, each with its own team and its own limit (see
// ThreadLimitGuard). Use: core::parallel_for(n, 32768, [&](std::int64_t begin, std::int64_t end) { ... });

#include <cstdint>

#include "libcore/backend/threads.h"

namespace core {

/// Makes libraries that use OpenMP themselves respect num_threads(). Call before calling into one.
void apply_thread_limit();

namespace detail {
using RangeFunction = void (*)(void* context, std::int64_t begin, std::int64_t end);
void run_parallel(std::int64_t count, int threads, RangeFunction function, void* context);
}  // namespace detail

/// body(begin, end) over pieces of [0, count), none smaller than `grain` but the last. `body` must not throw.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
  std::int64_t pieces = count / (grain < 1 ? 1 : grain);
  if (pieces <= 1 || num_threads() == 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  int threads = static_cast<int>(pieces < num_threads() ? pieces : num_threads());
  detail::run_parallel(
      count, threads,
      [](void* context, std::int64_t begin, std::int64_t end) { (*static_cast<Body*>(context))(begin, end); }, &body);
}

}  // namespace core

#include "libcore/backend/cpu/thread_pool.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace core {
namespace {

std::atomic<int> process_limit{0};       // 0: not set yet
thread_local int thread_limit = 0;       // 0: the process's
thread_local int applied_to_openmp = 0;  // what this thread last told OpenMP

int default_threads() {
  static const int threads = std::max(1, omp_get_max_threads());
  return threads;
}

}  // namespace

void set_num_threads(int count) {
  process_limit = std::max(1, count);
}

int num_threads() {
  if (thread_limit > 0) return thread_limit;
  int limit = process_limit.load(std::memory_order_relaxed);
  return limit > 0 ? limit : default_threads();
}

ThreadLimitGuard::ThreadLimitGuard(int count) : previous_(thread_limit) {
  thread_limit = std::max(1, count);
}
ThreadLimitGuard::~ThreadLimitGuard() {
  thread_limit = previous_;
}

void apply_thread_limit() {
  int wanted = num_threads();
  if (applied_to_openmp == wanted) return;
  omp_set_num_threads(wanted);
  applied_to_openmp = wanted;
}

void detail::run_parallel(std::int64_t count, int threads, RangeFunction function, void* context) {
#pragma omp parallel num_threads(threads)
  {
    std::int64_t team = omp_get_num_threads();
    std::int64_t rank = omp_get_thread_num();
    std::int64_t begin = count * rank / team;
    std::int64_t end = count * (rank + 1) / team;
    if (begin < end) function(context, begin, end);
  }
}

}  // namespace core

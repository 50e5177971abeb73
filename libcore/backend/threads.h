#pragma once
// How many cores the kernels of this process may use.
// Thread safety: all functions. Use: core::set_num_threads(1);

namespace core {

/// Threads a kernel may use, for the whole process. Default: the cores, or OMP_NUM_THREADS.
void set_num_threads(int count);
/// What a kernel started by this thread may use.
int num_threads();

/// A smaller limit for what this thread starts, for a scope: each of N replicas uses cores / N.
class ThreadLimitGuard {
 public:
  explicit ThreadLimitGuard(int count);
  ~ThreadLimitGuard();
  ThreadLimitGuard(const ThreadLimitGuard&) = delete;
  ThreadLimitGuard& operator=(const ThreadLimitGuard&) = delete;

 private:
  int previous_;
};

}  // namespace core

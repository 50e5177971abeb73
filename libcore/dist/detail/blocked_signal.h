#pragma once
// Blocks one signal or all in this thread, and in the threads that it starts, while the object lives. Internal to dist.
// Use: const BlockedSignal no_pipe(SIGPIPE); const BlockedSignal none;

#include <pthread.h>

#include <csignal>

namespace core::distributed::detail {

class BlockedSignal {
 public:
  BlockedSignal() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  explicit BlockedSignal(int signal) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(SIG_BLOCK, &one, &before_);
  }
  ~BlockedSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignal(const BlockedSignal&) = delete;
  BlockedSignal& operator=(const BlockedSignal&) = delete;

 private:
  sigset_t before_;
};

}  // namespace core::distributed::detail

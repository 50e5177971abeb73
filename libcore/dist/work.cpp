#include "libcore/dist/work.h"

#include <utility>

namespace core::distributed::detail {

bool WorkState::end(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return false;
  has_ended_ = true;
  error_ = std::move(error);
  ended_.notify_all();
  return true;
}

bool WorkState::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void WorkState::conclude() {
  if (error_) std::rethrow_exception(error_);
  if (finish_) std::exchange(finish_, nullptr)();
}

void WorkState::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return has_ended_; });
  conclude();
}

}  // namespace core::distributed::detail

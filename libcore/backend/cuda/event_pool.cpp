#include "libcore/backend/cuda/event_pool.h"

#include <utility>

namespace core::gpu {

int EventPool::take(EventKind kind, EventHandle& event) {
  {
    const std::lock_guard lock(mutex_);
    if (std::vector<EventHandle>& free = free_[kind]; !free.empty()) {
      event = free.back();
      free.pop_back();
      return kSuccess;
    }
  }
  return api_.event_create(&event, kind.timed);
}

void EventPool::give(EventKind kind, EventHandle event) noexcept {
  const std::lock_guard lock(mutex_);
  free_[kind].push_back(event);
}

void EventPool::release_cached() noexcept {
  std::map<EventKind, std::vector<EventHandle>> unused;
  {
    const std::lock_guard lock(mutex_);
    unused = std::exchange(free_, {});
  }
  for (const auto& [kind, events] : unused) {
    for (EventHandle event : events) api_.event_destroy(event);
  }
}

}  // namespace core::gpu

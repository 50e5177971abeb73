#pragma once
// EventPool: events of the CUDA runtime that are used again instead of made and destroyed at each use, as PyTorch's
// EventPool does. An event may be given back while work is still before it: what was told to wait for it still does.
// Thread safety: all functions.
// Use: EventHandle event; int error = pool.take({.gpu = 0}, event); ... pool.give({.gpu = 0}, event);

#include <compare>
#include <map>
#include <mutex>
#include <vector>

#include "libcore/backend/cuda/cuda_api.h"

namespace core::gpu {

struct EventKind {
  int gpu = 0;         ///< the driver's number; an event is recorded on streams of this GPU alone
  bool timed = false;  ///< measures time, which makes recording it slower
  auto operator<=>(const EventKind&) const = default;
};

class EventPool {
 public:
  explicit EventPool(const CudaApi& api) : api_(api) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool() { release_cached(); }

  /// An event that is nobody else's; `kind.gpu` is current. It says nothing before it is recorded. Gives the driver's
  /// error where it makes none.
  int take(EventKind kind, EventHandle& event);
  /// REQUIRES: `event` was taken with this `kind`.
  void give(EventKind kind, EventHandle event) noexcept;
  /// Destroys those that nobody has taken.
  void release_cached() noexcept;

 private:
  const CudaApi& api_;
  std::mutex mutex_;
  std::map<EventKind, std::vector<EventHandle>> free_;
};

}  // namespace core::gpu

#pragma once
// PendingUses: which streams still use which blocks of memory. The uses of a stream stand in the order in which it was
// given them, so that asking how far the streams are costs one unanswered query for each, however many uses there are:
// PyTorch's process_events() does the same. Thread safety: none; the owner guards it.
// Use: uses.add({stream, gpu}, block); uses.collect([&](const StreamUser& user, Block* block) { ... });

#include <compare>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/cuda/event_pool.h"

namespace core::gpu {

/// A stream of a GPU, by the driver's number; each has a default stream, which is null.
struct StreamUser {
  StreamHandle stream = nullptr;
  int gpu = 0;
  auto operator<=>(const StreamUser&) const = default;
};

template <class Block>
class PendingUses {
 public:
  struct Use {
    EventHandle event;
    Block* block;
  };
  /// Stays valid until the use is done.
  using Place = typename std::list<Use>::iterator;

  PendingUses(const CudaApi& api, std::shared_ptr<EventPool> events) : api_(api), events_(std::move(events)) {}
  PendingUses(const PendingUses&) = delete;
  PendingUses& operator=(const PendingUses&) = delete;
  ~PendingUses() {
    for (const auto& [user, queue] : queues_) {
      for (const Use& use : queue) events_->give({.gpu = user.gpu}, use.event);
    }
  }

  bool empty() const { return queues_.empty(); }

  /// All that `user` was given so far uses `block`; the GPU is current. Gives the driver's error, and keeps nothing
  /// then.
  int add(const StreamUser& user, Block* block, Place* place = nullptr) {
    EventHandle event = nullptr;
    if (int error = events_->take({.gpu = user.gpu}, event); error != kSuccess) return error;
    if (int error = api_.event_record(event, user.stream); error != kSuccess) {
      events_->give({.gpu = user.gpu}, event);
      return error;
    }
    std::list<Use>& queue = queues_[user];
    queue.push_back({event, block});
    if (place != nullptr) *place = std::prev(queue.end());
    return kSuccess;
  }

  /// The use at `place` ends with what `user` was given since.
  int prolong(const StreamUser& user, Place place) {
    if (int error = api_.event_record(place->event, user.stream); error != kSuccess) return error;
    std::list<Use>& queue = queues_.find(user)->second;
    queue.splice(queue.end(), queue, place);
    return kSuccess;
  }

  /// Calls done(user, block) for uses that are done, or whose device is dead: asks for the oldest of each stream, and
  /// on until one is not.
  template <class Done>
  void collect(Done done) {
    finish(api_.event_query, done);
  }
  /// The same for all, after waiting for them.
  template <class Done>
  void wait(Done done) {
    finish(api_.event_synchronize, done);
  }

 private:
  template <class Done>
  void finish(int (*ask)(EventHandle event), Done& done) {
    for (auto& [user, queue] : queues_) {
      while (!queue.empty() && !is_pending(api_, ask(queue.front().event))) {
        const Use use = queue.front();
        queue.pop_front();
        events_->give({.gpu = user.gpu}, use.event);
        done(user, use.block);
      }
    }
    std::erase_if(queues_, [](const auto& entry) { return entry.second.empty(); });
  }

  const CudaApi& api_;
  std::shared_ptr<EventPool> events_;
  std::map<StreamUser, std::list<Use>> queues_;
};

}  // namespace core::gpu

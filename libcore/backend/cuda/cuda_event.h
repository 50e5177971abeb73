#pragma once
// An event of the CUDA runtime, of the pool of the process, that goes back with its owner; what waits for it still
// does. Thread safety: none.
// Use: gpu::ScopedEvent done(backend); done.record(stream); other.wait(...).

#include <memory>

#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cuda/event_pool.h"

namespace core::gpu {

class ScopedEvent {
 public:
  /// The backend is current.
  explicit ScopedEvent(const CudaBackend& backend, bool timed = false)
      : backend_(backend), pool_(backend.events()), kind_{.gpu = backend.gpu(), .timed = timed} {
    backend_.check(pool_->take(kind_, event_));
  }
  ~ScopedEvent() { pool_->give(kind_, event_); }
  ScopedEvent(const ScopedEvent&) = delete;
  ScopedEvent& operator=(const ScopedEvent&) = delete;

  void record(StreamHandle stream) { backend_.check(backend_.api().event_record(event_, stream)); }
  EventHandle handle() const { return event_; }

 private:
  const CudaBackend& backend_;
  std::shared_ptr<EventPool> pool_;  // outlives the backend where the event does
  EventKind kind_;
  EventHandle event_ = nullptr;
};

/// What `waiting` starts on `waiting_stream` from now on comes after all that was started on `stream` of `first`.
void make_wait(const CudaBackend& waiting, StreamHandle waiting_stream, const CudaBackend& first, StreamHandle stream);

}  // namespace core::gpu

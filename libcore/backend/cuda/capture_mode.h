#pragma once
// Calls that a capture of a graph forbids. Thread safety: each thread has a mode of its own.
// Use: const gpu::RelaxedCapture relaxed(api); api.event_query(event);

#include "libcore/backend/cuda/cuda_api.h"

namespace core::gpu {

/// While a thread captures, the driver refuses its calls that a replay would not repeat, and the capture is lost:
/// taking memory, asking for an event, making a stream or a library's handle. In the scope of this it lets them pass,
/// for calls that no replay needs. Asking for an event that was recorded in a capture stays forbidden.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const CudaApi& api) : api_(api) { api_.exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { api_.exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const CudaApi& api_;
  CaptureMode mode_ = CaptureMode::relaxed;
};

}  // namespace core::gpu

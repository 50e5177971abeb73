#pragma once
// Streams and events, as torch.cuda.Stream and torch.cuda.Event: a stream is an order of work on one device; work of
// different streams may run at the same time. Every thread has a current stream on every device, the default one until
// it says otherwise. On logical devices in host memory work is done when its call returns, so that all of this holds
// trivially. Thread safety: all functions; a value belongs to one thread at a time.
// Use: core::cuda::Stream side(device); { core::cuda::StreamGuard guard(side); y = x * 2; } side.synchronize();

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libcore/base/device.h"

namespace core {

namespace cuda {

class Event;

class Stream {
 public:
  /// One of the device's 32 streams of this priority (0, or negative: more urgent), in turn; "cuda" is the current
  /// device.
  explicit Stream(Device device = DeviceType::cuda, int priority = 0);
  /// The device's default stream.
  static Stream default_of(Device device = DeviceType::cuda);

  Device device() const { return device_; }
  /// 0 for the default stream; different for the streams of a device.
  std::uint64_t id() const { return id_; }
  /// What the CUDA runtime calls it (cudaStream_t); null on host memory.
  void* native() const;

  /// Waits until all work started on it is done. Errors of that work come from here.
  void synchronize() const;
  /// True when all work started on it is done.
  bool query() const;
  /// Work started on it from now on comes after `event`, or after all that `other` was given so far.
  void wait_event(const Event& event) const;
  void wait_stream(const Stream& other) const;
  Event record_event() const;

  /// "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>"
  std::string repr() const;
  friend bool operator==(const Stream& a, const Stream& b) { return a.device_ == b.device_ && a.id_ == b.id_; }

 private:
  friend Stream current_stream(Device device);
  Stream(Device device, std::uint64_t id) : device_(device), id_(id) {}
  Device device_;
  std::uint64_t id_;
};

struct EventOptions {
  bool enable_timing = false;
};

/// A place in a stream.
class Event {
 public:
  explicit Event(EventOptions options = {});
  /// The place after what `stream` (without one: the current stream) was given so far. Error(runtime) "Event device 0
  /// does not match recording stream's device 1."
  void record(std::optional<Stream> stream = {});
  /// Work started on `stream` from now on comes after it.
  void wait(std::optional<Stream> stream = {}) const;
  /// True when what was before it is done, or it was never recorded.
  bool query() const;
  void synchronize() const;
  /// Milliseconds from this event to `end`. Errors (value): "Both events must be created with argument
  /// 'enable_timing=True'.", "Both events must be recorded before calculating elapsed time.", "Both events must be
  /// completed before calculating elapsed time."
  double elapsed_time(const Event& end) const;

 private:
  friend class Stream;
  struct State;
  EventOptions options_;
  std::shared_ptr<State> state_;  // null until recorded
};

Stream default_stream(Device device = DeviceType::cuda);
Stream current_stream(Device device = DeviceType::cuda);
/// Makes `stream` current on its device, and its device current, for this thread.
void set_stream(const Stream& stream);

/// `data`, allocated on `device`, is used by work on `stream`: when it is freed it serves nobody before that work is
/// done.
void record_stream(Device device, void* data, const Stream& stream);

/// As torch.cuda.stream(): a stream and its device are current for a scope.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream previous_;
  int previous_device_;
};

}  // namespace cuda
}  // namespace core

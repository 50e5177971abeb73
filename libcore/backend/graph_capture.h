#pragma once
// GraphCapture: the inside of cuda::Graph (cuda_graph.h) on one kind of device: a GPU's driver, or the simulation of
// opaque devices (opaque/opaque_graph.h). Thread safety: of() from any thread, the rest as Graph.
// Use: if (GraphCapture* capture = GraphCapture::of(device)) ...

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "libcore/backend/backend.h"
#include "libcore/backend/graph_random.h"

namespace core {

class GraphCapture {
 public:
  /// `memory` keeps what the graph works in, for as long as the graph lives.
  GraphCapture(Backend& backend, std::uint64_t stream, std::shared_ptr<void> memory = {})
      : memory_(std::move(memory)), random(backend), backend_(backend), stream_(stream) {}
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  virtual ~GraphCapture() = default;

  /// The one under way that the calling thread's current stream on `device` is in; null: none.
  static GraphCapture* of(Device device);
  /// Whether anything is being captured on `device`, by whichever thread.
  static bool on(Device device);
  /// Whether anything is being captured anywhere.
  static bool any();

  /// Work of `stream` is kept from here to end(), instead of started. Error(runtime) when something is being captured
  /// on the device.
  void begin();
  /// `keeps`: what was recorded is to be replayed. Errors are thrown only then.
  void end(bool keeps);
  /// While it is recorded: what is to be done before each replay, on its stream. Once for the same `what`.
  void before_replay(const void* what, std::function<void()> work);
  /// On the current stream.
  void replay();
  /// The id of the stream that is, or was, captured.
  std::uint64_t stream() const { return stream_; }

 private:
  std::shared_ptr<void> memory_;  // outlives what follows

 public:
  GraphRandom random;

 protected:
  virtual void begin_recording() = 0;
  virtual void end_recording(bool keeps) = 0;
  virtual void launch() = 0;
  /// Whether another stream has come into the capture, by waiting for an event of it.
  virtual bool has_joined(std::uint64_t /*stream*/) const { return false; }
  Backend& backend_;
  std::uint64_t stream_;  ///< its id

 private:
  void leave();
  std::vector<std::pair<const void*, std::function<void()>>> before_replay_;
};

/// Error(runtime) with PyTorch's text when the calling thread is capturing on `device`: host memory that is not pinned
/// cannot be part of a graph.
void check_copy_in_capture(Device device);
/// Error(device) "CUDA error: operation not permitted when stream is capturing" when anything is being captured on
/// `device`: the driver would lose the capture, whoever's it is.
void check_wait_in_capture(Device device);

/// Some of what the driver says of captures, by its numbers: cudaErrorStreamCaptureUnsupported and its like.
enum class CaptureError : int {
  unsupported = 900,
  invalidated = 901,
  merge = 902,
  unjoined = 904,
  isolation = 905,
  captured_event = 907
};
/// Error(device) "CUDA error: capturing stream has unjoined work", and where that is explained.
[[noreturn]] void throw_capture_error(CaptureError error);

}  // namespace core

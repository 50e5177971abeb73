// Captures and graphs of the simulated driver, by the rules of CUDA's documentation: a capture spreads to streams that
// wait for its events; it is lost by a call that it forbids, by a wait across its border, and by work that does not
// come back to the stream where it began.
#include <algorithm>
#include <utility>

#include "tests/libcore/backend/cuda_fake_calls.h"

namespace test {

using core::gpu::CaptureMode;
using core::gpu::CudaApi;
using core::gpu::EventHandle;
using core::gpu::GraphExecHandle;
using core::gpu::GraphHandle;
using core::gpu::kSuccess;
using core::gpu::StreamHandle;

namespace {

// cudaErrorStreamCapture... and cudaErrorCapturedEvent.
constexpr int kUnsupported = 900, kInvalidated = 901, kMerge = 902, kUnmatched = 903, kUnjoined = 904, kIsolation = 905;
constexpr int kCapturedEvent = 907, kWrongThread = 908;
constexpr int kIllegalState = 401;

thread_local CaptureMode thread_mode = CaptureMode::global;

}  // namespace

int FakeDriver::check_unsafe() {
  int error = kSuccess;
  for (const auto& capture : captures_) {
    const bool is_own = capture->thread == std::this_thread::get_id() && capture->mode != CaptureMode::relaxed;
    const bool is_everybodys = thread_mode == CaptureMode::global && capture->mode == CaptureMode::global;
    if (thread_mode == CaptureMode::relaxed || (!is_own && !is_everybodys)) continue;
    capture->is_lost = true;
    error = kUnsupported;
  }
  return error;
}

int FakeDriver::check_stream(const Stream& stream) {
  if (stream.capture == nullptr) return kSuccess;
  stream.capture->is_lost = true;
  return kUnsupported;
}

int FakeDriver::check_event(const Event& event) {
  if (event.capture == 0) return kSuccess;
  for (const auto& capture : captures_) capture->is_lost = capture->is_lost || capture->id == event.capture;
  return kCapturedEvent;
}

int FakeDriver::check_device(int device) {
  int error = kSuccess;
  for (const auto& capture : captures_) {
    if (capture->first->device != device) continue;
    capture->is_lost = true;
    error = kUnsupported;
  }
  return error;
}

/// Work of a captured stream is not started.
int FakeDriver::keep(Stream& stream, Work work) {
  Capture& capture = *stream.capture;
  if (capture.is_lost) return kInvalidated;
  if (!work.run) return kSuccess;
  ++capture.streams[&stream][&stream];
  capture.work.push_back(std::move(work.run));
  return kSuccess;
}

int FakeDriver::record(Event& event, Stream& stream) {
  event.marker = nullptr;
  event.capture = 0;
  event.reached.clear();
  if (stream.capture == nullptr) {
    event.marker = std::make_shared<Marker>();
    event.marker->stream = &stream;
    stream.queue.push_back({.run = {}, .reached = event.marker, .waits_for = {}});
    if (options_.runs_at_once) advance(stream);
    return kSuccess;
  }
  if (stream.capture->is_lost) return kInvalidated;
  event.capture = stream.capture->id;
  event.reached = stream.capture->streams[&stream];
  return kSuccess;
}

/// Waiting takes a stream into the event's capture; nothing else may cross a capture's border.
int FakeDriver::join(Stream& stream, const Event& event) {
  if (stream.capture != nullptr && event.capture == 0) {
    if (event.marker == nullptr) return kSuccess;
    stream.capture->is_lost = true;
    return kIsolation;
  }
  const auto found = std::find_if(captures_.begin(), captures_.end(),
                                  [&](const auto& capture) { return capture->id == event.capture; });
  if (found == captures_.end()) return kCapturedEvent;
  const std::shared_ptr<Capture>& capture = *found;
  if (capture->is_lost) return kInvalidated;
  if (stream.capture != nullptr && stream.capture != capture) {
    capture->is_lost = stream.capture->is_lost = true;
    return kMerge;
  }
  stream.capture = capture;
  Reached& reached = capture->streams[&stream];
  for (const auto& [other, count] : event.reached) reached[other] = std::max(reached[other], count);
  return kSuccess;
}

/// Whether the stream that began comes after all that was captured.
bool FakeDriver::is_joined(const Capture& capture) {
  const Reached& all = capture.streams.at(capture.first);
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const auto& entry) {
    const auto& [stream, reached] = entry;
    const auto done = reached.find(stream);
    if (done == reached.end()) return true;
    const auto seen = all.find(stream);
    return seen != all.end() && seen->second >= done->second;
  });
}

int FakeDriver::begin(Stream& stream, CaptureMode mode) {
  if (stream.capture != nullptr) return kIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = ++captures_made_;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->first = &stream;
  capture->streams[&stream] = {};
  stream.capture = capture;
  captures_.insert(std::move(capture));
  return kSuccess;
}

int FakeDriver::end(Stream& stream, GraphHandle* graph) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return kIllegalState;
  if (capture->first != &stream) return kUnmatched;
  if (capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id()) return kWrongThread;
  for (const auto& [member, reached] : capture->streams) member->capture = nullptr;
  captures_.erase(capture);
  if (capture->is_lost) return kInvalidated;
  if (!is_joined(*capture)) return kUnjoined;
  auto made = std::make_unique<Graph>();
  made->work = std::move(capture->work);
  *graph = made.get();
  graphs_[*graph] = std::move(made);
  return kSuccess;
}

void FakeCalls::add_graph_calls(CudaApi& api) {
  api.begin_capture = [](StreamHandle handle, CaptureMode mode) {
    return call("begin_capture",
                [&](FakeDriver& d) { return handle == nullptr ? kUnsupported : d.begin(*d.stream_of(handle), mode); });
  };
  api.capture_id = [](StreamHandle handle, std::uint64_t* id) {
    return call("capture_id", [&](FakeDriver& d) {
      const auto found = d.streams_.find(handle);
      const bool is_captured = found != d.streams_.end() && found->second->capture != nullptr;
      *id = is_captured && !found->second->capture->is_lost ? found->second->capture->id : 0;
      return kSuccess;
    });
  };
  api.end_capture = [](StreamHandle handle, GraphHandle* graph) {
    *graph = nullptr;
    return call("end_capture", [&](FakeDriver& d) { return d.end(*d.stream_of(handle), graph); });
  };
  api.instantiate = [](GraphExecHandle* exec, GraphHandle graph) {
    return call("instantiate", [&](FakeDriver& d) {
      auto made = std::make_unique<FakeDriver::Graph>(*d.graphs_.at(graph));
      *exec = made.get();
      d.graphs_[*exec] = std::move(made);
      return kSuccess;
    });
  };
  api.launch_graph = [](GraphExecHandle exec, StreamHandle stream) {
    return call("launch_graph", [&](FakeDriver& d) {
      for (const auto& work : d.graphs_.at(exec)->work) {
        if (int error = d.push(stream, {.run = work, .reached = {}, .waits_for = {}}); error != kSuccess) return error;
      }
      return kSuccess;
    });
  };
  api.destroy_graph = [](GraphHandle graph) {
    return call("destroy_graph", [&](FakeDriver& d) { return (d.graphs_.erase(graph), kSuccess); });
  };
  api.destroy_graph_exec = [](GraphExecHandle exec) {
    return call("destroy_graph_exec", [&](FakeDriver& d) { return (d.graphs_.erase(exec), kSuccess); });
  };
  api.exchange_capture_mode = [](CaptureMode* mode) { return (std::swap(*mode, thread_mode), kSuccess); };
}

}  // namespace test

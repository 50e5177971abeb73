#include "libcore/backend/opaque/opaque_graph.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "libcore/backend/opaque/opaque_backend.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/backend/thread_streams.h"
#include "libcore/base/error.h"

namespace core {
namespace {

/// Those under way, by number, and what guards how far they are.
struct Captures {
  std::mutex mutex;
  std::uint64_t made = 0;
  std::map<std::uint64_t, OpaqueGraph*> under_way;
};

Captures& captures() {
  static auto* const all = new Captures;  // stays: threads may outlive main()
  return *all;
}

}  // namespace

OpaqueGraph::OpaqueGraph(OpaqueBackend& backend, std::uint64_t stream)
    : GraphCapture(backend, stream), device_(backend) {}

OpaqueGraph::~OpaqueGraph() {
  device_.release_graph(this);
}

// --- A capture

void OpaqueGraph::begin_recording() {
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  id_ = ++all.made;
  thread_ = std::this_thread::get_id();
  streams_[stream_] = {};
  all.under_way[id_] = this;
}

void OpaqueGraph::end_recording(bool keeps) {
  Captures& all = captures();
  const std::lock_guard lock(all.mutex);
  all.under_way.erase(id_);
  const bool is_whole = !is_lost_ && is_joined();
  if (!keeps || !is_whole) work_.clear();
  if (keeps && !is_whole) throw_capture_error(is_lost_ ? CaptureError::invalidated : CaptureError::unjoined);
}

void OpaqueGraph::keep(std::function<void()> work) {
  const std::lock_guard lock(captures().mutex);
  check_is_kept();
  const std::uint64_t stream = thread_streams()[static_cast<std::size_t>(device_.device().index())];
  ++streams_[stream][stream];
  work_.push_back(std::move(work));
}

void OpaqueGraph::check_is_kept() const {
  if (is_lost_) throw_capture_error(CaptureError::invalidated);
}

void OpaqueGraph::launch() {
  set_launching_device(device_.device().index());
  for (const auto& work : work_) work();
}

// --- The streams that it has spread to

bool OpaqueGraph::has_joined(std::uint64_t stream) const {
  const std::lock_guard lock(captures().mutex);
  return streams_.contains(stream);
}

/// Whether the stream that began comes after all that was captured.
bool OpaqueGraph::is_joined() const {
  const Reached& all = streams_.at(stream_);
  return std::all_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
    const auto& [stream, reached] = entry;
    const auto done = reached.find(stream);
    if (done == reached.end()) return true;
    const auto seen = all.find(stream);
    return seen != all.end() && seen->second >= done->second;
  });
}

OpaqueGraph* OpaqueGraph::with(Device device, std::uint64_t stream) {
  for (const auto& [id, graph] : captures().under_way) {
    if (graph->device_.device() == device && graph->streams_.contains(stream)) return graph;
  }
  return nullptr;
}

CapturedPlace OpaqueGraph::place_on(Device device, std::uint64_t stream) {
  CapturedPlace place{.is_recorded = true};
  if (!GraphCapture::any()) return place;
  const std::lock_guard lock(captures().mutex);
  const OpaqueGraph* graph = with(device, stream);
  if (graph == nullptr) return place;
  graph->check_is_kept();
  place.capture = graph->id_;
  place.reached = graph->streams_.at(stream);
  return place;
}

void OpaqueGraph::wait(Device device, std::uint64_t stream, const CapturedPlace& place) {
  if (!place.is_recorded || (place.capture == 0 && !GraphCapture::any())) return;
  const std::lock_guard lock(captures().mutex);
  OpaqueGraph* waiting = with(device, stream);
  if (place.capture == 0) {
    if (waiting == nullptr) return;
    waiting->is_lost_ = true;
    throw_capture_error(CaptureError::isolation);
  }
  const auto found = captures().under_way.find(place.capture);
  if (found == captures().under_way.end()) throw_capture_error(CaptureError::captured_event);
  OpaqueGraph& graph = *found->second;
  graph.check_is_kept();
  if (waiting != nullptr && waiting != &graph) {
    waiting->is_lost_ = graph.is_lost_ = true;
    throw_capture_error(CaptureError::merge);
  }
  graph.join(device, stream, place.reached);
}

void OpaqueGraph::join(Device device, std::uint64_t stream, const Reached& reached) {
  const Device here = device_.device();
  if (device != here) {
    is_lost_ = true;
    throw Error(ErrorCode::unsupported, device.str() + ": a stream of another device than " + here.str() +
                                            ", where a graph is being captured, cannot become a part of that graph");
  }
  if (stream == 0) {  // the driver's default stream cannot be captured
    is_lost_ = true;
    throw_capture_error(CaptureError::unsupported);
  }
  Reached& all = streams_[stream];
  for (const auto& [other, count] : reached) all[other] = std::max(all[other], count);
}

// --- Questions

void OpaqueGraph::check_question(Device device, std::uint64_t stream) {
  if (!GraphCapture::any()) return;
  const std::lock_guard lock(captures().mutex);
  OpaqueGraph* graph = with(device, stream);
  if (graph == nullptr) return;
  graph->is_lost_ = true;
  throw_capture_error(CaptureError::unsupported);
}

void OpaqueGraph::check_question(const CapturedPlace& place) {
  if (place.capture == 0) return;
  const std::lock_guard lock(captures().mutex);
  const auto found = captures().under_way.find(place.capture);
  if (found != captures().under_way.end()) found->second->is_lost_ = true;
  throw_capture_error(CaptureError::captured_event);
}

void OpaqueGraph::check_wait() {
  if (!GraphCapture::any()) return;
  const std::lock_guard lock(captures().mutex);
  bool is_forbidden = false;
  for (const auto& [id, graph] : captures().under_way) {
    if (graph->thread_ != std::this_thread::get_id()) continue;
    graph->is_lost_ = is_forbidden = true;
  }
  if (is_forbidden) throw_capture_error(CaptureError::unsupported);
}

}  // namespace core

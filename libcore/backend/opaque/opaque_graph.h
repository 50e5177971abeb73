#pragma once
// Graphs of opaque devices, simulated as a driver would have them: while one is captured, kernels and copies are kept
// instead of run, host memory is out of reach, and memory that the capture took is nobody else's until the graph goes.
// A capture spreads to streams that wait for its events, and is lost to what the driver forbids: waiting or asking for
// what it keeps, waiting across its border, work that does not come back to its first stream. So a step that a GPU
// could not capture fails here too, with the driver's text, and one that it could gives the same numbers when replayed.
// Thread safety: as GraphCapture. Use: made by cuda::Graph; if (OpaqueGraph* graph = OpaqueGraph::of(device)) ...

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "libcore/backend/graph_capture.h"

namespace core {

class OpaqueBackend;

/// Where an event was recorded. All that is not captured was done when its call returned.
struct CapturedPlace {
  bool is_recorded = false;
  std::uint64_t capture = 0;                  ///< 0: outside of captures
  std::map<std::uint64_t, int> reached = {};  ///< how much captured work of each stream comes before it
};

class OpaqueGraph final : public GraphCapture {
 public:
  OpaqueGraph(OpaqueBackend& backend, std::uint64_t stream);
  ~OpaqueGraph() override;

  /// The one under way that the calling thread's current stream on an opaque device is in.
  static OpaqueGraph* of(Device device) { return static_cast<OpaqueGraph*>(GraphCapture::of(device)); }

  /// Work of the calling thread's current stream. Errors: the capture is lost.
  void keep(std::function<void()> work);

  // What streams and events of devices in host memory do, where captures are concerned. Errors: Error(device) with the
  // driver's text.

  static CapturedPlace place_on(Device device, std::uint64_t stream);
  /// `stream` comes after `place`, and is in its capture from now on. Error(unsupported) for a stream of another device
  /// than the captured one.
  static void wait(Device device, std::uint64_t stream, const CapturedPlace& place);
  /// Before the host asks how far a stream or an event is. A capture that it is about is lost.
  static void check_question(Device device, std::uint64_t stream);
  static void check_question(const CapturedPlace& place);
  /// Before the host waits for anything: the captures of its thread are lost.
  static void check_wait();

 private:
  using Reached = std::map<std::uint64_t, int>;
  static OpaqueGraph* with(Device device, std::uint64_t stream);
  bool is_joined() const;
  void check_is_kept() const;
  void join(Device device, std::uint64_t stream, const Reached& reached);

  void begin_recording() override;
  void end_recording(bool keeps) override;
  void launch() override;
  bool has_joined(std::uint64_t stream) const override;

  OpaqueBackend& device_;
  std::vector<std::function<void()>> work_;

  // While it is under way, guarded as the list of all that are.
  std::uint64_t id_ = 0;
  std::thread::id thread_;
  std::map<std::uint64_t, Reached> streams_;  // what the last work of each comes after, itself included
  bool is_lost_ = false;
};

}  // namespace core

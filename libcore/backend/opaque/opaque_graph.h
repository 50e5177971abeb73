#pragma once
// Graphs of opaque devices, simulated as a driver would have them: while one is captured, kernels and copies are kept
// instead of run, host memory is out of reach, and memory that the capture took is nobody else's until the graph goes.
// So a step that a GPU could not capture fails here too, and one that it could gives the same numbers when replayed.
// Thread safety: as GraphCapture. Use: made by cuda::Graph; if (OpaqueGraph* graph = OpaqueGraph::of(device)) ...

#include <functional>
#include <memory>
#include <vector>

#include "libcore/backend/graph_capture.h"

namespace core {

class OpaqueBackend;

class OpaqueGraph final : public GraphCapture {
 public:
  OpaqueGraph(OpaqueBackend& backend, std::uint64_t stream);
  ~OpaqueGraph() override;

  /// The one that the calling thread captures on an opaque device.
  static OpaqueGraph* of(Device device) { return static_cast<OpaqueGraph*>(GraphCapture::of(device)); }

  void keep(std::function<void()> work) { work_.push_back(std::move(work)); }

 private:
  void begin_recording() override {}
  void end_recording(bool keeps) override;
  void launch() override;

  OpaqueBackend& device_;
  std::vector<std::function<void()>> work_;
};

}  // namespace core

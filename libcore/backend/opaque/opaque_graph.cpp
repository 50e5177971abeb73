#include "libcore/backend/opaque/opaque_graph.h"

#include "libcore/backend/opaque/opaque_backend.h"
#include "libcore/backend/opaque/opaque_tables.h"

namespace core {

OpaqueGraph::OpaqueGraph(OpaqueBackend& backend, std::uint64_t stream)
    : GraphCapture(backend, stream), device_(backend) {}

OpaqueGraph::~OpaqueGraph() {
  device_.release_graph(this);
}

void OpaqueGraph::end_recording(bool keeps) {
  if (!keeps) work_.clear();
}

void OpaqueGraph::launch() {
  set_launching_device(device_.device().index());
  for (const auto& work : work_) work();
}

}  // namespace core

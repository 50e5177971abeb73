#include "libcore/backend/opaque/opaque_backend.h"

#include <string>

#include "libcore/backend/opaque/opaque_graph.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/base/error.h"

namespace core {

OpaqueBackend::OpaqueBackend(DeviceInfo info, bool peer_access)
    : LogicalBackend(info, peer_access, opaque_tables()), memory_(info.device.index()) {
  host_memory_ = false;
  watches_launches_ = counts_launches_ = true;
}

/// Where the bytes can be touched. An empty range may be anywhere.
template <class T>
T* OpaqueBackend::seen(T* data, std::size_t bytes) const {
  if (bytes == 0) return data;
  if (memory_.contains(data)) return memory_.seen(data);
  const OpaqueMemory* other = opaque_memory_of(data);
  throw Error(ErrorCode::internal, "a copy on " + device().str() + " was given memory of " +
                                       (other != nullptr ? "cuda:" + std::to_string(other->device()) : "the host"));
}

namespace {
/// The host's side of a copy.
void check_host(Device device, const void* data, std::size_t bytes) {
  if (bytes == 0) return;
  const OpaqueMemory* memory = opaque_memory_of(data);
  if (memory == nullptr) return;
  throw Error(ErrorCode::internal, "a copy between " + device.str() + " and the host was given memory of cuda:" +
                                       std::to_string(memory->device()) + " for the host's");
}
}  // namespace

// --- Memory

void* OpaqueBackend::allocate(std::size_t bytes) {
  void* data = LogicalBackend::allocate(bytes);
  if (const OpaqueGraph* graph = OpaqueGraph::of(device())) {
    const std::lock_guard lock(captured_mutex_);
    captured_[data] = {graph, bytes, false};
  }
  return data;
}

void OpaqueBackend::free(void* data, std::size_t bytes) noexcept {
  {
    const std::lock_guard lock(captured_mutex_);
    const auto found = captured_.find(data);
    if (found != captured_.end()) {
      found->second.is_free = true;  // replays write here
      return;
    }
  }
  LogicalBackend::free(data, bytes);
}

void OpaqueBackend::release_graph(const OpaqueGraph* graph) noexcept {
  const std::lock_guard lock(captured_mutex_);
  for (auto it = captured_.begin(); it != captured_.end();) {
    if (it->second.graph != graph) {
      ++it;
      continue;
    }
    if (it->second.is_free) LogicalBackend::free(it->first, it->second.bytes);
    it = captured_.erase(it);
  }
}

// --- Copies

void OpaqueBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  check_copy_in_capture(device());
  OpaqueGraph::check_wait();
  check_host(device(), from, bytes);
  LogicalBackend::copy_from_host(seen(to, bytes), from, bytes);
}

void OpaqueBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  check_copy_in_capture(device());
  OpaqueGraph::check_wait();
  check_host(device(), to, bytes);
  LogicalBackend::copy_to_host(to, seen(from, bytes), bytes);
}

void OpaqueBackend::copy_within(void* to, const void* from, std::size_t bytes) {
  void* target = seen(to, bytes);
  const void* source = seen(from, bytes);
  if (OpaqueGraph* graph = OpaqueGraph::of(device())) {
    return graph->keep([=, this] { LogicalBackend::copy_within(target, source, bytes); });
  }
  LogicalBackend::copy_within(target, source, bytes);
}

void OpaqueBackend::fill_zero(void* to, std::size_t bytes) {
  void* target = seen(to, bytes);
  if (OpaqueGraph* graph = OpaqueGraph::of(device())) {
    return graph->keep([=, this] { LogicalBackend::fill_zero(target, bytes); });
  }
  LogicalBackend::fill_zero(target, bytes);
}

void OpaqueBackend::synchronize() {
  check_wait_in_capture(device());
  LogicalBackend::synchronize();
}

void OpaqueBackend::empty_cache() {
  LogicalBackend::empty_cache();
  memory_.trim();
}

void OpaqueBackend::on_launch() {
  LogicalBackend::on_launch();
  set_launching_device(device().index());
}

void* OpaqueBackend::take(std::size_t bytes) {
  return memory_.allocate(bytes);
}

void OpaqueBackend::give_back(void* data, std::size_t bytes) noexcept {
  memory_.free(data, bytes);
}

}  // namespace core

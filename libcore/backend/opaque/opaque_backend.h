#pragma once
// cuda:i whose memory the host cannot touch: as LogicalBackend in all but where its memory lies (opaque_memory.h) and
// how its kernels are called (opaque_tables.h). What works on it reads no device memory from the host, as on a real
// GPU. Thread safety: as Backend. Use: created by the device registry and by set_opaque_devices().

#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "libcore/backend/logical_backend.h"
#include "libcore/backend/opaque/opaque_memory.h"

namespace core {

class OpaqueGraph;

class OpaqueBackend final : public LogicalBackend {
 public:
  explicit OpaqueBackend(DeviceInfo info, bool peer_access = true);

  void* allocate(std::size_t bytes) override;
  void free(void* data, std::size_t bytes) noexcept override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void fill_zero(void* to, std::size_t bytes) override;
  void synchronize() override;
  void empty_cache() override;

  /// The graph is gone: memory that its capture took may serve others again.
  void release_graph(const OpaqueGraph* graph) noexcept;

 protected:
  void on_launch() override;
  void* take(std::size_t bytes) override;
  void give_back(void* data, std::size_t bytes) noexcept override;

 private:
  template <class T>
  T* seen(T* data, std::size_t bytes) const;

  /// Memory that a capture took.
  struct Captured {
    const OpaqueGraph* graph;
    std::size_t bytes;
    bool is_free;
  };

  OpaqueMemory memory_;
  std::mutex captured_mutex_;
  std::unordered_map<void*, Captured> captured_;
};

}  // namespace core

#pragma once
// The backend of the CPU. Thread safety: as Backend. Use: created by the device registry alone.

#include "libcore/backend/backend.h"

namespace core {

/// All CPU kernels, chosen for this machine's instruction set at first use.
const OpTables& cpu_op_tables();

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(Device device) : Backend(device, cpu_op_tables()) {}
  CpuBackend(Device device, const OpTables& ops) : Backend(device, ops) {}
  void* allocate(std::size_t bytes) override;
  void free(void* data, std::size_t bytes) noexcept override;
  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void fill_zero(void* to, std::size_t bytes) override;
  void synchronize() override {}
  void* allocate_pinned(std::size_t bytes) override { return CpuBackend::allocate(bytes); }
  void free_pinned(void* data, std::size_t bytes) noexcept override { CpuBackend::free(data, bytes); }
};

}  // namespace core

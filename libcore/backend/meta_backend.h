#pragma once
// The meta device: shapes and dtypes without bytes. Its tables are empty, so computing on it is a clear error.
// Thread safety: as Backend. Use: created by the device registry alone.

#include "libcore/backend/backend.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"

namespace core {

class MetaBackend final : public Backend {
 public:
  MetaBackend() : Backend(DeviceType::meta, kNoKernels) {
    host_memory_ = false;
    has_memory_ = false;
  }
  void* allocate(std::size_t) override { return nullptr; }
  void free(void*, std::size_t) noexcept override {}
  void copy_from_host(void*, const void*, std::size_t) override {}
  void copy_to_host(void*, const void*, std::size_t) override {
    throw Error(ErrorCode::not_implemented, "Cannot copy out of meta tensor; no data!");
  }
  void copy_within(void*, const void*, std::size_t) override {}
  void fill_zero(void*, std::size_t) override {}
  void synchronize() override {}
  void* allocate_pinned(std::size_t) override {
    throw Error(ErrorCode::not_implemented, "Cannot pin memory for the meta device");
  }
  void free_pinned(void*, std::size_t) noexcept override {}

 private:
  static constexpr OpTables kNoKernels{};
};

}  // namespace core

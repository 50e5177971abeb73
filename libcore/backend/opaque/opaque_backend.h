#pragma once
// cuda:i whose memory the host cannot touch: as LogicalBackend in all but where its memory lies (opaque_memory.h) and
// how its kernels are called (opaque_tables.h). What works on it reads no device memory from the host, as on a real
// GPU. Thread safety: as Backend. Use: created by the device registry and by set_opaque_devices().

#include "libcore/backend/logical_backend.h"
#include "libcore/backend/opaque/opaque_memory.h"

namespace core {

class OpaqueBackend final : public LogicalBackend {
 public:
  explicit OpaqueBackend(DeviceInfo info, bool peer_access = true);

  void copy_from_host(void* to, const void* from, std::size_t bytes) override;
  void copy_to_host(void* to, const void* from, std::size_t bytes) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void fill_zero(void* to, std::size_t bytes) override;
  void empty_cache() override;

 protected:
  void on_launch() override;
  void* take(std::size_t bytes) override;
  void give_back(void* data, std::size_t bytes) noexcept override;

 private:
  template <class T>
  T* seen(T* data, std::size_t bytes) const;

  OpaqueMemory memory_;
};

}  // namespace core

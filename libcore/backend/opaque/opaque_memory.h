#pragma once
// OpaqueMemory: the memory of devices that the host cannot touch, on a machine without one. Every device has two ranges
// of addresses of one size: tensors hold addresses of the first, which nobody may read or write; kernels and copies get
// the same bytes at the same place of the second. So whatever reads device memory from the host faults where it does.
// Thread safety: all functions. Use: void* p = memory.allocate(bytes); std::memcpy(memory.seen(p), from, bytes);

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace core {

class OpaqueMemory {
 public:
  /// Reserves addresses alone; what is written takes memory. Error(device) when the system refuses.
  explicit OpaqueMemory(int device);
  ~OpaqueMemory();
  OpaqueMemory(const OpaqueMemory&) = delete;
  OpaqueMemory& operator=(const OpaqueMemory&) = delete;

  static constexpr std::size_t kBytes = std::size_t{1} << 36;  // of one device: 64 GiB

  int device() const { return device_; }
  /// An address that tensors may hold, 512-byte aligned; null when there is no room.
  void* allocate(std::size_t bytes);
  /// `bytes` is what was asked for.
  void free(void* data, std::size_t bytes) noexcept;
  /// Gives the system back what is free.
  void trim() noexcept;

  /// Whether `data` is an address that tensors of this device hold (one past the last byte counts too).
  bool contains(const void* data) const {
    const auto* at = static_cast<const std::byte*>(data);
    return at >= hidden_ && at <= hidden_ + kBytes;
  }
  /// The same byte where kernels and copies can touch it. REQUIRES: contains(data).
  template <class T>
  T* seen(T* data) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(data) + kBytes);
  }

 private:
  int device_;
  std::byte* hidden_ = nullptr;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; never two neighbours
};

/// The memory that `data` belongs to, or null: host memory.
const OpaqueMemory* opaque_memory_of(const void* data);

}  // namespace core

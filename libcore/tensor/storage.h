#pragma once
// Storage: a block of memory on one device, shared by all tensors that are views of it.
// Thread safety: the count and the write counter are atomic; the bytes are the caller's to guard.
// Use: core::Storage s = core::Storage::allocate(bytes, core::Device("cpu")); s.data();

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "libcore/base/device.h"
#include "libcore/tensor/intrusive_ptr.h"

namespace core {

class Backend;
class BlockedImage;
class LazyBytes;

/// Allocated in front of its bytes where the backend allows that (small blocks on host memory): one block per tensor.
class StorageImpl : public RefCounted {
 public:
  static void destroy(StorageImpl* storage) noexcept;

  /// The bytes, there and in ordinary order: those that are lazy (lazy_bytes.h) are made or waited for here, so no
  /// caller can meet any others.
  void* data() const {
    void* bytes = data_.load(std::memory_order_acquire);
    return bytes != nullptr ? bytes : settle();
  }
  /// The image in blocked layout that stands for the bytes, while nobody has asked for them; else null.
  BlockedImage* blocked_image() const {
    return lazy_ && data_.load(std::memory_order_acquire) == nullptr ? image() : nullptr;
  }
  std::size_t nbytes() const { return nbytes_; }
  Backend& backend() const { return *backend_; }

  /// PyTorch's `_version` of the tensors on this storage: in-place operations through autograd count it up.
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { detail::count_up(version_); }
  /// Counts every write through any alias, `x.data` and raw pointers included. Caches of what was made of them (packed
  /// weights, device copies) compare (storage, writes()).
  std::uint32_t writes() const { return writes_.load(std::memory_order_relaxed); }
  void bump_writes() { detail::count_up(writes_); }
  /// Weights were packed from these bytes (packed_weights.h), to be dropped with them.
  void mark_packed() { packed_.store(true, std::memory_order_relaxed); }

 private:
  friend class Storage;
  StorageImpl(Backend* backend, void* data, std::size_t nbytes) : backend_(backend), data_(data), nbytes_(nbytes) {}
  ~StorageImpl() = default;
  void* settle() const;
  BlockedImage* image() const;

  std::atomic<std::uint32_t> version_{0};
  std::atomic<std::uint32_t> writes_{0};
  Backend* backend_;
  mutable std::atomic<void*> data_;  // null: no memory (the meta device), or lazy and not asked for yet
  std::size_t nbytes_;
  void (*free_foreign_)(void* context) = nullptr;  // memory that the caller lent us
  union {
    void* context_ = nullptr;  // of the lender
    LazyBytes* lazy_bytes_;    // where lazy_; owned
  };
  bool inline_data_ = false;  // the bytes follow this object in one block
  bool borrowed_ = false;
  bool lazy_ = false;
  std::atomic<bool> packed_{false};
};

class Storage {
 public:
  Storage() = default;
  /// `nbytes` bytes, uninitialised, 64-byte aligned. Errors: out of memory on the device, with PyTorch's text.
  static Storage allocate(std::size_t nbytes, Device device);
  static Storage allocate(std::size_t nbytes, Backend& backend);
  /// Memory of the caller on `device`; `release(context)` runs when the last tensor goes (may be null).
  static Storage borrow(void* data, std::size_t nbytes, Device device, void (*release)(void*), void* context);
  static Storage borrow(void* data, std::size_t nbytes, Backend& backend, void (*release)(void*), void* context);

  /// Bytes that are made, or waited for, once somebody asks. Their memory belongs to `bytes`.
  static Storage lazy(std::unique_ptr<LazyBytes> bytes, std::size_t nbytes, Backend& backend);

  bool defined() const { return static_cast<bool>(impl_); }
  void* data() const { return impl_->data(); }
  std::size_t nbytes() const { return impl_->nbytes(); }
  Device device() const;
  /// Identity: equal for tensors that share memory.
  StorageImpl* id() const { return impl_.get(); }
  StorageImpl* operator->() const { return impl_.get(); }

 private:
  IntrusivePtr<StorageImpl> impl_;
};

}  // namespace core

#include "libcore/tensor/storage.h"

#include <new>

#include "libcore/backend/backend.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/host_memory.h"
#include "libcore/tensor/lazy_bytes.h"
#include "libcore/tensor/op_scope.h"
#include "libcore/tensor/packed_weights.h"

namespace core {

namespace {

/// For the profiler.
void note(const void* address, std::int64_t bytes, const Backend& backend) noexcept {
  if (detail::profiling.load(std::memory_order_relaxed)) [[unlikely]] {
    detail::note_memory(address, bytes, backend.device());
  }
}

constexpr std::size_t kHeader = kAlignment;
static_assert(sizeof(StorageImpl) <= kHeader);

/// The only owner of a storage that was made just now.
IntrusivePtr<StorageImpl> owned(StorageImpl* fresh) {
  fresh->retain_new();
  return IntrusivePtr<StorageImpl>::adopt(fresh);
}

}  // namespace

Storage Storage::allocate(std::size_t nbytes, Device device) {
  return allocate(nbytes, backend_for(device));
}

Storage Storage::allocate(std::size_t nbytes, Backend& backend) {
  Storage storage;
  if (backend.device().is_cpu()) {  // header and bytes in one block
    auto* block = static_cast<std::byte*>(host_allocate(kHeader + nbytes));
    storage.impl_ = owned(new (block) StorageImpl(&backend, block + kHeader, nbytes));
    storage.impl_->inline_data_ = true;
    note(block, static_cast<std::int64_t>(nbytes), backend);
    return storage;
  }
  void* data = backend.has_memory() ? backend.allocate(nbytes) : nullptr;
  storage.impl_ = owned(new (host_allocate(kHeader)) StorageImpl(&backend, data, nbytes));
  if (data != nullptr) note(data, static_cast<std::int64_t>(nbytes), backend);
  return storage;
}

Storage Storage::borrow(void* data, std::size_t nbytes, Device device, void (*release)(void*), void* context) {
  return borrow(data, nbytes, backend_for(device), release, context);
}

Storage Storage::borrow(void* data, std::size_t nbytes, Backend& backend, void (*release)(void*), void* context) {
  Storage storage;
  auto* impl = new (host_allocate(kHeader)) StorageImpl(&backend, data, nbytes);
  impl->borrowed_ = true;
  impl->free_foreign_ = release;
  impl->context_ = context;
  storage.impl_ = owned(impl);
  return storage;
}

Storage Storage::lazy(std::unique_ptr<LazyBytes> bytes, std::size_t nbytes, Backend& backend) {
  Storage storage;
  auto* impl = new (host_allocate(kHeader)) StorageImpl(&backend, nullptr, nbytes);
  impl->lazy_ = true;
  impl->lazy_bytes_ = bytes.release();
  storage.impl_ = owned(impl);
  return storage;
}

void* StorageImpl::settle() const {
  if (!lazy_) return nullptr;  // the meta device
  void* bytes = lazy_bytes_->settle();
  data_.store(bytes, std::memory_order_release);
  return bytes;
}

BlockedImage* StorageImpl::image() const {
  return lazy_bytes_->blocked_image();
}

void StorageImpl::destroy(StorageImpl* storage) noexcept {
  if (storage->packed_.load(std::memory_order_relaxed)) packed_weights::forget(storage);
  if (storage->inline_data_) {
    std::size_t bytes = kHeader + storage->nbytes_;
    note(storage, -static_cast<std::int64_t>(storage->nbytes_), *storage->backend_);
    storage->~StorageImpl();
    host_free(storage, bytes);
    return;
  }
  if (storage->lazy_) {
    delete storage->lazy_bytes_;
  } else if (storage->borrowed_) {
    if (storage->free_foreign_ != nullptr) storage->free_foreign_(storage->context_);
  } else if (void* bytes = storage->data_.load(std::memory_order_relaxed); bytes != nullptr) {
    note(bytes, -static_cast<std::int64_t>(storage->nbytes_), *storage->backend_);
    storage->backend_->free(bytes, storage->nbytes_);
  }
  storage->~StorageImpl();
  host_free(storage, kHeader);
}

Device Storage::device() const {
  return impl_->backend().device();
}

}  // namespace core

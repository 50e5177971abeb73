#include "libcore/tensor/storage.h"

#include <new>

#include "libcore/backend/backend.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/host_memory.h"
#include "libcore/tensor/arriving.h"
#include "libcore/tensor/derived_data.h"
#include "libcore/tensor/held_image.h"

namespace core {

namespace {

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
    return storage;
  }
  void* data = backend.has_memory() ? backend.allocate(nbytes) : nullptr;
  storage.impl_ = owned(new (host_allocate(kHeader)) StorageImpl(&backend, data, nbytes));
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

Storage Storage::hold(HeldImage* image, std::size_t nbytes, Backend& backend) {
  Storage storage;
  auto* impl = new (host_allocate(kHeader)) StorageImpl(&backend, nullptr, nbytes);
  impl->holds_ = true;
  impl->context_ = image;
  storage.impl_ = IntrusivePtr<StorageImpl>(impl);
  return storage;
}

void* StorageImpl::settle() const {
  if (free_foreign_ == detail::release_arriving) {
    void* bytes = detail::settle_arriving(context_);
    data_.store(bytes, std::memory_order_release);
    return bytes;
  }
  if (!holds_) return nullptr;  // the meta device
  auto* image = static_cast<HeldImage*>(context_);
  const std::lock_guard lock(image->mutex());
  void* bytes = data_.load(std::memory_order_acquire);
  if (bytes != nullptr) return bytes;  // another thread was first
  bytes = backend_->allocate(nbytes_);
  image->settle_into(static_cast<float*>(bytes));
  data_.store(bytes, std::memory_order_release);
  return bytes;
}

void StorageImpl::destroy(StorageImpl* storage) noexcept {
  if (storage->derived_.load(std::memory_order_relaxed)) derived::forget(storage);
  if (storage->inline_data_) {
    std::size_t bytes = kHeader + storage->nbytes_;
    storage->~StorageImpl();
    host_free(storage, bytes);
    return;
  }
  if (storage->borrowed_) {
    if (storage->free_foreign_ != nullptr) storage->free_foreign_(storage->context_);
  } else if (void* bytes = storage->data_.load(std::memory_order_relaxed); bytes != nullptr) {
    storage->backend_->free(bytes, storage->nbytes_);
  }
  if (storage->holds_) delete static_cast<HeldImage*>(storage->context_);
  storage->~StorageImpl();
  host_free(storage, kHeader);
}

Device Storage::device() const {
  return impl_->backend().device();
}

}  // namespace core

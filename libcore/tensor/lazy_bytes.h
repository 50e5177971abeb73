#pragma once
// Bytes of a storage that are made, or waited for, when somebody first asks for them: an image in another order
// (blocked_layout.h), a copy that is under way (lazy_copy.h). StorageImpl::data() asks, so nothing that uses a tensor
// needs to know.
// Thread safety: all functions; several threads may ask at once.
// Use: Storage s = Storage::lazy(std::make_unique<MyBytes>(...), nbytes, backend); s.data();

namespace core {

class BlockedImage;

class LazyBytes {
 public:
  LazyBytes() = default;
  LazyBytes(const LazyBytes&) = delete;
  LazyBytes& operator=(const LazyBytes&) = delete;
  /// Frees the bytes, be they asked for or not.
  virtual ~LazyBytes() = default;

  /// The bytes, there and in ordinary order: the same address each time. Errors: out of memory; those of the device.
  virtual void* settle() = 0;
  /// This, where it is an image in blocked layout; else null.
  virtual BlockedImage* blocked_image() { return nullptr; }
};

}  // namespace core

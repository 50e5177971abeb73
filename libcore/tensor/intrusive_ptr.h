#pragma once
// A shared pointer whose count lives in the object: 8 bytes, no control block. Everything a tensor is made of uses it.
// Thread safety: as std::shared_ptr (the count is atomic once there are two threads; one handle is not). Use: auto p =
// core::make_intrusive<core::TensorImpl>();

#include <atomic>
#include <cstdint>
#include <utility>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace core {
namespace detail {

/// Whether no other thread runs that could count: the C library says no before the first one starts, so that what was
/// counted until then is seen by all. True is worth knowing, as a locked instruction waits for all stores before it.
inline bool is_only_thread() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

/// One more, as fetch_add(1, relaxed); what was counted there before.
inline std::uint32_t count_up(std::atomic<std::uint32_t>& count) noexcept {
  if (!is_only_thread()) return count.fetch_add(1, std::memory_order_relaxed);
  const std::uint32_t before = count.load(std::memory_order_relaxed);
  count.store(before + 1, std::memory_order_relaxed);
  return before;
}

/// One less, as fetch_sub(1, acq_rel); what was counted there before.
inline std::uint32_t count_down(std::atomic<std::uint32_t>& count) noexcept {
  if (!is_only_thread()) return count.fetch_sub(1, std::memory_order_acq_rel);
  const std::uint32_t before = count.load(std::memory_order_relaxed);
  count.store(before - 1, std::memory_order_relaxed);
  return before;
}

}  // namespace detail

/// Base of objects that IntrusivePtr<T> holds. T may define `static void destroy(T*)` to take part in its own end.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void retain() const noexcept { detail::count_up(refs_); }
  /// The first owner of an object that nobody else has seen: no locked instruction, which would wait for every store
  /// that made the object.
  void retain_new() const noexcept { refs_.store(1, std::memory_order_relaxed); }
  /// One more owner, unless the last one is just leaving, which must do so by release_findable().
  bool try_retain() const noexcept {
    std::uint32_t seen = refs_.load(std::memory_order_relaxed);
    if (detail::is_only_thread() && seen != 0) {
      refs_.store(seen + 1, std::memory_order_relaxed);
      return true;
    }
    while (seen != 0) {
      if (refs_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }
  /// True when the caller was the last owner and has to destroy the object. Not where try_retain() is called.
  bool release() const noexcept {
    // A sole owner need not pay for a locked instruction: nobody else can come in.
    if (refs_.load(std::memory_order_acquire) == 1) {
      refs_.store(0, std::memory_order_relaxed);
      return true;
    }
    return release_findable();
  }
  /// The same for an object that another thread may find, and try_retain(), at this moment.
  bool release_findable() const noexcept { return detail::count_down(refs_) == 1; }
  std::uint32_t use_count() const noexcept { return refs_.load(std::memory_order_acquire); }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<std::uint32_t> refs_{0};
};

template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  explicit IntrusivePtr(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  IntrusivePtr(const IntrusivePtr& other) noexcept : IntrusivePtr(other.object_) {}
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  IntrusivePtr(IntrusivePtr<U> other) noexcept : object_(other.detach()) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~IntrusivePtr() { reset(); }

  /// Takes over a reference that was already counted.
  static IntrusivePtr adopt(T* object) noexcept {
    IntrusivePtr pointer;
    pointer.object_ = object;
    return pointer;
  }
  /// Gives the counted reference to the caller.
  T* detach() noexcept { return std::exchange(object_, nullptr); }
  void reset() noexcept {
    T* object = std::exchange(object_, nullptr);
    if (object == nullptr || !object->release()) return;
    if constexpr (requires { T::destroy(object); }) {
      T::destroy(object);
    } else {
      delete object;
    }
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  friend bool operator==(const IntrusivePtr& a, const IntrusivePtr& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

template <class T, class... Args>
IntrusivePtr<T> make_intrusive(Args&&... args) {
  T* object;
  if constexpr (sizeof...(Args) == 0) {
    object = new T;  // with brackets, the whole object would be zeroed before its constructor runs
  } else {
    object = new T(std::forward<Args>(args)...);
  }
  object->retain_new();
  return IntrusivePtr<T>::adopt(object);
}

}  // namespace core

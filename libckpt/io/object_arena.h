#pragma once
// ObjectArena: shared objects of which a file has many (the tensors of a list, and where their bytes are), next to each
// other in large blocks of memory: a fraction of the time of one allocation each, and where the system has large pages,
// of the faults. The blocks go when the last object has gone, so they are for objects that live about as long as each
// other. Thread safety: make() by one thread; the objects may go on any. Use: ObjectArena arena(20 << 20); auto tensor
// = arena.make<Entry>();

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ckpt::detail {

class ObjectArena {
 public:
  /// About so many bytes will be needed. Errors: std::bad_alloc, of make() too.
  explicit ObjectArena(std::uint64_t expected);
  ~ObjectArena();
  ObjectArena(const ObjectArena&) = delete;
  ObjectArena& operator=(const ObjectArena&) = delete;

  template <class T, class... Arguments>
  std::shared_ptr<T> make(Arguments&&... arguments) {
    return std::allocate_shared<T>(Allocator<T>{pool_}, std::forward<Arguments>(arguments)...);
  }

 private:
  class Pool;

  static void* take(Pool& pool, std::size_t size);
  static void put_back(Pool& pool) noexcept;

  template <class T>
  struct Allocator {
    using value_type = T;
    explicit Allocator(Pool* pool_in) : pool(pool_in) {}
    template <class U>
    Allocator(const Allocator<U>& other) : pool(other.pool) {}  // NOLINT(google-explicit-constructor)
    T* allocate(std::size_t count) {
      static_assert(alignof(T) <= alignof(std::max_align_t));
      return static_cast<T*>(take(*pool, count * sizeof(T)));
    }
    void deallocate(T*, std::size_t) noexcept { put_back(*pool); }
    friend bool operator==(const Allocator& a, const Allocator& b) { return a.pool == b.pool; }
    Pool* pool;
  };

  Pool* pool_;
};

}  // namespace ckpt::detail

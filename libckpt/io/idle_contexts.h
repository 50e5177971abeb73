#pragma once
// State of compression libraries that is used again. Thread safety: all functions. Errors: std::bad_alloc. Use:
// static auto& contexts = *new IdleContexts<Context, make_context, free_context>(); auto one = contexts.borrow();

#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace ckpt::detail {

template <class T, auto kFree>
struct Free {
  void operator()(T* pointer) const { kFree(pointer); }
};
template <class T, auto kFree>
using Handle = std::unique_ptr<T, Free<T, kFree>>;

template <class T>
T* require_made(T* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

/// Contexts cost more than a small frame, so they are kept, as many as were used at once. (Not one a thread: a
/// thread_local that has a destructor ends the process where memory for its registration is lacking.) Never destroyed:
/// a save may still run when the program ends.
template <class T, auto kMake, auto kFree>
class IdleContexts {
 public:
  /// One of them, until it goes.
  class Borrowed {
   public:
    explicit Borrowed(IdleContexts& home) : home_(home), context_(home.take()) {}
    ~Borrowed() { home_.give_back(std::move(context_)); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    T* get() const { return context_.get(); }

   private:
    IdleContexts& home_;
    Handle<T, kFree> context_;
  };

  Borrowed borrow() { return Borrowed(*this); }

 private:
  Handle<T, kFree> take() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      Handle<T, kFree> made(require_made(kMake()));
      idle_.reserve(++made_);  // so that giving back needs no memory
      return made;
    }
    Handle<T, kFree> context = std::move(idle_.back());
    idle_.pop_back();
    return context;
  }
  void give_back(Handle<T, kFree> context) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(context));
  }

  std::mutex mutex_;
  std::vector<Handle<T, kFree>> idle_;
  std::size_t made_ = 0;
};

}  // namespace ckpt::detail

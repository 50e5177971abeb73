#pragma once
// StepCopies: copies of what a step of an optimizer leaves in host memory, made by the step itself, part by part while
// each lies in the processor's cache, where a copy afterwards would read everything from memory again. For saves
// (libckpt/bridge/save_async.h). Thread safety: none; what is current is so for one thread. Use:
// core::detail::StepCopies copies; copies.add(data, to, bytes); { core::detail::StepCopies::Scope now(copies); step();
// }

#include <cstddef>
#include <cstdint>
#include <map>

namespace core::detail {

class StepCopies {
 public:
  /// Asks for a copy of a block of memory. REQUIRES: both stay until the step is done, and no two of them overlap.
  void add(const void* from, void* to, std::size_t bytes);
  /// Copies what a kernel just wrote: `count` elements of `size` bytes, shared out to threads as the kernel did it.
  /// Does nothing for memory that nobody asked for, and for null. A block that is not written from its begin to its end
  /// in this order does not count as made.
  void copy(const void* written, std::int64_t count, std::size_t size);
  /// Whether the block that begins at `from` was copied whole.
  bool made(const void* from) const;
  /// Something else than the step may have written to the blocks: no copy counts.
  void forget();

  /// Those of the step that this thread is taking; null where nobody asked for any.
  static StepCopies* current() { return current_; }

  /// Makes copies current until the end of the scope.
  class Scope {
   public:
    explicit Scope(StepCopies& copies) : before_(current_) { current_ = &copies; }
    ~Scope() { current_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepCopies* before_;
  };

 private:
  struct Block {
    std::byte* to;
    std::size_t bytes;
    std::size_t copied = 0;
    bool in_order = true;
  };
  std::map<const std::byte*, Block> blocks_;  // by where they begin
  static thread_local StepCopies* current_;
};

}  // namespace core::detail

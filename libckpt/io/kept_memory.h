#pragma once
// What readers of files keep in memory between two reads: decoded chunks, pieces of transposed tensors, what a deflated
// member had before, copies for checksums. One bound holds for all files that a process has open; above it, whoever was
// not used for longest lets go and makes it again when it is asked for. Thread safety: all functions. Errors: none
// here. Use: ckpt::limit_read_memory(64 << 20);

#include <cstdint>
#include <list>

namespace ckpt {

/// From now on readers keep at most `bytes`; 128 MiB before the first call.
void limit_read_memory(std::uint64_t bytes);

namespace detail {

/// What keepers may hold together; the rest of the bound is for copies().
std::uint64_t most_kept();
/// What may be copied until checksums reach it, by all sources together.
std::uint64_t most_copied();

/// One who keeps bytes between reads, which change nothing that others see. What derives from it has a lock of its own,
/// under which it calls used(), and forget() before it reads from others.
class Keeper {
 public:
  Keeper() = default;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

 protected:
  /// REQUIRES: forget() was called, before what let_go() touches went.
  virtual ~Keeper() = default;
  /// It was used just now, and holds `bytes`. Others let go until all hold most_kept() at most.
  void used(std::uint64_t bytes) const;
  /// It holds nothing any more.
  void forget() const;

 private:
  /// Gives up all that it holds; false where its lock is taken. Never waits, and never calls used() or forget().
  virtual bool let_go() const = 0;

  friend class Keepers;
  mutable std::list<const Keeper*>::iterator place_;  ///< in the list of all, where listed_
  mutable bool listed_ = false;
  mutable std::uint64_t bytes_ = 0;
};

}  // namespace detail

}  // namespace ckpt

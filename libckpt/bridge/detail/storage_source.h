#pragma once
// The bytes behind tensors as sources that a format can write: live ones, which are read when they are written, and
// copies of how they were at one moment, for saves that go on while training changes the tensors.
// Thread safety: sources may be read from many threads; a Snapshot belongs to one. Use: ckpt::Snapshot now;
// ckpt::SourcePtr bytes = now.of(tensor.storage()); now.finish();

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libckpt/io/byte_source.h"
#include "libcore/backend/streams.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor.h"

namespace ckpt {

/// All bytes of a storage, which stays alive. Reading memory of a device comes after what the stream that was current
/// here was given until then.
SourcePtr live_source(core::Storage storage);

/// Where a copy of a device's memory lies until it is written.
enum class SnapshotPlace {
  automatic,  ///< on the device while there is room, else in pinned host memory
  device,     ///< on the device, at the speed of its memory; Error when there is no room
  host,       ///< in pinned host memory: no device memory, but the device copies over the bus before it goes on
  nowhere,    ///< no copy is made: sources are the tensors themselves, and host_bytes() says what copies would take
};

/// Host memory of the copies that one snapshot after the other takes: the system gives memory out slowly, most of the
/// time that a snapshot takes. At most one block is kept, the one of the last snapshot. Thread safety: one snapshot at
/// a time. REQUIRES: nothing reads the sources of the one before.
class SnapshotMemory {
 public:
  /// A block of at least `bytes`: the one of before, unless it is too small or more than twice as large. Errors: out of
  /// memory.
  core::Storage take(std::size_t bytes);
  /// Whether take() would give the block of before.
  bool has(std::size_t bytes) const {
    return block_.defined() && block_.nbytes() >= bytes && block_.nbytes() / 2 <= bytes;
  }
  /// The same with all its pages there, so that the next take() of so many bytes costs nothing. Errors: out of memory.
  void prepare(std::size_t bytes);
  /// Nothing reads the block until it is taken again. The system may have its pages back whenever it needs some; those
  /// that it leaves are there at once.
  void rest() const;
  /// Makes the pages huge ones where they are not yet, until `hurry`: of pages that the system may have back, each
  /// small one costs as much time at its first write as filling it. Takes a third of a second a GB, up to ten times as
  /// long in a virtual machine: for a thread that nobody waits for, before rest().
  void join_pages(const std::atomic<bool>& hurry);

 private:
  core::Storage block_;
  std::size_t joined_ = 0;  // bytes of huge pages
};

class FrozenMemory;
class HostCopy;

class Snapshot {
 public:
  explicit Snapshot(SnapshotPlace place = SnapshotPlace::automatic, std::shared_ptr<SnapshotMemory> memory = nullptr);
  ~Snapshot();

  /// A copy of all bytes of a storage, the same for the same storage. Memory of the host is copied by finish(); on
  /// devices the copy takes its turn in the current stream, and the host does not wait. Errors: out of memory.
  SourcePtr of(const core::Storage& storage);
  /// Takes a step that writes `tensors`, and copies those of the host while it writes them (of() gives the copies as
  /// they are after the step); what it leaves out, finish() copies. REQUIRES: before any other call. Errors: out of
  /// memory; those of `step`.
  void copy_in_step(const std::vector<core::Tensor>& tensors, const std::function<void()>& step);
  /// What copy_in_step() took was written once more: finish() copies it as it is then.
  void copy_again() { copies_.insert(copies_.end(), made_in_step_.begin(), made_in_step_.end()); }
  /// No more will be copied; what was asked for is. REQUIRES: called before a source is read, with the current streams
  /// as they were. Errors: out of memory.
  void finish() {
    finish_on_devices();
    finish_on_host();
  }
  /// Of the host, for the copies that were asked for and are not made yet.
  std::size_t host_bytes() const;
  /// The two halves of finish(). The second, which takes the time, may be done by another thread.
  void finish_on_devices();
  void finish_on_host();
  /// Before finish_on_host(), by the same thread: tensors of the host may be changed from now on, where copies are made
  /// of what they hold now. Little is copied in the call, and what FrozenMemory cannot hold. Errors: out of memory.
  void freeze_on_host();

  /// When the copies of one device are done.
  struct Copied {
    core::cuda::Event event;
  };

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  /// A copy within the host that is asked for, and where it comes from.
  using Asked = std::pair<std::shared_ptr<HostCopy>, const std::byte*>;
  SourcePtr copy_of(const core::Storage& storage);
  void place(const std::vector<Asked>& asked);
  std::vector<Copy> take_copies();
  void copy_on_host(const std::vector<Copy>& copies, const FrozenMemory* frozen = nullptr) const;
  SourcePtr on_host(const core::Storage& storage, std::shared_ptr<const Copied> copied);

  SnapshotPlace place_;
  std::shared_ptr<SnapshotMemory> memory_;
  std::size_t counted_ = 0;  // of copies that are nowhere
  std::unordered_map<const void*, SourcePtr> sources_;
  std::vector<Asked> copies_;             // not made yet
  std::unique_ptr<FrozenMemory> frozen_;  // holds what copies_ are made of
  std::vector<Asked> made_in_step_;
  bool memory_is_taken_ = false;
  bool memory_is_new_ = false;                         // some of it: the system has given out none of its pages yet
  std::vector<core::Storage> seen_;                    // keeps the identities of sources_ from being used again
  std::map<int, std::shared_ptr<Copied>> on_devices_;  // by the device's index
};

}  // namespace ckpt

#pragma once
// The bytes behind tensors as sources that a format can write: live ones, which are read when they are written, and
// copies of how they were at one moment, for saves that go on while training changes the tensors.
// Thread safety: sources may be read from many threads; a Snapshot belongs to one. Use: ckpt::Snapshot now;
// ckpt::SourcePtr bytes = now.of(tensor.storage()); now.finish();

#include <map>
#include <memory>
#include <unordered_map>
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
};

/// Host memory of copies that one snapshot after the other takes: the system gives memory out slowly, most of the time
/// that a snapshot takes. Thread safety: one snapshot at a time. REQUIRES: nothing reads the sources of the one before.
class SnapshotMemory {
 public:
  /// As much as before is there again.
  void begin();
  core::Storage take(std::size_t bytes, core::Backend& backend);
  /// Gives back to the system what was not taken.
  void finish() { free_.clear(); }

 private:
  std::multimap<std::size_t, core::Storage> free_;
  std::vector<core::Storage> taken_;
};

class Snapshot {
 public:
  explicit Snapshot(SnapshotPlace place = SnapshotPlace::automatic, std::shared_ptr<SnapshotMemory> memory = nullptr)
      : place_(place), memory_(std::move(memory)) {
    if (memory_ != nullptr) memory_->begin();
  }

  /// A copy of all bytes of a storage, the same for the same storage. Memory of the host is copied by finish(); on
  /// devices the copy takes its turn in the current stream, and the host does not wait. Errors: out of memory.
  SourcePtr of(const core::Storage& storage);
  /// No more will be copied; what was asked for is. REQUIRES: called before a source is read, with the current streams
  /// as they were.
  void finish();

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
  SourcePtr copy_of(const core::Storage& storage);
  void copy_on_host();
  SourcePtr on_host(const core::Storage& storage, std::shared_ptr<const Copied> copied);

  SnapshotPlace place_;
  std::shared_ptr<SnapshotMemory> memory_;
  std::unordered_map<const void*, SourcePtr> sources_;
  std::vector<Copy> copies_;                           // within the host's memory, not made yet
  std::vector<core::Storage> seen_;                    // keeps the identities of sources_ from being used again
  std::map<int, std::shared_ptr<Copied>> on_devices_;  // by the device's index
};

}  // namespace ckpt

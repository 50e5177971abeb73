#pragma once
// The folders that a power cut may leave of a recording. Two disks are played:
//   ordered   changes of names are kept in order and each fsync, of whatever, keeps all that were made before it (the
//             journal of ext4); of the content that was not made safe any part is there
//   any order an fsync keeps nothing but its own file or folder; of the rest any part is there, where only what touches
//             one name stays in order
// At each operation, and in the midst of each write: of the last 8 that were not made safe every beginning, every end
// and random choices; writes torn at sectors of 512 bytes; what was lost of a file's content reads as zeros or as what
// lay on the disk before. Thread safety: pure.
// Use: for_each_state(disk, {.random_choices = 64}, [&](const PowerCut& cut, Folder state) { ... });

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/faults/simulated_disk.h"

namespace test::faults {

/// What a lost write leaves where the file is long enough, or was made longer by it.
enum class Lost : std::uint8_t { nothing, zeros, stale };

/// What is left of one operation: all or none of it, or of a write some of its sectors.
struct Survival {
  bool kept = true;
  bool torn = false;
  std::uint64_t sectors = 0;  ///< torn: bit i % 64 says whether sector i of the write is there
  std::uint64_t length = 0;   ///< torn without sectors: only so many bytes are there
};

struct Choice {
  std::size_t cut = 0;              ///< operations that were begun
  std::vector<Survival> survivals;  ///< one an operation
  Lost lost = Lost::nothing;
  std::uint64_t seed = 0;  ///< what stale bytes are made of
};

Folder build_state(const SimulatedDisk& disk, const Choice& choice);

struct PowerCut {
  std::size_t cut;   ///< operations that were begun
  bool returned;     ///< the call had come back
  std::string disk;  ///< "ordered" or "any order"
  std::string how;   ///< which of the unsafe operations are there, for a person
};

struct StateOptions {
  unsigned random_choices = 64;
  std::uint64_t seed = 1;
};

/// Every distinct state once (with another `returned` once more).
void for_each_state(const SimulatedDisk& disk, const StateOptions& options,
                    const std::function<void(const PowerCut& cut, const Folder& state)>& visit);

}  // namespace test::faults

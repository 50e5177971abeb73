#pragma once
// XXH3's 128 bits by the instructions of this processor: the system's library is built for the oldest ones, and takes
// three times as long. Internal to libckpt/io. Thread safety: pure functions; a state belongs to one thread. Use: const
// Xxh3& xxh3 = xxh3_here();

#include <cstddef>
#include <cstdint>

namespace ckpt::detail {

struct Xxh3 {
  struct Hash {
    std::uint64_t low;
    std::uint64_t high;
  };
  std::size_t state_size;
  std::size_t state_alignment;
  void (*reset)(void* state);
  void (*update)(void* state, const void* bytes, std::size_t size);
  Hash (*digest)(const void* state);
  Hash (*whole)(const void* bytes, std::size_t size);
};

extern const Xxh3 kXxh3Plain;
extern const Xxh3 kXxh3Avx2;  ///< where the processor has it

const Xxh3& xxh3_here();

}  // namespace ckpt::detail

#pragma once
// Philox 4x32-10, the counter-based generator of CUDA devices: four 32-bit words for a key and a 128-bit counter.
// Thread safety: pure functions. Use: auto words = philox({.key = seed, .offset = 0, .thread = i});
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

#include <array>
#include <cstdint>

namespace core::detail {

struct PhiloxCounter {
  std::uint64_t key;
  std::uint64_t offset;  ///< low counter half: blocks of four words used up by this thread
  std::uint64_t thread;  ///< high counter half
};

inline std::array<std::uint32_t, 4> philox(PhiloxCounter at) {
  constexpr std::uint64_t kMul0 = 0xD2511F53;
  constexpr std::uint64_t kMul1 = 0xCD9E8D57;
  auto key0 = static_cast<std::uint32_t>(at.key);
  auto key1 = static_cast<std::uint32_t>(at.key >> 32);
  std::array<std::uint32_t, 4> c = {static_cast<std::uint32_t>(at.offset), static_cast<std::uint32_t>(at.offset >> 32),
                                    static_cast<std::uint32_t>(at.thread), static_cast<std::uint32_t>(at.thread >> 32)};
  for (int round = 0; round < 10; ++round) {
    std::uint64_t p0 = kMul0 * c[0];
    std::uint64_t p1 = kMul1 * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key1, static_cast<std::uint32_t>(p0)};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c;
}

}  // namespace core::detail

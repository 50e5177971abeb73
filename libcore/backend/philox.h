#pragma once
// Philox 4x32-10, the counter-based generator of CUDA devices: four 32-bit words for a key and a 128-bit counter. For
// kernels and for the host. Thread safety: pure functions.
// Use: const PhiloxWords words = philox({.key = seed, .offset = 0, .thread = i});
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

#include <cstdint>

#ifdef __CUDACC__
#define CORE_RANDOM_HD __host__ __device__
#else
#define CORE_RANDOM_HD
#endif

namespace core {

struct PhiloxWords {
  std::uint32_t at[4];
  /// at[k] without an address, which would put the words into memory.
  CORE_RANDOM_HD std::uint32_t pick(int k) const { return k < 2 ? (k == 0 ? at[0] : at[1]) : (k == 2 ? at[2] : at[3]); }
};

struct PhiloxCounter {
  std::uint64_t key;
  std::uint64_t offset;  ///< low counter half: blocks of four words used up by this thread
  std::uint64_t thread;  ///< high counter half
};

CORE_RANDOM_HD inline PhiloxWords philox(PhiloxCounter at) {
  auto key0 = static_cast<std::uint32_t>(at.key), key1 = static_cast<std::uint32_t>(at.key >> 32);
  PhiloxWords c = {{static_cast<std::uint32_t>(at.offset), static_cast<std::uint32_t>(at.offset >> 32),
                    static_cast<std::uint32_t>(at.thread), static_cast<std::uint32_t>(at.thread >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c.at[0], p1 = std::uint64_t{0xCD9E8D57} * c.at[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.at[1] ^ key0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.at[3] ^ key1, static_cast<std::uint32_t>(p0)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return c;
}

}  // namespace core

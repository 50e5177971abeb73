#pragma once
// How a number of 16 bits becomes one byte and, where that does not say it all, further bits: small ones and those just
// below 65,536, which are what a word misses by that has another sign, take few. Internal to libckpt/io. Never throws.
// Thread safety: pure functions. Use: std::uint8_t code = miss_code(300); std::uint16_t rest = miss_rest(300, code);

#include <array>
#include <bit>
#include <cstdint>

namespace ckpt::detail {

inline constexpr unsigned kPlainMisses = 224;  ///< numbers below are codes without further bits

/// What a code says: the number is `start` plus the further bits, or minus them.
struct MissRange {
  std::uint16_t start = 0;
  std::uint8_t bits = 0;
  bool down = false;
};

consteval std::array<MissRange, 256> make_miss_ranges() {
  std::array<MissRange, 256> ranges = {};
  unsigned code = 0;
  for (; code < kPlainMisses; ++code) ranges[code].start = static_cast<std::uint16_t>(code);
  unsigned start = kPlainMisses;
  for (unsigned k = 0; k < 21; ++k) {  // three of each size
    const unsigned bits = 5 + k / 3;
    ranges[code++] = {static_cast<std::uint16_t>(start), static_cast<std::uint8_t>(bits), false};
    start += 1U << bits;
  }
  ranges[code++] = {UINT16_MAX, 6, true};
  for (unsigned bits = 6; bits < 14; ++bits) {
    ranges[code++] = {static_cast<std::uint16_t>(UINT16_MAX - (1U << bits)), static_cast<std::uint8_t>(bits), true};
  }
  ranges[code++] = {0, 16, false};  // any number
  return ranges;
}
inline constexpr std::array<MissRange, 256> kMissRanges = make_miss_ranges();
inline constexpr unsigned kTurnedMisses = kPlainMisses + 21;  ///< the first code of those just below 65,536
inline constexpr unsigned kAnyMiss = kTurnedMisses + 9;       ///< the last code that there is
inline constexpr unsigned kLeastTurned = UINT16_MAX + 1U - (1U << 14);
inline constexpr unsigned kPastSmall = kPlainMisses + 96 * ((1U << 7) - 1);

constexpr std::uint8_t miss_code(std::uint16_t miss) {
  if (miss < kPlainMisses) return static_cast<std::uint8_t>(miss);
  if (miss >= kLeastTurned) {
    const int width = std::bit_width(static_cast<unsigned>(UINT16_MAX - miss));
    return static_cast<std::uint8_t>(kTurnedMisses + (width < 7 ? 0 : width - 6));
  }
  if (miss >= kPastSmall) return kAnyMiss;
  // Three ranges of 32, three of 64, ...: those before the ones of 2^b take 96 (2^(b - 5) - 1).
  const unsigned from = miss - kPlainMisses;
  const auto group = static_cast<unsigned>(std::bit_width(from / 96 + 1)) - 1;
  return static_cast<std::uint8_t>(kPlainMisses + 3 * group + ((from - 96 * ((1U << group) - 1)) >> (5 + group)));
}

/// The further bits.
constexpr std::uint16_t miss_rest(std::uint16_t miss, std::uint8_t code) {
  const MissRange& range = kMissRanges[code];
  return static_cast<std::uint16_t>(range.down ? range.start - miss : miss - range.start);
}

constexpr std::uint16_t miss_of(std::uint8_t code, std::uint16_t rest) {
  const MissRange& range = kMissRanges[code];
  return static_cast<std::uint16_t>(range.down ? range.start - rest : range.start + rest);
}

}  // namespace ckpt::detail

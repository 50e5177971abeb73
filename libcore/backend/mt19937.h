#pragma once
// The 32-bit Mersenne Twister with the bookkeeping PyTorch stores in a generator state (seed, left, next).
// Thread safety: none; a generator owns one under its lock. Use: core::Mt19937 engine(0); engine.next() == 2357136044.

#include <array>
#include <cstdint>

namespace core {

/// Source: Matsumoto and Nishimura, "Mersenne Twister", 1998. The stream equals std::mt19937's.
class Mt19937 {
 public:
  static constexpr int kWords = 624;

  /// Everything that decides the coming numbers.
  struct State {
    std::uint64_t seed = 0;
    std::int32_t left = 1;  ///< numbers before the next twist, plus one
    bool seeded = false;
    std::uint32_t next = 0;  ///< index of the word that comes next
    std::array<std::uint32_t, kWords> words{};
  };

  /// Only the low 32 bits of the seed decide the numbers.
  explicit Mt19937(std::uint64_t seed);

  std::uint32_t next() {
    if (--state_.left == 0) twist();
    std::uint32_t y = state_.words[state_.next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
  }

  /// Two numbers, the first one in the high half.
  std::uint64_t next64() {
    std::uint64_t high = next();
    return high << 32 | next();
  }

  const State& state() const { return state_; }
  /// REQUIRES: 1 <= left <= 624 and left + next is 1 or 625, so that no read leaves the words.
  void set_state(const State& state) { state_ = state; }

 private:
  void twist();

  State state_;
};

}  // namespace core

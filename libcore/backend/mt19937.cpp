#include "libcore/backend/mt19937.h"

namespace core {

Mt19937::Mt19937(std::uint64_t seed) {
  state_.seed = seed;
  state_.seeded = true;
  state_.words[0] = static_cast<std::uint32_t>(seed);
  for (std::uint32_t i = 1; i < kWords; ++i) {
    std::uint32_t before = state_.words[i - 1];
    state_.words[i] = 1812433253U * (before ^ (before >> 30)) + i;
  }
}

namespace {
/// The word that follows from two neighbours and a third one.
inline std::uint32_t twisted(std::uint32_t word, std::uint32_t next, std::uint32_t middle) {
  const std::uint32_t mixed = (word & 0x80000000U) | (next & 0x7fffffffU);
  return middle ^ (mixed >> 1) ^ ((0U - (mixed & 1U)) & 0x9908b0dfU);
}
}  // namespace

void Mt19937::twist() {
  constexpr int kMiddle = 397;
  constexpr int kRest = kWords - kMiddle;
  // Three loops without a remainder, so that the compiler can do several words at once.
  std::uint32_t* words = state_.words.data();
  for (int i = 0; i < kRest; ++i) words[i] = twisted(words[i], words[i + 1], words[i + kMiddle]);
  for (int i = kRest; i < kWords - 1; ++i) words[i] = twisted(words[i], words[i + 1], words[i - kRest]);
  words[kWords - 1] = twisted(words[kWords - 1], words[0], words[kMiddle - 1]);
  state_.left = kWords;
  state_.next = 0;
}

}  // namespace core

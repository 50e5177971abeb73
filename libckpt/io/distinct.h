#pragma once
// Whether any of many addresses is there twice: a list of 100,000 tensors asks so for what is tied. Internal to libckpt
// and its tools. Thread safety: pure. Use: const std::vector<const Entry*> addresses{&entry};
// if (all_differ(addresses)) return;

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

namespace ckpt::detail {

/// Objects that were made one behind the other mostly have rising addresses, which are seen in one pass. Else in a
/// table of addresses, a tenth of the time of sorting them. Null counts as an address.
template <class T>
bool all_differ(const std::vector<const T*>& addresses) {
  if (std::ranges::adjacent_find(addresses, std::ranges::greater_equal()) == addresses.end()) return true;
  const std::size_t slots = std::bit_ceil(2 * addresses.size());
  const int shift = 64 - std::countr_zero(slots);
  std::vector<const T*> table(slots);  // null: free
  bool null_seen = false;
  for (const T* address : addresses) {
    if (address == nullptr) {
      if (null_seen) return false;
      null_seen = true;
      continue;
    }
    std::size_t slot = (reinterpret_cast<std::uintptr_t>(address) * 0x9e3779b97f4a7c15U) >> shift;
    for (; table[slot] != nullptr; slot = (slot + 1) % slots) {
      if (table[slot] == address) return false;
    }
    table[slot] = address;
  }
  return true;
}

}  // namespace ckpt::detail

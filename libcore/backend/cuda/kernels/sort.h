#pragma once
// Sorting of unsigned keys on the device, stable. What other kernels put in order by.
// Thread safety: as launch.h. Use: sort_lines(keys, sorted, positions, {.lines = 1, .length = n, .bits = 32});

#include <cstdint>

#include "libcore/backend/cuda/kernels/launch.h"

namespace core::CORE_KERNELS {

/// `lines` lines of `length` keys, one after the other; each is sorted alone. Keys are below 2^bits.
struct KeyLines {
  std::int64_t lines;
  std::int64_t length;
  int bits;
};

/// sorted: the keys of each line in ascending order; positions: where in its line each stood. Equal keys stay in order.
/// Error(unsupported) for lines of 2^32 keys and more.
void sort_lines(const std::uint32_t* keys, std::uint32_t* sorted, std::uint32_t* positions, const KeyLines& lines);
void sort_lines(const std::uint64_t* keys, std::uint64_t* sorted, std::uint32_t* positions, const KeyLines& lines);

}  // namespace core::CORE_KERNELS

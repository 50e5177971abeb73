#pragma once
// Matrices of words of 16 bits, turned: images from planes to pixels and back. Compiled for AVX-512 alone.
// Thread safety: pure functions. Use: avx512::turn_narrow({planes, pixels, images, channels, height * width});

#include <cstdint>

namespace core::cpu {

/// to (count, columns, rows) = from (count, rows, columns), both dense.
struct NarrowTurn {
  const std::uint16_t* from;
  std::uint16_t* to;
  std::int64_t count, rows, columns;
};

namespace avx512 {
void turn_narrow(const NarrowTurn& p);
}

}  // namespace core::cpu

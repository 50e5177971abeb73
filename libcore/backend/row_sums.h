#pragma once
// Rows of a matrix added to rows of another one, in host memory: one sum has one order, and in 16 bits it is rounded
// before the next row comes. Thread safety: pure functions. Use: if (core::adds_rows(dtype)) core::add_rows({.dtype =
// dtype, ...});

#include <cstdint>

#include "libcore/base/dtype.h"

namespace core {

/// out[to[k]] += in[from[k]] for each k < count, in order; rows of `width` elements, one after the other.
struct RowSums {
  DType dtype;
  void* out;
  const std::int64_t* to;
  const void* in;
  const std::int64_t* from;
  std::int64_t count;
  std::int64_t width;
};

/// Of f32, f16 and bf16.
bool adds_rows(DType dtype);
/// REQUIRES: adds_rows(sums.dtype), and row numbers that are there.
void add_rows(const RowSums& sums);

}  // namespace core

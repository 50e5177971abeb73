#pragma once
// Normal values from uniform ones in place, in blocks of 16. Thread safety: pure functions.
// Use: normal_blocks(values, 32, {.mean = 0, .std = 1});

#include <cstdint>

namespace core::cpu {

struct NormalShape {
  double mean;
  double std;
};

/// REQUIRES: count is a multiple of 16; the values are in [0, 1).
void normal_blocks(float* data, std::int64_t count, NormalShape shape);
void normal_blocks(double* data, std::int64_t count, NormalShape shape);

}  // namespace core::cpu

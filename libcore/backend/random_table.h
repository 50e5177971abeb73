#pragma once
// The random family of kernels: fills whose numbers come from the Philox counter generator, as random_cuda.h makes them
// on the host, bit for bit up to the last places of logarithms, sines and tangents. Only devices whose memory the host
// cannot write fill it. Thread safety: parameters are plain values, the table is constant after start-up.
// Use: backend.ops().random->fill.at(RandomOp::uniform, dtype)(core::RandomParams{...});

#include <cstdint>

#include "libcore/backend/op_tables.h"

namespace core {

enum class RandomOp : std::uint8_t {
  uniform,      ///< [a, b)
  normal,       ///< mean a, standard deviation b
  log_normal,   ///< exp of normal
  bernoulli,    ///< 1 with probability a, else 0
  exponential,  ///< rate a
  geometric,    ///< probability a
  cauchy,       ///< median a, sigma b
  integers,     ///< from, from + 1, ... from + size - 1
  any_integer,  ///< 0 ... the largest integer that the dtype holds exactly
  count_
};

/// `count` elements side by side. What is drawn depends on seed and offset alone; in a captured graph these lie in
/// device memory, where every replay finds others (graph_random.h).
struct RandomParams {
  void* out;
  std::int64_t count;
  std::uint64_t seed;
  std::uint64_t offset;  ///< of the generator, a multiple of 4
  double a;
  double b;
  std::int64_t from;
  std::uint64_t size;
  const std::uint64_t* state = nullptr;  ///< {seed, offset} in device memory: `seed` is not read, `offset` is added
};

struct RandomTable {
  KernelGrid<RandomOp, RandomParams> fill;
};

/// By how much a fill moves the offset of the generator: a launch makes `parts` elements (4, or 2 where an element
/// takes two words) from four words a thread, on a device of 132 multiprocessors with 2048 threads each.
inline std::uint64_t random_offset_step(std::int64_t count, int parts) {
  if (count == 0) return 0;
  constexpr std::int64_t kThreadsPerBlock = 256, kMaxBlocks = 132 * 2048 / kThreadsPerBlock;
  const std::int64_t blocks = (count + kThreadsPerBlock - 1) / kThreadsPerBlock;
  const std::int64_t wave = (blocks < kMaxBlocks ? blocks : kMaxBlocks) * kThreadsPerBlock * parts;
  return 4 * static_cast<std::uint64_t>((count - 1) / wave + 1);
}

}  // namespace core

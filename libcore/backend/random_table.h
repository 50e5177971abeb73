#pragma once
// The random family of kernels. On the CPU the numbers come from the Mersenne Twister of the generator's stream; on
// CUDA devices, of which logical ones are on host memory (logical_backend.h), from the Philox counter generator: the
// bits that PyTorch 2.15 draws on a device of 132 multiprocessors (random_arithmetic.h says which bits only hardware
// knows). Thread safety: parameters are plain values, but for the stream, which the caller locks; the table is constant
// after start-up. Use: backend.ops().random->fill.at(RandomOp::uniform, dtype)(core::RandomParams{...});

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "libcore/backend/op_tables.h"

namespace core {

namespace detail {
struct RandomStream;  // random_stream.h
}

enum class RandomOp : std::uint8_t {
  uniform,         ///< [a, b)
  normal,          ///< mean a, standard deviation b
  log_normal,      ///< exp of normal
  bernoulli,       ///< 1 with probability a, else 0
  exponential,     ///< rate a
  geometric,       ///< probability a
  cauchy,          ///< median a, sigma b
  integers,        ///< from, from + 1, ... from + size - 1
  any_integer,     ///< 0 ... the largest integer that the dtype holds exactly
  bernoulli_each,  ///< 1 with the probability in an element of `in`, f64 for f64 and else f32
  dropout,         ///< `in` / a with probability a, else 0; `kept` says where; a thread makes `size` neighbours
  normal_serial,   ///< normal, value by value whatever the count: only the CPU makes blocks of 16 otherwise
  permutation,     ///< 0 ... count - 1 in random order; GPUs leave it to the host
  samples,         ///< (0, 1] for samples with replacement, `size` a row; only for CUDA generators on the host
  count_
};

/// `count` elements side by side. What is drawn depends on the stream alone on the CPU, elsewhere on seed and offset;
/// in a captured graph these lie in device memory, where every replay finds others (graph_random.h).
struct RandomParams {
  void* out;
  std::int64_t count;
  std::uint64_t seed;
  std::uint64_t offset;  ///< of the generator, a multiple of 4
  double a;
  double b;
  std::int64_t from;
  std::uint64_t size;
  const std::uint64_t* state = nullptr;    ///< {seed, offset} in device memory: `seed` is not read, `offset` is added
  const void* in = nullptr;                ///< of bernoulli_each and dropout, beside `out`
  bool* kept = nullptr;                    ///< of dropout
  detail::RandomStream* stream = nullptr;  ///< of the generator, locked
};

struct RandomTable {
  KernelGrid<RandomOp, RandomParams> fill;
};

inline constexpr std::int64_t kRandomBlock = 256, kRandomBlocks = 132 * 2048 / kRandomBlock;

/// The threads that PyTorch would fill `count` elements with. REQUIRES: count > 0.
inline std::int64_t random_threads(std::int64_t count) {
  return std::min((count + kRandomBlock - 1) / kRandomBlock, kRandomBlocks) * kRandomBlock;
}

/// How many elements a thread makes from four words; `size` is that of RandomOp::integers.
inline int random_parts(RandomOp op, DType dtype, std::uint64_t size) {
  if (op == RandomOp::dropout || op == RandomOp::bernoulli_each) return 4;
  if (op == RandomOp::integers) return size >= 1ULL << 28 ? 2 : 4;
  const bool is_wide =
      dtype == DType::f64 || (op == RandomOp::any_integer && (dtype == DType::i64 || dtype == DType::u64));
  return is_wide ? 2 : 4;
}

/// By how much a launch moves the offset of the generator.
inline std::uint64_t random_offset_step(std::int64_t count, int parts) {
  if (count == 0) return 0;
  return 4 * static_cast<std::uint64_t>((count - 1) / (random_threads(count) * parts) + 1);
}

/// Part of a fill: `count` elements from `first` on, from numbers `offset` behind where the generator stands.
struct RandomLaunch {
  std::int64_t first, count;
  std::uint64_t offset;
};

struct RandomLaunches {
  std::vector<RandomLaunch> parts;
  std::uint64_t used = 0;  ///< by how much the fill moves the offset of the generator
};

/// PyTorch fills a tensor whose bytes do not fit 31 bits in halves, and halves of these, after numbers for the whole of
/// it were counted as used.
inline RandomLaunches random_launches(std::int64_t count, std::int64_t element_size, int parts) {
  RandomLaunches all;
  const auto fits = [&](std::int64_t n) { return n <= 0x7fffffff && 1 + (n - 1) * element_size <= 0x7fffffff; };
  if (count == 0) return all;
  if (!fits(count)) all.used = random_offset_step(count, parts);
  std::vector<RandomLaunch> open{{0, count, 0}};
  while (!open.empty()) {
    RandomLaunch part = open.back();
    open.pop_back();
    while (!fits(part.count)) {
      const std::int64_t half = part.count / 2;
      open.push_back({part.first + half, part.count - half, 0});
      part.count = half;
    }
    part.offset = all.used;
    all.used += random_offset_step(part.count, parts);
    all.parts.push_back(part);
  }
  return all;
}

/// bernoulli_each counts ten numbers a call, which are rounded up to whole blocks of four.
inline constexpr std::uint64_t kBernoulliEachStep = 12;

/// How many bits the keys of a permutation have: enough that all differ nine times in ten.
inline int permutation_key_bits(std::int64_t count) {
  const auto n = static_cast<double>(count);
  const double bits = std::ceil(std::log2(n - (6 * n * n + 1) / (std::log(0.9) * 12)));
  return std::min(64, static_cast<int>(bits));
}

/// By how much the keys move the offset; after them come four numbers for every four elements, for equal keys.
inline std::uint64_t permutation_keys_step(std::int64_t count) {
  return random_launches(count, permutation_key_bits(count) <= 32 ? 4 : 8, 2).used;
}

/// Rows of samples that have threads of their own.
inline constexpr std::int64_t kMostSampleRows = 65535;

/// The launches of a fill; `size` is that of the parameters.
inline RandomLaunches random_launches(RandomOp op, DType dtype, std::int64_t count, std::uint64_t size) {
  const auto one = [count](std::uint64_t used) { return RandomLaunches{{{0, count, 0}}, count == 0 ? 0 : used}; };
  switch (op) {
    case RandomOp::bernoulli_each:
      return one(kBernoulliEachStep);
    case RandomOp::dropout:
      return one(random_offset_step(count, 4));
    case RandomOp::permutation:
      return one(permutation_keys_step(count) + (static_cast<std::uint64_t>(count) + 3) / 4 * 4);
    case RandomOp::samples:
      return one(4 * ((static_cast<std::uint64_t>(count) / size + kMostSampleRows - 1) / kMostSampleRows));
    default:
      return random_launches(count, bit_width(dtype) / 8, random_parts(op, dtype, size));
  }
}

/// How many neighbours a thread of dropout makes: as many as 16 bytes hold, halved until address and count allow.
inline int dropout_width(std::uintptr_t address, std::int64_t count, std::int64_t element_size) {
  std::int64_t width = 16 / element_size;
  while (width > 1 && (address % (width * element_size) != 0 || count % width != 0)) width /= 2;
  return static_cast<int>(width);
}

}  // namespace core

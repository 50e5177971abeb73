#pragma once
// How the kernels of f32 products cut their work: numbers of k into chunks, whose sums are added up one after the other
// as oneDNN does, so that the bits are its; vectors of columns into parts that the registers hold sums for.
// In an anonymous namespace on purpose: see vector.h. Thread safety: pure functions. Included by kernels only.
// Use: for_each_part(vectors, [&](std::int64_t first, std::int64_t count) { ... });

#include <cstdint>

namespace core::cpu {
namespace {

constexpr std::int64_t kChunk = 384;  // of k, whose sums are added up first

/// The part of k that is summed next, and whether there are sums already.
struct Chunk {
  std::int64_t begin, count;
};

/// The next chunk: no last one is much smaller than the others.
inline Chunk chunk_at(std::int64_t begin, std::int64_t k) {
  const std::int64_t left = k - begin;
  if (left >= 2 * kChunk) return {begin, kChunk};
  return {begin, left > kChunk ? (left + 1) / 2 : left};
}

/// Calls visit(first, count) for parts of `vectors` of three and, where they do not come out even, of two.
template <class Visit>
void for_each_part(std::int64_t vectors, Visit visit) {
  std::int64_t count = 0;
  for (std::int64_t first = 0; first < vectors; first += count) {
    const std::int64_t left = vectors - first;
    count = left == 1 ? 1 : left % 3 == 0 ? 3 : 2;
    visit(first, count);
  }
}

}  // namespace
}  // namespace core::cpu

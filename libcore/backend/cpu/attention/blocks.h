#pragma once
// What attention by blocks is made of: a block of queries lies in the lanes of vectors, one query a lane, so that the
// softmax over keys needs no sums across a vector, and every product is one of numbers of one matrix with rows of
// another (gemm/small.h): keys, values and their gradients stay as they are, only queries and results are turned.
// In an anonymous namespace on purpose: see vector.h. Thread safety: each value belongs to one thread. Included by
// kernels only. Use: const Scores scores{block, k0, keys, memory}; hide_later(scores);

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/backend/cpu/gemm/small.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/cpu/vector_math.h"

namespace core::cpu {
namespace {

/// Queries and keys of a block: its scores, 16 KiB, stay in the first cache beside as many numbers of keys or values.
constexpr std::int64_t kQueries = 64, kKeys = 64;
constexpr float kHidden = -std::numeric_limits<float>::infinity();

/// Some queries of one head; `lanes`: as many as fill whole vectors.
struct Block {
  std::int64_t first, rows, lanes;
  Block(std::int64_t begin, std::int64_t all) : first(begin), rows(std::min(kQueries, all - begin)) {
    constexpr std::int64_t kW = kWidth<float>;
    lanes = (rows + kW - 1) / kW * kW;
  }
};

/// Keys that some query up to `end` sees.
inline std::int64_t keys_before(const AttentionSizes& s, std::int64_t end) {
  return s.causal ? std::min(s.keys, end) : s.keys;
}

/// Rows of one head of a batch item.
struct HeadRows {
  const void* data;
  std::int64_t stride;
};

template <DType kType>
HeadRows rows_of(const AttentionArray& array, std::int64_t batch, std::int64_t head) {
  const std::int64_t at = batch * array.batch_stride + head * array.head_stride;
  return {static_cast<const std::byte*>(array.data) + at * (kType == DType::f32 ? 4 : 2), array.row_stride};
}

/// Rows of a head as f32 without gaps: where they lie, or copied. With gaps rows of several heads beside each other
/// would fall on the same few lines of the first cache.
template <DType kType>
class WideRows {
 public:
  WideRows(std::int64_t most, std::int64_t width) : width_(width), memory_(most * width) {}
  const float* take(const HeadRows& from, std::int64_t first, std::int64_t count) {
    if constexpr (kType == DType::f32) {
      const float* rows = static_cast<const float*>(from.data) + first * from.stride;
      if (from.stride == width_) return rows;
      for (std::int64_t i = 0; i < count; ++i) std::copy_n(rows + i * from.stride, width_, memory_.data() + i * width_);
    } else {
      const auto* rows = static_cast<const std::uint16_t*>(from.data) + first * from.stride;
      for (std::int64_t i = 0; i < count; ++i) {
        CORE_CPU_VARIANT::widen_row(kType, rows + i * from.stride, width_, memory_.data() + i * width_);
      }
    }
    return memory_.data();
  }

 private:
  std::int64_t width_;
  CallMemory memory_;
};

/// Puts rows without gaps, rounded, into a head's.
template <DType kType>
void put_rows(const float* rows, std::int64_t count, std::int64_t width, const HeadRows& to, std::int64_t first) {
  for (std::int64_t i = 0; i < count; ++i, rows += width) {
    const std::int64_t at = (first + i) * to.stride;
    if constexpr (kType == DType::f32) {
      std::copy_n(rows, width, static_cast<float*>(const_cast<void*>(to.data)) + at);
    } else {
      CORE_CPU_VARIANT::round_row(kType, rows, width, static_cast<std::uint16_t*>(const_cast<void*>(to.data)) + at);
    }
  }
}

/// (width x lanes): one query a lane, zeros in lanes that have none.
inline void turn_block(const Block& block, const float* rows, std::int64_t width, float* to) {
  if (block.rows < block.lanes) std::fill_n(to, width * block.lanes, 0.0F);
  turned(rows, width, block.rows, width, to, block.lanes);
}

/// Scores of a block: (keys x lanes), of keys first to first + keys - 1.
struct Scores {
  const Block& block;
  std::int64_t first, keys;
  float* at;
};

/// at = factor * rows x turned, of rows of keys or of values and a turned block of as many numbers.
inline void multiply_rows(const Scores& s, const float* rows, const float* turned_block, std::int64_t width,
                          double factor) {
  rows_product(SmallProduct<float>{.m = s.keys,
                                   .n = s.block.lanes,
                                   .k = width,
                                   .a = rows + s.first * width,
                                   .a_row = width,
                                   .a_step = 1,
                                   .b = turned_block,
                                   .ldb = s.block.lanes,
                                   .c = s.at,
                                   .ldc = s.block.lanes,
                                   .alpha = static_cast<float>(factor)});
}

/// sums (width x lanes) = beta * sums + the transpose of rows x at.
inline void add_turned(const Scores& s, const float* rows, std::int64_t width, float beta, float* sums) {
  rows_product(SmallProduct<float>{.m = width,
                                   .n = s.block.lanes,
                                   .k = s.keys,
                                   .a = rows + s.first * width,
                                   .a_row = 1,
                                   .a_step = width,
                                   .b = s.at,
                                   .ldb = s.block.lanes,
                                   .c = sums,
                                   .ldc = s.block.lanes,
                                   .beta = beta});
}

/// sums (all keys x width) += at x rows of the block.
inline void add_to_keys(const Scores& s, const float* rows, std::int64_t width, float* sums) {
  rows_product(SmallProduct<float>{.m = s.keys,
                                   .n = width,
                                   .k = s.block.rows,
                                   .a = s.at,
                                   .a_row = s.block.lanes,
                                   .a_step = 1,
                                   .b = rows,
                                   .ldb = width,
                                   .c = sums + s.first * width,
                                   .ldc = width,
                                   .beta = 1});
}

/// Scores of keys behind their query become -infinity.
inline void hide_later(const Scores& s) {
  using V = Vector<float>;
  constexpr std::int64_t kW = kWidth<float>;
  VectorBits<float> lane;
  for (int i = 0; i < kW; ++i) lane[i] = i;
  for (std::int64_t j = std::max<std::int64_t>(0, s.block.first + 1 - s.first); j < s.keys; ++j) {
    const auto before = static_cast<std::int32_t>(s.first + j - s.block.first);  // lanes that do not see the key
    float* row = s.at + j * s.block.lanes;
    for (std::int64_t at = 0; at < s.block.lanes; at += kW) {
      const V x = load(row + at);
      store(row + at, lane + static_cast<std::int32_t>(at) < before ? all_of(kHidden) : x);
    }
  }
}

}  // namespace
}  // namespace core::cpu

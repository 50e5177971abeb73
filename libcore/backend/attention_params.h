#pragma once
// What the kernels of scaled dot-product attention are given (nn_table.h has their slots). A mask and dropout are for
// kernels that go by tiles alone (NnTable::attention_has_tiles). Thread safety: plain values.
// Use: backend.ops().nn->attention[dtype](core::AttentionParams{sizes, q, k, v, output, log_sums});

#include <cstdint>

namespace core {

/// softmax(q @ k^T * scale) @ v for every head. `causal`: row i sees the keys up to i.
struct AttentionSizes {
  std::int64_t batch, heads, queries, keys, width;
  double scale;
  bool causal;
};

/// (batch, heads, rows, width) with rows of neighbouring elements; strides in elements.
struct AttentionArray {
  const void* data;
  std::int64_t batch_stride, head_stride, row_stride;
};

/// (batch, heads, queries, keys), added to the scores: numbers of the data's dtype, or bytes of which 0 hides a key.
/// Strides in elements, 0 along what one number is for. A row that sees no key has results and gradients of 0.
struct AttentionMask {
  const void* data = nullptr;  ///< null: no mask
  std::int64_t batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;
  bool is_boolean = false;
};

/// Weights after the softmax are dropped with probability p, and the others divided by 1 - p. Weight i, counted through
/// (batch, heads, queries, keys), is kept if the uniform number i of the Philox sequence of `seed` behind the
/// generator's offset is above p: the rule of PyTorch's memory-efficient kernel, which its flash kernels do not share.
/// So the gradient finds the same decisions without a matrix of them.
struct AttentionDropout {
  double p = 0;  ///< 0: no dropout
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;              ///< of the generator, a multiple of 4
  const std::uint64_t* state = nullptr;  ///< {seed, offset} in device memory: `seed` is not read, `offset` is added
  std::uint64_t* drawn = nullptr;  ///< null, or where attention() leaves {seed, offset} for the gradient's `state`
};

/// By how much dropout of `weights` weights moves the offset of the generator.
inline std::uint64_t attention_offset_step(std::int64_t weights) {
  return (static_cast<std::uint64_t>(weights) + 3) / 4 * 4;
}

/// log_sums (batch, heads, queries): the logarithm of the sum of exponentials of each row's scores. Where there are
/// row_maxima, these hold the rows' largest scores, and log_sums is without them: a mask may add numbers so large that
/// they would swallow the logarithm.
struct AttentionParams {
  AttentionSizes sizes;
  AttentionArray q, k, v;
  AttentionArray output;
  void* log_sums;
  void* row_maxima = nullptr;
  AttentionMask mask = {};
  AttentionDropout dropout = {};
};

struct AttentionGradParams {
  AttentionSizes sizes;
  AttentionArray q, k, v, output, output_grad;
  const void* log_sums;
  AttentionArray q_grad, k_grad, v_grad;
  const void* row_maxima = nullptr;
  AttentionMask mask = {};
  AttentionDropout dropout = {};
};

/// What dropout keeps, as a matrix: kept (batch, heads, queries, keys).
struct AttentionKeptParams {
  AttentionSizes sizes;
  AttentionDropout dropout;
  bool* kept;
};

}  // namespace core

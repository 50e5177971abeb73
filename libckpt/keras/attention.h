#pragma once
// Keras' MultiHeadAttention as torch's nn.MultiheadAttention has it: which weights make one, and why some do not.
// Internal to libckpt/keras.
// Thread safety: pure. Use: if (std::string why = why_no_attention(layer); why.empty()) ... attention_sizes(layer);

#include <cstdint>
#include <string>
#include <string_view>

#include "libckpt/keras/keras_layers.h"

namespace ckpt::detail {

inline constexpr std::string_view kAttention = "MultiHeadAttention";

/// Also of grouped queries, which may have as many heads for keys as for queries; files have two names for it.
bool is_attention(std::string_view kind);

/// The projection of attention that a layer inside of it is: "query" of "query_dense" (Keras 3) and "query" (before),
/// "output" of "output_dense" and "attention_output"; "" for what is none.
std::string attention_part(std::string_view step);

struct AttentionSizes {
  std::int64_t heads = 0;
  std::int64_t width = 0;   ///< of a head
  std::int64_t keys = 0;    ///< features of what keys are made of
  std::int64_t values = 0;  ///< of what values are made of

  std::int64_t features() const { return heads * width; }  ///< of queries and of what comes out
  /// Whether torch has the three projections as one matrix.
  bool is_one() const { return keys == features() && values == features(); }
};

/// REQUIRES: why_no_attention() is "".
AttentionSizes attention_sizes(const KerasLayer& layer);

/// What of the layer nn.MultiheadAttention cannot hold, as the end of a sentence about it; "" where it holds all.
std::string why_no_attention(const KerasLayer& layer);

}  // namespace ckpt::detail

#pragma once
// Transformer: encoder and decoder in one module. As torch.nn.Transformer.
// Thread safety: as Module. Use: core::Transformer net({.d_model = 64, .nhead = 4}); core::Tensor y = net(source,
// target); Source: Vaswani and others, "Attention is all you need", 2017.

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/module/transformer.h"
#include "libcore/tensor/factory.h"

namespace core {

struct TransformerModelOptions {
  std::int64_t d_model = 512;
  std::int64_t nhead = 8;
  std::int64_t num_encoder_layers = 6;
  std::int64_t num_decoder_layers = 6;
  TransformerOptions layer = {};  ///< of every layer: width of the feed-forward part, dropout, activation, ...
};

/// Masks of a call; undefined for none. As AttentionCall's.
struct TransformerMasks {
  Tensor source_mask = {}, target_mask = {}, memory_mask = {};
  Tensor source_key_padding_mask = {}, target_key_padding_mask = {}, memory_key_padding_mask = {};
};

struct Transformer : ModuleOf<Transformer> {
  TransformerModelOptions options;
  TransformerEncoder encoder;
  TransformerDecoder decoder;

  explicit Transformer(const TransformerModelOptions& given = {});
  void members(Members& m) override { m.child("encoder", encoder).child("decoder", decoder); }
  /// source: (S, N, d_model), target: (T, N, d_model), or batch first, or without N; gives what target is.
  /// Errors: Error(runtime) "the batch number of src and tgt must be equal",
  /// "the feature number of src and tgt must be equal to d_model".
  Tensor forward(const Tensor& source, const Tensor& target, const TransformerMasks& masks = {});

  /// (size, size): 0 on and below the diagonal, -inf above.
  static Tensor generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options = {});
};

// Made once, in the source of this header.
extern template class ModuleOf<Transformer>;

}  // namespace core

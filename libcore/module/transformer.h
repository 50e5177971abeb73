#pragma once
// Transformer layers and stacks. As torch.nn's modules of the same names.
// Thread safety: as Module. Use: core::TransformerEncoderLayer layer(64, 4, {.batch_first = true});
//   core::TransformerEncoder encoder(layer, 6); core::Tensor y = encoder(x);

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libcore/module/attention.h"
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"

namespace core {

struct TransformerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  ///< or "gelu"
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  ///< normalise before attention and feed-forward instead of behind
  bool bias = true;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// Masks of a call; undefined for none. As AttentionCall's.
struct EncoderMasks {
  Tensor mask = {};
  Tensor key_padding_mask = {};
};

struct TransformerEncoderLayer : ModuleOf<TransformerEncoderLayer> {
  TransformerOptions options;
  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;

  /// Error(runtime) "activation should be relu/gelu, not foo".
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t heads, const TransformerOptions& given = {});
  void members(Members& m) override;
  Tensor forward(const Tensor& x, const EncoderMasks& masks = {});

 private:
  Tensor attend(const Tensor& x, const EncoderMasks& masks);
  Tensor feed_forward(const Tensor& x);
};

struct DecoderMasks {
  Tensor target_mask = {}, memory_mask = {};
  Tensor target_key_padding_mask = {}, memory_key_padding_mask = {};
};

struct TransformerDecoderLayer : ModuleOf<TransformerDecoderLayer> {
  TransformerOptions options;
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;

  TransformerDecoderLayer(std::int64_t d_model, std::int64_t heads, const TransformerOptions& given = {});
  void members(Members& m) override;
  Tensor forward(const Tensor& target, const Tensor& memory, const DecoderMasks& masks = {});

 private:
  Tensor attend(const Tensor& x, const DecoderMasks& masks);
  Tensor look_at(const Tensor& x, const Tensor& memory, const DecoderMasks& masks);
  Tensor feed_forward(const Tensor& x);
};

/// `count` deep copies of a layer, one after the other, and a norm behind when given.
struct TransformerEncoder : ModuleOf<TransformerEncoder> {
  ModuleList layers;
  std::int64_t num_layers;
  std::shared_ptr<Module> norm;

  TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t count, std::shared_ptr<Module> last = nullptr);
  void members(Members& m) override;
  Tensor forward(const Tensor& x, const EncoderMasks& masks = {});
};

struct TransformerDecoder : ModuleOf<TransformerDecoder> {
  ModuleList layers;
  std::int64_t num_layers;
  std::shared_ptr<Module> norm;

  TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t count, std::shared_ptr<Module> last = nullptr);
  void members(Members& m) override;
  Tensor forward(const Tensor& target, const Tensor& memory, const DecoderMasks& masks = {});
};

// Made once, in the source of this header.
extern template class ModuleOf<TransformerEncoderLayer>;
extern template class ModuleOf<TransformerDecoderLayer>;
extern template class ModuleOf<TransformerEncoder>;
extern template class ModuleOf<TransformerDecoder>;

}  // namespace core

#include "libcore/module/transformer.h"

#include "libcore/base/error.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

AttentionLayerOptions attention_options(const TransformerOptions& o) {
  return {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first, .dtype = o.dtype, .device = o.device};
}

LinearOptions linear_options(const TransformerOptions& o) {
  return {.bias = o.bias, .dtype = o.dtype, .device = o.device};
}

LayerNorm norm_of(std::int64_t width, const TransformerOptions& o) {
  return LayerNorm({width}, {.eps = o.layer_norm_eps, .bias = o.bias, .dtype = o.dtype, .device = o.device});
}

Tensor activated(const Tensor& x, const std::string& activation) {
  return activation == "relu" ? relu(x) : gelu(x);
}

void check_activation(const std::string& activation) {
  if (activation == "relu" || activation == "gelu") return;
  throw Error(ErrorCode::runtime, "activation should be relu/gelu, not " + activation);
}

Tensor attended(MultiheadAttention& attention, const Tensor& x, const Tensor& memory, const EncoderMasks& masks) {
  const auto [y, weights] = attention.forward(
      x, memory, memory, {.key_padding_mask = masks.key_padding_mask, .need_weights = false, .attn_mask = masks.mask});
  return y;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t heads,
                                                 const TransformerOptions& given)
    : options(given),
      self_attn(d_model, heads, attention_options(given)),
      linear1(d_model, given.dim_feedforward, linear_options(given)),
      dropout(given.dropout),
      linear2(given.dim_feedforward, d_model, linear_options(given)),
      norm1(norm_of(d_model, given)),
      norm2(norm_of(d_model, given)),
      dropout1(given.dropout),
      dropout2(given.dropout) {
  check_activation(given.activation);
}

void TransformerEncoderLayer::members(Members& m) {
  m.child("self_attn", self_attn).child("linear1", linear1).child("dropout", dropout).child("linear2", linear2);
  m.child("norm1", norm1).child("norm2", norm2).child("dropout1", dropout1).child("dropout2", dropout2);
}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const EncoderMasks& masks) {
  return dropout1(attended(self_attn, x, x, masks));
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  return dropout2(linear2(dropout(activated(linear1(x), options.activation))));
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const EncoderMasks& masks) {
  if (options.norm_first) {
    const Tensor y = x + attend(norm1(x), masks);
    return y + feed_forward(norm2(y));
  }
  const Tensor y = norm1(x + attend(x, masks));
  return norm2(y + feed_forward(y));
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t heads,
                                                 const TransformerOptions& given)
    : options(given),
      self_attn(d_model, heads, attention_options(given)),
      multihead_attn(d_model, heads, attention_options(given)),
      linear1(d_model, given.dim_feedforward, linear_options(given)),
      dropout(given.dropout),
      linear2(given.dim_feedforward, d_model, linear_options(given)),
      norm1(norm_of(d_model, given)),
      norm2(norm_of(d_model, given)),
      norm3(norm_of(d_model, given)),
      dropout1(given.dropout),
      dropout2(given.dropout),
      dropout3(given.dropout) {
  check_activation(given.activation);
}

void TransformerDecoderLayer::members(Members& m) {
  m.child("self_attn", self_attn).child("multihead_attn", multihead_attn).child("linear1", linear1);
  m.child("dropout", dropout).child("linear2", linear2).child("norm1", norm1).child("norm2", norm2);
  m.child("norm3", norm3).child("dropout1", dropout1).child("dropout2", dropout2).child("dropout3", dropout3);
}

Tensor TransformerDecoderLayer::attend(const Tensor& x, const DecoderMasks& masks) {
  return dropout1(attended(self_attn, x, x, {masks.target_mask, masks.target_key_padding_mask}));
}

Tensor TransformerDecoderLayer::look_at(const Tensor& x, const Tensor& memory, const DecoderMasks& masks) {
  return dropout2(attended(multihead_attn, x, memory, {masks.memory_mask, masks.memory_key_padding_mask}));
}

Tensor TransformerDecoderLayer::feed_forward(const Tensor& x) {
  return dropout3(linear2(dropout(activated(linear1(x), options.activation))));
}

Tensor TransformerDecoderLayer::forward(const Tensor& target, const Tensor& memory, const DecoderMasks& masks) {
  if (options.norm_first) {
    Tensor y = target + attend(norm1(target), masks);
    y = y + look_at(norm2(y), memory, masks);
    return y + feed_forward(norm3(y));
  }
  Tensor y = norm1(target + attend(target, masks));
  y = norm2(y + look_at(y, memory, masks));
  return norm3(y + feed_forward(y));
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t count,
                                       std::shared_ptr<Module> last)
    : num_layers(count), norm(std::move(last)) {
  for (std::int64_t i = 0; i < count; ++i) layers.push_back(layer.clone());
}

void TransformerEncoder::members(Members& m) {
  m.child("layers", layers);
  if (norm) m.child("norm", norm);
}

Tensor TransformerEncoder::forward(const Tensor& x, const EncoderMasks& masks) {
  Tensor y = x;
  for (const auto& [name, layer] : layers) y = static_cast<TransformerEncoderLayer&>(*layer).forward(y, masks);
  return norm ? norm->call(y) : y;
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t count,
                                       std::shared_ptr<Module> last)
    : num_layers(count), norm(std::move(last)) {
  for (std::int64_t i = 0; i < count; ++i) layers.push_back(layer.clone());
}

void TransformerDecoder::members(Members& m) {
  m.child("layers", layers);
  if (norm) m.child("norm", norm);
}

Tensor TransformerDecoder::forward(const Tensor& target, const Tensor& memory, const DecoderMasks& masks) {
  Tensor y = target;
  for (const auto& [name, layer] : layers) y = static_cast<TransformerDecoderLayer&>(*layer).forward(y, memory, masks);
  return norm ? norm->call(y) : y;
}

template class ModuleOf<TransformerEncoderLayer>;
template class ModuleOf<TransformerDecoderLayer>;
template class ModuleOf<TransformerEncoder>;
template class ModuleOf<TransformerDecoder>;

}  // namespace core

#include "libcore/module/transformer_model.h"

#include <limits>
#include <memory>

#include "libcore/base/error.h"
#include "libcore/module/init.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

std::shared_ptr<Module> last_norm(const TransformerModelOptions& o) {
  const TransformerOptions& l = o.layer;
  return std::make_shared<LayerNorm>(
      LayerNorm({o.d_model}, {.eps = l.layer_norm_eps, .bias = l.bias, .dtype = l.dtype, .device = l.device}));
}

void check(bool ok, const char* message) {
  if (!ok) throw Error(ErrorCode::runtime, message);
}

}  // namespace

Transformer::Transformer(const TransformerModelOptions& given)
    : options(given),
      encoder(TransformerEncoderLayer(given.d_model, given.nhead, given.layer), given.num_encoder_layers,
              last_norm(given)),
      decoder(TransformerDecoderLayer(given.d_model, given.nhead, given.layer), given.num_decoder_layers,
              last_norm(given)) {
  for (const Tensor& parameter : parameters()) {
    if (parameter.dim() > 1) init::xavier_uniform_(parameter);
  }
}

Tensor Transformer::forward(const Tensor& source, const Tensor& target, const TransformerMasks& masks) {
  const std::int64_t batch = options.layer.batch_first ? 0 : 1;
  const bool is_batched = source.dim() == 3;
  check(!is_batched || source.size(batch) == target.size(batch), "the batch number of src and tgt must be equal");
  check(source.size(-1) == options.d_model && target.size(-1) == options.d_model,
        "the feature number of src and tgt must be equal to d_model");
  const Tensor memory =
      encoder.forward(source, {.mask = masks.source_mask, .key_padding_mask = masks.source_key_padding_mask});
  return decoder.forward(target, memory,
                         {.target_mask = masks.target_mask,
                          .memory_mask = masks.memory_mask,
                          .target_key_padding_mask = masks.target_key_padding_mask,
                          .memory_key_padding_mask = masks.memory_key_padding_mask});
}

Tensor Transformer::generate_square_subsequent_mask(std::int64_t size, const TensorOptions& options) {
  const double none = -std::numeric_limits<double>::infinity();
  return triu(full({size, size}, none, options), 1);
}

template class ModuleOf<Transformer>;

}  // namespace core

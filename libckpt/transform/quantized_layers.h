#pragma once
// Quantised layers of safetensors checkpoints: what GPTQ, AWQ and compressed-tensors keep in place of one float weight,
// several tensors under names of their own (qweight, qzeros, scales, g_idx; weight_packed, weight_scale, ...). Which
// they are follows from names and shapes. dequantize() (quantize.h) gives the weights. Sources: the dequantisation of
// AutoGPTQ and GPTQModel, AutoAWQ (its "gemm" layout), compressed-tensors 0.20. Thread safety: pure.
// Use: for (const ckpt::QuantizedLayer& layer : ckpt::find_quantized_layers(root)) std::cout << layer.scheme;

#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libcore/base/shape.h"

namespace ckpt {

struct QuantizedLayer {
  std::string name;                ///< of the weight that it stands for: "model.layers.0.q_proj.weight"
  std::string scheme;              ///< "GPTQ 4-bit, groups of 128"
  core::Shape shape;               ///< of that weight
  std::vector<std::string> parts;  ///< names of the tensors that it consists of
};

/// Of all dicts below `root`, in their order. Tensors that only look like such layers are none. Never throws.
std::vector<QuantizedLayer> find_quantized_layers(const Value& root);

namespace detail {

struct LayerOptions {
  bool zeros_as_stored = false;  ///< GPTQ's second format; the first keeps zero points less one
};

/// One layer of a dict: where its parts lie in the dict's items, and the weight as f32.
struct LayerWeight {
  std::string key;  ///< of the weight
  std::string scheme;
  std::vector<std::size_t> parts;  ///< the first one's place is the weight's
  EntryPtr weight;
};

/// The layers of one dict. Errors: Error(unsupported) naming the tensor for parts whose names are known and whose
/// shapes are not.
std::vector<LayerWeight> layer_weights(const Dict& dict, const LayerOptions& options);

}  // namespace detail

}  // namespace ckpt

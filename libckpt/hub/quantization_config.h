#pragma once
// What the files beside a checkpoint say of how its layers are quantised ("quantization_config" of config.json, or
// quantize_config.json of older GPTQ folders), and dequantize() by it. Thread safety: pure. Use:
// ckpt::dequantize(checkpoint, ckpt::quantization_config("Llama-GPTQ/model.safetensors"));

#include <filesystem>
#include <string>

#include "libckpt/transform/quantize.h"

namespace ckpt {

struct QuantizationConfig {
  std::string method = {};  ///< "gptq", "awq", "compressed-tensors"; "" when nothing says that layers are quantised
  std::string format = {};  ///< "checkpoint_format", "version" or "format": "gptq_v2", "gemm", "pack-quantized"
};

/// Of the folder that `path` is or lies in. Errors: Error(corrupt) naming the file for one that is no JSON object;
/// Error(refused) for a symbolic link that leads out of the folder, unless `allow_symlinks`.
QuantizationConfig quantization_config(const std::filesystem::path& path, bool allow_symlinks = false);

/// What layers are that look like `scheme` (QuantizedLayer) by their tensors: that, or "unknown packing of gptq
/// (gptq_p)" where `config` names another than that scheme's; such layers are not dequantized.
std::string scheme_by(const QuantizationConfig& config, const std::string& scheme);

/// dequantize() of all of it, with GPTQ's zero points as `config` says and DequantizeOptions::threads. Errors: those of
/// dequantize(); Error(unsupported) when `config` says that layers of the form of GPTQ's or AWQ's are packed in another
/// way.
Checkpoint dequantize(const Checkpoint& checkpoint, const QuantizationConfig& config, QuantizeReport* report = nullptr,
                      unsigned threads = 1);

}  // namespace ckpt

#pragma once
// dequantize: the quantised blocks of a GGUF file as plain values, with the bits that gguf-py computes; and the layers
// of GPTQ, AWQ and compressed-tensors (quantized_layers.h) as one weight each, in place of their parts. quantize: float
// tensors packed into blocks. Nothing is read before the result is: each tensor is unpacked or packed when its bytes
// are asked for. The metadata that say how a GGUF file is quantised follow. Thread safety: pure. Use:
// ckpt::save(ckpt::dequantize(ckpt::open("model.gguf")), "model.safetensors");

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/selector.h"
#include "libcore/base/dtype.h"

namespace ckpt {

struct DequantizeOptions {
  core::DType to = core::DType::f32;  ///< a float type; the values are computed as f32 and then rounded to it
  std::string at = {};                ///< dotted path of the dict that is meant; "" = whole file
  /// GPTQ layers have their zero points as they are, not less one: "checkpoint_format": "gptq_v2" in config.json.
  bool gptq_v2 = false;
  unsigned threads = 1;  ///< that share a large read of blocks; 0: one per core
};

struct QuantizeOptions {
  std::string to = "Q8_0";  ///< one of quantized_types(): Q8_0, Q4_K, ...
  Selection keep = {};      ///< tensors that stay as they are; nothing when `include` is empty
  std::string at = {};      ///< dotted path of the dict that is meant; "" = whole file
  unsigned threads = 0;     ///< that share a large read; 0: one per core
};

struct QuantizeReport {
  struct Count {
    std::string from;  ///< "Q4_K", "float32"
    std::string to;
    std::uint64_t tensors = 0;
  };
  std::uint64_t tensors = 0;  ///< in scope
  std::uint64_t changed = 0;
  std::uint64_t kept = 0;  ///< would have been changed but for `keep`
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;
  std::vector<Count> counts;  ///< in order of first use
};

/// Errors: Error(key) when nothing is at `at`; Error(value) when `to` is no float type; Error(unsupported) for a block
/// type that cannot be unpacked and for a layer whose parts do not fit each other, with the tensor's name.
Checkpoint dequantize(const Checkpoint& checkpoint, const DequantizeOptions& options = {},
                      QuantizeReport* report = nullptr);
/// The file with the quantised blocks of GGUF as float32 values, for what takes plain tensors alone; itself where it
/// has none. Layers of GPTQ and others stay as they are. Errors: Error(unsupported) for a block type that cannot be
/// unpacked. Use: Checkpoint plain = ckpt::blocks_as_values(ckpt::open("model.gguf"));
Checkpoint blocks_as_values(const Checkpoint& checkpoint);

/// Changes f64, f32, f16 and bf16 tensors of two dimensions or more whose last is a whole number of blocks; all others
/// stay as they are, as in llama.cpp's files. Errors: Error(key) when nothing is at `at` or a pattern of `keep` is
/// wrong; Error(value) when `to` cannot be written; once a tensor is read, Error(refused) for a value that is not
/// finite.
Checkpoint quantize(const Checkpoint& checkpoint, const QuantizeOptions& options, QuantizeReport* report = nullptr);

/// The types that quantize() writes: "Q4_0", "Q4_1", ...
std::vector<std::string> quantized_types();

}  // namespace ckpt

#pragma once
// The structure of an ONNX model: its initialisers with the places of their values, and what it says about itself. The
// computation is passed over. Thread safety: pure. Use: OnnxModel model = read_onnx_model(*input.file, options.limits);

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/io/proto_reader.h"
#include "libckpt/limits.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

/// The fields of a tensor that hold its values as numbers.
enum class OnnxField : std::uint8_t { floats, int32s, int64s, doubles, uint64s };

struct OnnxTensor {
  std::string name;
  core::Shape shape;
  std::uint64_t type = 0;
  bool has_raw = false;
  bool external = false;
  bool segmented = false;
  ProtoRange raw;
  std::array<std::vector<ProtoRange>, 5> numbers;          ///< by OnnxField, in the order of the file
  std::vector<std::pair<std::string, std::string>> place;  ///< of an external one: location, offset, length
};

struct OnnxModel {
  std::vector<OnnxTensor> tensors;
  std::vector<std::string> left_out;  ///< names of sparse initialisers
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// True when the file can be nothing else: all fields at its top are those of a model, and one is a graph. A model that
/// is cut off within its graph is one. Never throws.
bool looks_like_onnx(const ByteSource& file);
/// Errors: Error(corrupt) for what contradicts itself or is cut off; Error(refused) for more than `limits` allow.
OnnxModel read_onnx_model(const ByteSource& file, const Limits& limits);
/// "float32", "int4": PyTorch's name where it has one. "type 99" for a number that no version has.
std::string onnx_type_name(std::uint64_t type);

}  // namespace ckpt::detail

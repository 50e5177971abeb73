#pragma once
// The values of an ONNX initialiser, wherever the model keeps them: raw, as numbers of protobuf, or in another file.
// Thread safety: pure. Use: EntryPtr entry = make_onnx_entry(tensor, file, files);

#include <functional>
#include <string>

#include "libckpt/entry.h"
#include "libckpt/format/onnx/onnx_model.h"

namespace ckpt::detail {

/// Opens a file beside the model by the name that the model gives.
using OnnxFiles = std::function<SourcePtr(const std::string& location)>;

/// Why the tensor is none that a checkpoint can hold ("text"), or "".
std::string onnx_obstacle(const OnnxTensor& tensor);
/// Reads nothing but numbers that are packed one by one, which have to be counted. int4 and uint4 become int8 and
/// uint8. REQUIRES: onnx_obstacle() is "". Errors: Error(corrupt) when the values are more or fewer than the shape asks
/// for, or do not fit their type; Error(unsupported) for a type of a later version; those of `files`.
EntryPtr make_onnx_entry(const OnnxTensor& tensor, const SourcePtr& file, const OnnxFiles& files);

}  // namespace ckpt::detail

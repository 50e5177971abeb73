#pragma once
// A module as an ONNX model: its forward pass is run on example inputs and on others (twice, and once more for each
// name of a size beyond the first), and what it did is written as operators of one opset, with parameters and buffers
// as initialisers under their state_dict names. onnxruntime gives the module's outputs. Thread safety: as the module's
// own calls. Use: ckpt::onnx::export_model(net, {core::rand({1, 3, 224, 224})}, "net.onnx",
//                          {.dynamic_axes = {{"input", {{0, "batch"}}}}});

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "libcore/module/module_base.h"

namespace ckpt::onnx {

/// Which sizes may differ from the example's, and their names: {{"tokens", {{0, "batch"}, {1, "length"}}}}. Axes of
/// one name are always of one size.
using DynamicAxes = std::map<std::string, std::map<std::int64_t, std::string>>;

struct ExportOptions {
  std::vector<std::string> input_names = {};   ///< "input" (input_0, input_1 ... of several)
  std::vector<std::string> output_names = {};  ///< "output", and so on
  DynamicAxes dynamic_axes = {};               ///< of inputs; those of the outputs follow
  std::int64_t opset = 17;                     ///< 17 or 18
  /// Values in a file of their own beside the model (its name with ".data"), as must be from 2 GiB on.
  bool external_data = false;
  bool overwrite = true;  ///< false: Error(io) where the file is there
  /// How the module is run, where that is not a plain call of one input with one output.
  std::function<std::vector<core::Tensor>(core::Module& module, const std::vector<core::Tensor>& inputs)> forward = {};
};

/// What was written.
struct Exported {
  std::int64_t nodes = 0;
  std::int64_t initializers = 0;
  std::uint64_t bytes = 0;                             ///< of all files
  std::vector<std::string> inputs = {}, outputs = {};  ///< "input (batch, 3, 224, 224)"
};

/// Writes `path`, whole or not at all. The module runs in evaluation mode, and has its own mode afterwards. Errors:
/// Error(unsupported) naming an operation that has no operator in ONNX and the module that calls it, or what depends on
/// the values of the inputs; Error(usage) for options that do not fit; Error(io); those of the forward pass.
Exported export_model(core::Module& module, const std::vector<core::Tensor>& example_inputs,
                      const std::filesystem::path& path, const ExportOptions& options = {});

}  // namespace ckpt::onnx

#pragma once
// What check_onnx.py looks at: a model, and beside it inputs with the outputs that the module gives for them. Thread
// safety: none. Use: write_model(net, folder / "net", {example}, {input}, options);

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "libckpt/onnx.h"
#include "libcore/module/module_base.h"

using Tensors = std::vector<core::Tensor>;

/// Inputs and outputs: STEM.in0, STEM.out0 ...
void write_values(core::Module& net, const std::filesystem::path& stem, const Tensors& inputs,
                  const ckpt::onnx::ExportOptions& options);
/// STEM.onnx, and what it gives for `inputs`.
void write_model(core::Module& net, const std::filesystem::path& stem, const Tensors& examples, const Tensors& inputs,
                 const ckpt::onnx::ExportOptions& options);
/// Whether it went well; else says why not.
bool tried(std::string_view name, const std::function<void()>& write);

// Writes small models of single operations as ONNX files, beside inputs and outputs of two other sizes:
// onnx_operations FOLDER [OPSET]. What check_onnx.py looks at.
#include <filesystem>
#include <iostream>
#include <string>

#include "libcore/core.h"
#include "model_values.h"
#include "operation_cases.h"

namespace {

struct Unused : core::ModuleOf<Unused> {
  void members(core::Members&) override {}
  core::Tensor forward(const core::Tensor& x) { return x; }
};

/// Exported with 4 of what may differ, run with 5, and another time with 11.
void write_operation(const OperationCase& each, const std::filesystem::path& folder, std::int64_t opset) {
  if (opset < each.opset) return;
  core::manual_seed(11);
  ckpt::onnx::ExportOptions options{.opset = opset};
  options.forward = [&each](core::Module&, const Tensors& in) { return each.run(in); };
  for (std::size_t i = 0; i < each.axes.size(); ++i) {
    options.input_names.push_back("input_" + std::to_string(i));
    if (each.axes[i] >= 0) options.dynamic_axes[options.input_names.back()][each.axes[i]] = "size";
  }
  Unused unused;
  const std::filesystem::path stem = folder / each.name;
  write_model(unused, stem, each.inputs(4), each.inputs(5), options);
  write_values(unused, stem.string() + ".again", each.inputs(11), options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return std::cerr << "usage: onnx_operations FOLDER [OPSET]\n", 2;
  const std::int64_t opset = argc == 3 && std::string_view(argv[2]) == "18" ? 18 : 17;
  bool good = true;
  for (const OperationCase& each : operation_cases()) {
    good &= tried(each.name, [&] { write_operation(each, argv[1], opset); });
  }
  return good ? 0 : 1;
}

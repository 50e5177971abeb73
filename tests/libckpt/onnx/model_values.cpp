#include "model_values.h"

#include <fstream>
#include <iostream>

#include "libcore/core.h"

namespace {

using core::Tensor;

void write_tensor(const std::filesystem::path& path, const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  std::ofstream file(path, std::ios::binary);
  file << core::name(dense.dtype());
  for (const std::int64_t size : dense.sizes()) file << ' ' << size;
  file << '\n';
  file.write(static_cast<const char*>(dense.raw_data()), static_cast<std::streamsize>(dense.nbytes()));
}

}  // namespace

void write_values(core::Module& net, const std::filesystem::path& stem, const Tensors& inputs,
                  const ckpt::onnx::ExportOptions& options) {
  for (std::size_t i = 0; i < inputs.size(); ++i) write_tensor(stem.string() + ".in" + std::to_string(i), inputs[i]);
  const core::NoGradGuard no_history;
  const Tensors outputs = options.forward(net, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) write_tensor(stem.string() + ".out" + std::to_string(i), outputs[i]);
}

void write_model(core::Module& net, const std::filesystem::path& stem, const Tensors& examples, const Tensors& inputs,
                 const ckpt::onnx::ExportOptions& options) {
  ckpt::onnx::export_model(net, examples, stem.string() + ".onnx", options);
  write_values(net, stem, inputs, options);
}

bool tried(std::string_view name, const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const core::Error& error) {
    std::cout << name << ": " << error.message() << "\n";
    return false;
  }
}

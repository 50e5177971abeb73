#pragma once
// A graph as the bytes of an ONNX model, and on disk. Values of tensors are never copied into one message: they are
// written from where they are. Internal to onnx. Thread safety: pure functions. Use: auto size = write_model(graph,
// path, {});

#include <cstdint>
#include <filesystem>

#include "libckpt/onnx/graph.h"

namespace ckpt::onnx {

struct FileOptions {
  bool external = false;  ///< values in PATH.data; what an older model left there stays
  bool overwrite = true;
};

/// The bytes of all files: two from 2 GiB on in any case. Error(io).
std::uint64_t write_model(const Graph& graph, const std::filesystem::path& path, const FileOptions& options);

}  // namespace ckpt::onnx

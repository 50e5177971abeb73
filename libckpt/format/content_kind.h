#pragma once
// What a run of bytes is, told from its content alone: for scanners, which must also know what no format reads.
// Thread safety: pure. Use: if (content_kind(*source) == ContentKind::zip) ...

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

enum class ContentKind : std::uint8_t {
  empty,
  zip,
  tar,
  legacy_stream,
  pickle,
  npy,
  gguf,
  hdf5,
  native,
  safetensors,
  onnx,
  flax,
  json,
  text,
  unknown,  ///< also what is known but opaque: compressed files, programs
};

ContentKind content_kind(const ByteSource& source);

/// "" or what the extension of `path` promises when content of the name `content` ("torch-zip", "npz", ...) is
/// something else.
std::string_view promised_instead(const std::filesystem::path& path, std::string_view content);

}  // namespace ckpt::detail

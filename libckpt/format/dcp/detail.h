#pragma once
// What is remembered of a distributed checkpoint, so that an edit of its keys leaves the data files as they are.
// Thread safety: immutable. Use: const auto* old = dynamic_cast<const DcpDetail*>(checkpoint.detail.get());

#include <filesystem>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/format/dcp/metadata.h"
#include "libckpt/format/dcp/parts_file.h"

namespace ckpt::detail {

struct DcpDetail final : FormatDetail {
  std::filesystem::path folder;
  SourcePtr file;  ///< `.metadata`
  DcpMetadata metadata;
  PartsFile save;                                              ///< what a save of ours noted; else empty
  std::unordered_map<const ByteSource*, std::size_t> tensors;  ///< item by the source of its values
  std::vector<std::pair<std::size_t, Value>> objects;          ///< every other item

  /// The item that a value was read from and still is: number in metadata.items, or -1. `name` is looked at first where
  /// several objects are alike.
  std::ptrdiff_t item_of(const Value& value, const std::string& name) const;
};

}  // namespace ckpt::detail

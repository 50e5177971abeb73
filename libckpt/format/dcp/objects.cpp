#include "libckpt/format/dcp/objects.h"

#include "libckpt/format/corrupt.h"
#include "libckpt/format/dcp/fields.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

/// Bytes; the file systems of Linux take 255, those of Windows 255 letters. Every place has its name, which a memo
/// repeats for two bytes.
constexpr std::size_t kLongestFileName = 1024;

void check_untransformed(const PickleGraph& graph, NodeId transforms) {
  if (transforms == kNoNode) return;
  bool is_list = graph.kind(transforms) == NodeKind::list || graph.kind(transforms) == NodeKind::tuple;
  if (is_list && graph.children(transforms).empty()) return;
  std::string named = is_list ? describe_node(graph, graph.children(transforms)[0]) : describe_node(graph, transforms);
  throw Error(ErrorCode::unsupported, "the data are transformed by " + named + ", which ckpt cannot undo");
}

}  // namespace

void check_file_name(std::string_view name) {
  auto refuse = [&](const char* why) {
    throw Error(ErrorCode::refused, "the metadata names the file " + quote(name) + ", which " + why);
  };
  if (name.size() > kLongestFileName) refuse("is longer than a file system takes");
  if (name.find_first_of("/\\") != std::string_view::npos) refuse("is not beside it");
  if (name.find('\0') != std::string_view::npos) refuse("holds a NUL byte");
  if (!name.ends_with(".distcp")) refuse("is not a .distcp file");
}

DcpChunk read_dcp_chunk(const PickleGraph& graph, NodeId id) {
  DcpFields fields(graph, id, "ChunkStorageMetadata");
  DcpChunk chunk;
  chunk.offsets = fields.sizes("offsets");
  chunk.sizes = fields.sizes("sizes");
  return chunk;
}

DcpIndex read_dcp_index(const PickleGraph& graph, NodeId id) {
  DcpFields fields(graph, id, "MetadataIndex");
  DcpIndex index;
  if (fields.find("offset") != kNoNode) index.offset = fields.sizes("offset");
  index.name = graph.text(fields.at("fqn", NodeKind::text));
  return index;
}

DcpPlace read_dcp_place(const PickleGraph& graph, NodeId id) {
  DcpFields info(graph, id, "_StorageInfo");
  DcpPlace place;
  const std::string_view name = graph.text(info.at("relative_path", NodeKind::text));
  check_file_name(name);
  place.file = name;
  place.offset = info.count("offset");
  place.length = info.count("length");
  check_untransformed(graph, info.find("transform_descriptors"));
  return place;
}

}  // namespace ckpt::detail

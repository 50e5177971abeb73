#pragma once
// What a `.metadata` has for every piece: its box, its name and where it lies. Thread safety: pure.
// Use: DcpPlace place = read_dcp_place(graph, id);

#include <string_view>

#include "libckpt/format/dcp/chunks.h"
#include "libckpt/format/torch/pickle_graph.h"

namespace ckpt::detail {

/// Which piece of which item.
struct DcpIndex {
  std::string_view name;  ///< a part of the pickle
  core::Shape offset;     ///< empty for what is no tensor
};

/// Errors, here and below: Error(corrupt) for an object of another class and for missing attributes.
DcpChunk read_dcp_chunk(const PickleGraph& graph, NodeId id);
DcpIndex read_dcp_index(const PickleGraph& graph, NodeId id);
/// Errors: also those of check_file_name(); Error(unsupported) for transformed data.
DcpPlace read_dcp_place(const PickleGraph& graph, NodeId id);
/// Errors: Error(refused) for a file that does not lie in the folder, or is none with data.
void check_file_name(std::string_view name);
/// Bytes that the keys of an item's path may have together: they make its name, and a memo repeats a long one for two
/// bytes each.
constexpr std::size_t most_path_text(std::string_view name) {
  constexpr std::size_t kBeside = 4096;
  return name.size() + kBeside;
}

}  // namespace ckpt::detail

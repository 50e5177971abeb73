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

}  // namespace ckpt::detail

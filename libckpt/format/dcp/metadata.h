#pragma once
// The `.metadata` of a distributed checkpoint as plain data: every tensor with its pieces, every other object, where
// each lies, and the keys of the tree it came from. Thread safety: plain values.
// Use: DcpMetadata metadata = read_dcp_metadata(*file, options);

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libckpt/format/dcp/nested.h"
#include "libckpt/format/torch/pickle_graph.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/options.h"
#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

/// A range of one of the folder's files.
struct DcpPlace {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// A box of a tensor.
struct DcpChunk {
  core::Shape offsets;
  core::Shape sizes;
  std::optional<DcpPlace> place;  ///< none for a chunk without elements that was not written
};

struct DcpItem {
  std::string name;  ///< dotted, as the file says it
  bool is_tensor = false;
  core::DType dtype = core::DType::f32;
  bool requires_grad = false;
  core::Shape shape;
  std::vector<DcpChunk> chunks;   ///< of a tensor
  std::optional<DcpPlace> place;  ///< of anything else
  std::vector<PathStep> path;     ///< keys and indexes; empty when the file says none
};

struct DcpMetadata {
  std::vector<DcpItem> items;  ///< in the order of the file
  std::string save_id = {};    ///< tells one save from another; "" where the file says none
};

/// True when this pickle describes a distributed checkpoint.
bool is_dcp_metadata(const PickleGraph& graph);
/// The pickle alone. Errors: those of read_pickle(); Error(corrupt) for bytes behind it.
PickleGraph read_dcp_pickle(const ByteSource& file, const OpenOptions& options);
/// Errors: Error(refused) for symbols that are not accepted, for files that do not lie in the folder and for limits;
/// Error(corrupt) for what contradicts itself; Error(unsupported) for transformed data.
DcpMetadata read_dcp_metadata(const PickleGraph& graph, const OpenOptions& options);
/// Both in one, with a fraction of the memory: the objects of the pieces are never all there at once, and do not count
/// as opcodes.
DcpMetadata read_dcp_metadata(const ByteSource& file, const OpenOptions& options);

}  // namespace ckpt::detail

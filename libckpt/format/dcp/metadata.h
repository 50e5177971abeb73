#pragma once
// The `.metadata` of a distributed checkpoint as plain data: every tensor with its pieces, every other object, where
// each lies, and the keys of the tree it came from. Thread safety: plain values.
// Use: DcpMetadata metadata = read_dcp_metadata(*file, options);

#include <optional>
#include <string>
#include <vector>

#include "libckpt/format/dcp/chunks.h"
#include "libckpt/format/dcp/nested.h"
#include "libckpt/format/torch/pickle_graph.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/options.h"
#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

struct DcpItem {
  std::string name;  ///< dotted, as the file says it
  bool is_tensor = false;
  core::DType dtype = core::DType::f32;
  bool requires_grad = false;
  core::Shape shape;
  DcpChunks chunks;               ///< of a tensor
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
/// Both in one. What PyTorch and this library write is read while it goes by, in a fraction of the memory; the opcodes
/// of such a file are not counted.
DcpMetadata read_dcp_metadata(const ByteSource& file, const OpenOptions& options);

}  // namespace ckpt::detail

#pragma once
// What a `.metadata` has for every piece: its box, its name and where it lies. A training of a thousand ranks has three
// such objects for each of hundreds of thousands of pieces; as a fold this keeps 10 bytes of each where the graph of
// the pickle would have 300. Thread safety: one owner. Use: DcpObjects objects; std::optional<PickleGraph> graph =
// read_pickle(bytes, limits, objects); DcpChunk chunk = objects.chunk(*graph, id);

#include <string>
#include <string_view>

#include "libckpt/format/dcp/metadata.h"
#include "libckpt/format/torch/pickle_fold.h"

namespace ckpt::detail {

/// Which piece of which item.
struct DcpIndex {
  std::string_view name;  ///< a part of the pickle
  core::Shape offset;     ///< empty for what is no tensor
};

class DcpObjects final : public PickleFold {
 public:
  bool wants(const PickleSymbol& symbol) override;
  std::optional<std::uint64_t> take(const PickleGraph& graph, NodeId object) override;

  /// Whether they were taken or are in the graph. Errors: Error(corrupt) for another object and for missing attributes.
  DcpChunk chunk(const PickleGraph& graph, NodeId id) const;
  DcpIndex index(const PickleGraph& graph, NodeId id) const;
  /// Errors: also Error(refused) for a file that does not lie in the folder; Error(unsupported) for transformed data.
  DcpPlace place(const PickleGraph& graph, NodeId id) const;

 private:
  class Packing;
  class Unpacking;
  std::string packed_;
};

}  // namespace ckpt::detail

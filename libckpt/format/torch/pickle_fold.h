#pragma once
// PickleFold: takes objects of some classes out of a pickle while it is read, so that hundreds of thousands of small
// ones are never all there at once. Thread safety: one owner. Use: class Boxes final : public PickleFold { ... };
// std::optional<PickleGraph> graph = read_pickle(bytes, limits, boxes);

#include <optional>

#include "libckpt/format/torch/pickle_graph.h"
#include "libckpt/limits.h"

namespace ckpt {

class PickleFold {
 public:
  virtual ~PickleFold() = default;
  /// Whether an object of this class may be taken.
  virtual bool wants(const PickleSymbol& symbol) = 0;
  /// Copies what a complete object says, and returns what stands for it in the graph from then on: graph.folded(id).
  /// nullopt leaves the object where it is.
  virtual std::optional<std::uint64_t> take(const PickleGraph& graph, NodeId object) = 0;
};

/// As read_pickle() of pickle_reader.h. nullopt when the pickle comes back to a part of an object that was taken: then
/// it is to be read without a fold.
std::optional<PickleGraph> read_pickle(core::ByteVector pickle, const Limits& limits, PickleFold& fold);

/// Thrown in that case, and caught there.
struct FoldedAway {};

}  // namespace ckpt

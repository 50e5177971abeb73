#pragma once
// GraphAudit: one walk over a PickleGraph before anything is built from it. It refuses what would make later walks
// endless, too deep or enormous (cycles of containers, nesting, references that multiply), and says which nodes are
// referred to more than once. Iterative. Thread safety: immutable once built. Use: GraphAudit audit(graph, limits);
// audit.is_shared(id)

#include <vector>

#include "libckpt/format/torch/pickle_graph.h"
#include "libckpt/limits.h"

namespace ckpt {

class GraphAudit {
 public:
  /// Errors: Error(unsupported) for a container that contains itself; Error(refused) for limits.
  GraphAudit(const PickleGraph& graph, const Limits& limits);

  bool is_shared(NodeId id) const { return marks_[id].shared; }
  /// True for an object that contains itself.
  bool is_looped(NodeId id) const { return marks_[id].looped; }

 private:
  struct Mark {
    std::uint32_t expanded = 0;  ///< nodes below when every reference counts, saturating; 0 until known
    std::uint16_t height = 0;    ///< levels below, saturating
    bool entered = false;
    bool shared = false;
    bool looped = false;
  };
  void walk(const PickleGraph& graph);
  void close(NodeId id, const std::vector<NodeId>& children);

  std::vector<Mark> marks_;
};

}  // namespace ckpt

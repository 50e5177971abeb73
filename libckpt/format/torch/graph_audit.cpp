#include "libckpt/format/torch/graph_audit.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kExpansionFloor = 1'000'000;
constexpr std::uint16_t kHighest = 0xffff;
/// A tensor inside a container is a call whose arguments hold a storage: levels of the pickle, not of the data.
constexpr std::uint64_t kTensorLevels = 8;

void append(std::vector<NodeId>& out, std::span<const NodeId> items) {
  out.insert(out.end(), items.begin(), items.end());
}

std::vector<NodeId> children_of(const PickleGraph& graph, NodeId id) {
  std::vector<NodeId> out;
  switch (graph.kind(id)) {
    case NodeKind::list:
    case NodeKind::tuple:
    case NodeKind::set:
    case NodeKind::frozenset:
    case NodeKind::dict:
      append(out, graph.children(id));
      break;
    case NodeKind::call: {
      const PickleCall& call = graph.call(id);
      out.push_back(call.args);
      if (call.kwargs != kNoNode) out.push_back(call.kwargs);
      if (call.state != kNoNode) out.push_back(call.state);
      append(out, graph.call_items(call.appended));
      append(out, graph.call_items(call.items));
      break;
    }
    case NodeKind::persistent:
      out.push_back(graph.persistent_id(id));
      break;
    default:
      break;
  }
  return out;
}

/// Only an object can be finished after something that refers to it: its state comes last.
void check_loop(const PickleGraph& graph, NodeId id) {
  if (graph.kind(id) == NodeKind::call) return;
  throw Error(ErrorCode::unsupported,
              "the pickle holds " + describe_node(graph, id) + " that contains itself; such data cannot be read");
}

}  // namespace

GraphAudit::GraphAudit(const PickleGraph& graph, const Limits& limits) : marks_(graph.size()) {
  walk(graph);
  const Mark& root = marks_[graph.root()];
  if (root.height > limits.max_depth + kTensorLevels) {
    throw Error(ErrorCode::refused, "the pickle nests objects more than " + core::format_count(limits.max_depth) +
                                        " levels deep; raise the limit to read it");
  }
  std::uint64_t allowed = std::max<std::uint64_t>(kExpansionFloor, limits.max_expansion * graph.size());
  if (root.expanded > allowed) {
    throw Error(ErrorCode::refused,
                "the pickle refers to the same objects so often that they would unfold to more than " +
                    core::format_count(allowed) + " objects");
  }
}

void GraphAudit::walk(const PickleGraph& graph) {
  struct Visit {
    NodeId id;
    bool leaving;
  };
  std::vector<Visit> open = {{graph.root(), false}};
  while (!open.empty()) {
    auto [id, leaving] = open.back();
    open.pop_back();
    Mark& mark = marks_[id];
    if (leaving) {
      close(id, children_of(graph, id));
      continue;
    }
    if (mark.expanded != 0) {
      mark.shared = true;
      continue;
    }
    if (mark.entered) {
      check_loop(graph, id);
      mark.looped = true;
      continue;
    }
    mark.entered = true;
    open.push_back({id, true});
    for (NodeId child : children_of(graph, id)) open.push_back({child, false});
  }
}

void GraphAudit::close(NodeId id, const std::vector<NodeId>& children) {
  std::uint64_t expanded = 1;
  std::uint16_t height = 0;
  for (NodeId child : children) {
    expanded += marks_[child].expanded;
    height = std::max(height, marks_[child].height);
  }
  marks_[id].expanded = static_cast<std::uint32_t>(std::min<std::uint64_t>(expanded, 0xffffffff));
  marks_[id].height = static_cast<std::uint16_t>(height == kHighest ? kHighest : height + 1);
}

}  // namespace ckpt

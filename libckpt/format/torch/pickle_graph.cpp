#include "libckpt/format/torch/pickle_graph.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {

std::span<const NodeId> PickleGraph::children(NodeId id) const {
  const PickleNode& n = nodes_[id];
  if (n.kind == NodeKind::tuple) return std::span(tuples_).subspan(n.index, n.size);
  return lists_[n.index];
}

std::span<const NodeId> PickleGraph::call_items(std::uint32_t list) const {
  if (list == kNoNode) return {};
  return lists_[list];
}

NodeId PickleGraph::add(PickleNode node) {
  if (nodes_.size() >= kNoNode) throw core::Error(core::ErrorCode::refused, "the pickle describes too many objects");
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId PickleGraph::add_bytes(NodeKind kind, core::Bytes bytes) {
  PickleNode node;
  node.kind = kind;
  node.size = static_cast<std::uint32_t>(bytes.size());
  node.data = bytes.data();
  return add(node);
}

NodeId PickleGraph::add_owned_text(NodeKind kind, std::string text) {
  owned_.push_back(std::move(text));
  return add_bytes(kind, core::as_bytes(owned_.back()));
}

NodeId PickleGraph::add_tuple(std::span<const NodeId> items) {
  PickleNode node;
  node.kind = NodeKind::tuple;
  node.size = static_cast<std::uint32_t>(items.size());
  node.index = tuples_.size();
  tuples_.insert(tuples_.end(), items.begin(), items.end());
  return add(node);
}

NodeId PickleGraph::add_container(NodeKind kind) {
  PickleNode node;
  node.kind = kind;
  node.index = lists_.size();
  lists_.emplace_back();
  return add(node);
}

NodeId PickleGraph::add_global(std::string_view module, std::string_view name) {
  std::string full = std::string(module) + "\n" + std::string(name);
  auto [at, fresh] = symbol_numbers_.try_emplace(std::move(full), static_cast<std::uint32_t>(symbols_.size()));
  if (fresh) symbols_.push_back(make_symbol(module, name));
  PickleNode node;
  node.kind = NodeKind::global;
  node.index = at->second;
  return add(node);
}

NodeId PickleGraph::add_call(const PickleCall& call) {
  PickleNode node;
  node.kind = NodeKind::call;
  node.index = calls_.size();
  calls_.push_back(call);
  return add(node);
}

std::vector<NodeId>& PickleGraph::list_of(std::uint32_t& slot) {
  if (slot == kNoNode) {
    slot = static_cast<std::uint32_t>(lists_.size());
    lists_.emplace_back();
  }
  return lists_[slot];
}

void PickleGraph::finish(NodeId root, std::size_t consumed) {
  root_ = root;
  consumed_ = consumed;
}

namespace {

std::string_view kind_text(NodeKind kind) {
  switch (kind) {
    case NodeKind::none:
      return "None";
    case NodeKind::boolean:
      return "a bool";
    case NodeKind::integer:
    case NodeKind::big_integer:
      return "an integer";
    case NodeKind::real:
      return "a float";
    case NodeKind::text:
      return "text";
    case NodeKind::bytes:
    case NodeKind::bytearray:
      return "bytes";
    case NodeKind::list:
      return "a list";
    case NodeKind::tuple:
      return "a tuple";
    case NodeKind::set:
    case NodeKind::frozenset:
      return "a set";
    case NodeKind::dict:
      return "a dict";
    case NodeKind::global:
      return "a symbol";
    case NodeKind::call:
      return "an object";
    case NodeKind::persistent:
      return "a storage";
  }
  return "?";
}

}  // namespace

std::string describe_node(const PickleGraph& graph, NodeId id) {
  const PickleNode& node = graph.node(id);
  switch (node.kind) {
    case NodeKind::integer:
      return "the number " + std::to_string(node.integer);
    case NodeKind::text:
      return "the text " + core::quote(graph.text(id), 60);
    case NodeKind::global:
      return core::printable(graph.symbol(id).full);
    case NodeKind::call:
      return core::printable(graph.symbol(graph.call(id).callable).full) + "(...)";
    default:
      return std::string(kind_text(node.kind));
  }
}

}  // namespace ckpt

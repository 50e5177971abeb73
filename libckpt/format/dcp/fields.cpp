#include "libckpt/format/dcp/fields.h"

#include "libckpt/format/corrupt.h"
#include "libckpt/format/torch/call_args.h"
#include "libcore/base/text.h"

namespace ckpt::detail {

std::string_view dcp_class(const PickleGraph& graph, NodeId id) {
  if (id == kNoNode || graph.kind(id) != NodeKind::call) return {};
  std::string_view full = graph.symbol(graph.call(id).callable).full;
  if (!full.starts_with("torch.distributed.")) return {};
  return full.substr(full.rfind('.') + 1);
}

DcpFields::DcpFields(const PickleGraph& graph, NodeId object, std::string_view wanted) : graph_(graph), class_(wanted) {
  std::string name(wanted);
  if (dcp_class(graph, object) != wanted) {
    corrupt("the metadata has " + describe_node(graph, object) + " where a " + name + " is needed");
  }
  NodeId state = graph.call(object).state;
  if (state == kNoNode || graph.kind(state) != NodeKind::dict) corrupt("a " + name + " has no attributes");
  state_ = state;
}

NodeId DcpFields::find(std::string_view name) const {
  std::span<const NodeId> items = graph_.children(state_);
  NodeId found = kNoNode;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (graph_.kind(items[i]) == NodeKind::text && graph_.text(items[i]) == name) found = items[i + 1];
  }
  return found == kNoNode || graph_.kind(found) == NodeKind::none ? kNoNode : found;
}

NodeId DcpFields::at(std::string_view name, NodeKind kind) const {
  NodeId id = find(name);
  if (id == kNoNode || graph_.kind(id) != kind) wrong(name, id);
  return id;
}

core::Shape DcpFields::sizes(std::string_view name) const {
  NodeId id = find(name);
  if (id == kNoNode) wrong(name, id);
  core::Shape out = CallArgs(graph_, class_, std::span(&id, 1)).sizes(0);
  for (std::int64_t n : out) {
    if (n < 0) corrupt("a " + std::string(class_) + " has negative " + std::string(name));
  }
  return out;
}

std::uint64_t DcpFields::count(std::string_view name) const {
  std::int64_t value = graph_.node(at(name, NodeKind::integer)).integer;
  if (value < 0) corrupt("a " + std::string(class_) + " has a negative " + std::string(name));
  return static_cast<std::uint64_t>(value);
}

void DcpFields::wrong(std::string_view name, NodeId id) const {
  std::string found = id == kNoNode ? "nothing" : describe_node(graph_, id);
  corrupt("a " + std::string(class_) + " has " + found + " as its " + core::quote(name));
}

}  // namespace ckpt::detail

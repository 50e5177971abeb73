#include "libckpt/format/torch/call_args.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {

using core::Error;
using core::ErrorCode;

void CallArgs::expect(std::size_t at_least, std::size_t at_most) const {
  if (size() >= at_least && size() <= at_most) return;
  throw Error(ErrorCode::corrupt, core::printable(symbol_) + " has " + std::to_string(size()) + " arguments where " +
                                      std::to_string(at_least) +
                                      (at_most > at_least ? " to " + std::to_string(at_most) : "") + " are needed");
}

void CallArgs::fail(std::size_t i, std::string_view wanted) const {
  throw Error(ErrorCode::corrupt, core::printable(symbol_) + ": argument " + std::to_string(i + 1) + " is " +
                                      describe_node(graph_, ids_[i]) + " where " + std::string(wanted) + " is needed");
}

std::int64_t CallArgs::integer(std::size_t i) const {
  if (kind(i) != NodeKind::integer && kind(i) != NodeKind::boolean) fail(i, "an integer");
  return graph_.node(ids_[i]).integer;
}

bool CallArgs::boolean(std::size_t i) const {
  if (kind(i) != NodeKind::integer && kind(i) != NodeKind::boolean) fail(i, "a bool");
  return graph_.node(ids_[i]).integer != 0;
}

double CallArgs::real(std::size_t i) const {
  if (kind(i) == NodeKind::real) return graph_.node(ids_[i]).real;
  return static_cast<double>(integer(i));
}

std::string_view CallArgs::text(std::size_t i) const {
  if (kind(i) != NodeKind::text && kind(i) != NodeKind::bytes) fail(i, "text");
  return graph_.text(ids_[i]);
}

const PickleSymbol& CallArgs::symbol_at(std::size_t i) const {
  if (kind(i) != NodeKind::global) fail(i, "a symbol");
  return graph_.symbol(ids_[i]);
}

core::Shape CallArgs::sizes(std::size_t i) const {
  NodeId id = ids_[i];
  if (graph_.kind(id) == NodeKind::call && graph_.symbol(graph_.call(id).callable).full == "torch.Size") {
    std::span<const NodeId> inner = graph_.children(graph_.call(id).args);
    if (inner.size() == 1) id = inner[0];
  }
  if (graph_.kind(id) != NodeKind::tuple && graph_.kind(id) != NodeKind::list) fail(i, "a tuple of integers");
  core::Shape out;
  for (NodeId item : graph_.children(id)) {
    if (graph_.kind(item) != NodeKind::integer) fail(i, "a tuple of integers");
    out.push_back(graph_.node(item).integer);
  }
  return out;
}

}  // namespace ckpt

#pragma once
// CallArgs: the arguments of one call in a PickleGraph, checked as they are taken. All errors are Error(corrupt) and
// name the call, the argument and what stands there. Thread safety: immutable. Use: args.sizes(2)

#include <span>
#include <string>
#include <string_view>

#include "libckpt/format/torch/pickle_graph.h"
#include "libcore/base/shape.h"

namespace ckpt {

class CallArgs {
 public:
  CallArgs(const PickleGraph& graph, std::string_view symbol, std::span<const NodeId> ids)
      : graph_(graph), symbol_(symbol), ids_(ids) {}

  std::string_view symbol() const { return symbol_; }
  std::size_t size() const { return ids_.size(); }
  std::span<const NodeId> ids() const { return ids_; }
  void expect(std::size_t at_least, std::size_t at_most) const;

  NodeId id(std::size_t i) const { return ids_[i]; }
  NodeKind kind(std::size_t i) const { return graph_.kind(ids_[i]); }
  std::int64_t integer(std::size_t i) const;
  /// A bool; an integer counts as in Python.
  bool boolean(std::size_t i) const;
  double real(std::size_t i) const;
  /// Text, or bytes of a Python 2 writer.
  std::string_view text(std::size_t i) const;
  const PickleSymbol& symbol_at(std::size_t i) const;
  /// A tuple or list of integers, or a torch.Size.
  core::Shape sizes(std::size_t i) const;

  [[noreturn]] void fail(std::size_t i, std::string_view wanted) const;

 private:
  const PickleGraph& graph_;
  std::string_view symbol_;
  std::span<const NodeId> ids_;
};

}  // namespace ckpt

#pragma once
// PickleGraph: what a pickle describes, as data: plain values, containers, symbols by name, and calls that nobody made.
// Nodes are small and refer to each other by number, so aliases and cycles of the pickle are kept as they are.
// Thread safety: as any container. Use: PickleGraph graph = read_pickle(bytes, limits); graph.node(graph.root()).kind

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libckpt/format/torch/symbols.h"
#include "libcore/base/bytes.h"

namespace ckpt {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xffffffff;

enum class NodeKind : std::uint8_t {
  none,
  boolean,
  integer,
  big_integer,  ///< two's complement, little-endian
  real,
  text,
  bytes,
  bytearray,
  list,
  tuple,
  set,
  frozenset,
  dict,        ///< children: key, value, key, value, ...
  global,      ///< a symbol
  call,        ///< a symbol with arguments
  persistent,  ///< child: the persistent id
};

struct PickleNode {
  NodeKind kind = NodeKind::none;
  std::uint32_t size = 0;  ///< bytes of text and its kin; children of a tuple
  union {
    std::int64_t integer = 0;
    double real;
    const std::byte* data;
    std::uint64_t index;  ///< of the children, the symbol, the call, or the persistent id's node
  };
};

/// symbol(*args, **kwargs), then BUILD with `state`, then items appended or set. Never made.
struct PickleCall {
  NodeId callable = kNoNode;  ///< a global
  NodeId args = kNoNode;      ///< a tuple
  NodeId kwargs = kNoNode;
  NodeId state = kNoNode;
  std::uint32_t appended = kNoNode;  ///< number of a child list
  std::uint32_t items = kNoNode;     ///< number of a child list: key, value, ...
  bool instance = false;             ///< made by __new__
};

class PickleGraph {
 public:
  explicit PickleGraph(core::ByteVector pickle) : pickle_(std::move(pickle)) {}

  /// For a pickle that comes in pieces of at most `room` bytes together: nodes point into it.
  void reserve(std::size_t room) { pickle_.reserve(room); }
  /// How much more may come.
  std::size_t room() const { return pickle_.capacity() - pickle_.size(); }
  /// REQUIRES: there is room.
  void append(core::Bytes piece) { core::append(pickle_, piece); }

  NodeId root() const { return root_; }
  std::size_t size() const { return nodes_.size(); }
  const PickleNode& node(NodeId id) const { return nodes_[id]; }
  NodeKind kind(NodeId id) const { return nodes_[id].kind; }
  /// text, bytes, bytearray or big_integer.
  core::Bytes bytes(NodeId id) const { return {nodes_[id].data, nodes_[id].size}; }
  std::string_view text(NodeId id) const { return core::as_text(bytes(id)); }
  /// Members of a list, tuple, set or frozenset; keys and values of a dict.
  std::span<const NodeId> children(NodeId id) const;
  const PickleCall& call(NodeId id) const { return calls_[nodes_[id].index]; }
  std::span<const NodeId> call_items(std::uint32_t list) const;
  const PickleSymbol& symbol(NodeId global) const { return symbols_[nodes_[global].index]; }
  NodeId persistent_id(NodeId id) const { return static_cast<NodeId>(nodes_[id].index); }
  /// Every symbol that the pickle names, in order of appearance, also those whose use was dropped again.
  const std::vector<PickleSymbol>& symbols() const { return symbols_; }
  core::Bytes pickle() const { return pickle_; }
  /// Bytes up to and with STOP.
  std::size_t consumed() const { return consumed_; }

  // Building, used by the reader alone.
  NodeId add(PickleNode node);
  NodeId add_bytes(NodeKind kind, core::Bytes bytes);
  NodeId add_owned_text(NodeKind kind, std::string text);
  NodeId add_tuple(std::span<const NodeId> items);
  NodeId add_container(NodeKind kind);
  NodeId add_global(std::string_view module, std::string_view name);
  NodeId add_call(const PickleCall& call);
  PickleCall& call_at(NodeId id) { return calls_[nodes_[id].index]; }
  std::vector<NodeId>& children_of(NodeId id) { return lists_[nodes_[id].index]; }
  /// The list behind `slot` of a call, made when it is not there yet.
  std::vector<NodeId>& list_of(std::uint32_t& slot);
  void finish(NodeId root, std::size_t consumed);

 private:
  core::ByteVector pickle_;
  std::vector<PickleNode> nodes_;
  std::vector<NodeId> tuples_;  ///< members of all tuples, one after the other
  std::vector<std::vector<NodeId>> lists_;
  std::vector<PickleCall> calls_;
  std::vector<PickleSymbol> symbols_;
  std::unordered_map<std::string, std::uint32_t> symbol_numbers_;
  std::deque<std::string> owned_;
  NodeId root_ = kNoNode;
  std::size_t consumed_ = 0;
};

/// "a list", "the number 5", "torch.Size(...)": a node in a message.
std::string describe_node(const PickleGraph& graph, NodeId id);

}  // namespace ckpt

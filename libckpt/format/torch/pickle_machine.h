#pragma once
// PickleMachine: the stack machine behind read_pickle(). Thread safety: one owner. Use: PickleMachine(bytes,
// limits).run()

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/format/torch/pickle_cursor.h"
#include "libckpt/format/torch/pickle_graph.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"

namespace ckpt {

/// The stack machine. Each opcode is a member function of its own; pickle_opcodes.cpp lists them.
class PickleMachine {
 public:
  PickleMachine(core::ByteVector pickle, const Limits& limits, PickleIds ids = PickleIds::storages)
      : graph_(std::move(pickle)), cursor_(graph_.pickle()), limits_(limits), ids_(ids) {}

  PickleGraph run();

  /// For a pickle that comes in pieces, each a whole number of opcodes, without frames: how long it may become.
  void expect(std::size_t bytes) { graph_.reserve(bytes); }
  /// Runs through the next piece. REQUIRES: no more than was expected comes in all.
  void feed(core::Bytes piece);
  std::span<const NodeId> stack() const { return stack_; }

  const PickleGraph& graph() const { return graph_; }
  /// True when run() failed because the pickle computes what it calls, which only code that hides itself does.
  bool hides_calls() const { return hides_calls_; }

  // Numbers and constants.
  void none() { push_node({}); }
  template <bool kValue>
  void boolean() {
    push_integer(NodeKind::boolean, kValue ? 1 : 0);
  }
  template <class T>
  void small_int() {
    push_integer(NodeKind::integer, static_cast<std::int64_t>(cursor_.number<T>()));
  }
  template <class Length>
  void long_int();
  void text_int();
  void text_long();
  void real();
  void text_real();

  // Text and bytes.
  template <class Length>
  void unicode();
  template <class Length>
  void python2_text();
  template <class Length, NodeKind kKind>
  void byte_string();
  void text_string();
  void text_unicode();

  // Containers.
  template <NodeKind kKind>
  void empty() {
    push(graph_.add_container(kKind));
  }
  void empty_tuple() { push(graph_.add_tuple({})); }
  template <std::size_t kCount>
  void fixed_tuple() {
    close_tuple(kCount);
  }
  void tuple();
  template <NodeKind kKind>
  void from_mark() {
    collect(kKind);
  }
  void append();
  void appends();
  void set_item();
  void set_items();
  void add_items();

  // Stack and memo.
  void mark() { marks_.push_back(stack_.size()); }
  void pop_one();
  void pop_mark() { stack_.resize(take_mark()); }
  void dup() { push(top()); }
  template <class Index>
  void put() {
    memoise(cursor_.number<Index>());
  }
  void text_put() { memoise(text_index()); }
  template <class Index>
  void get() {
    push(recall(cursor_.number<Index>()));
  }
  void text_get() { push(recall(text_index())); }
  void memoize() { memoise(memo_.size() + far_memo_.size()); }

  // Symbols and calls.
  void global();
  void stack_global();
  void reduce();
  void new_object();
  void new_object_kwargs();
  void inst();
  void obj();
  void build();
  void persistent();
  void text_persistent();

  // Frame of the stream.
  void proto();
  void frame() { cursor_.open_frame(cursor_.number<std::uint64_t>()); }
  void stop() {
    if (cursor_.inside_frame()) fail("STOP before the end of its frame");
    stopped_ = true;
  }
  void extension() {
    throw core::Error(core::ErrorCode::refused, "the pickle uses an extension code, which is never accepted");
  }
  void out_of_band() {
    throw core::Error(core::ErrorCode::refused,
                      "the pickle refers to buffers outside itself, which are never accepted");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw core::Error(core::ErrorCode::corrupt,
                      "the pickle is damaged at byte " + std::to_string(cursor_.position()) + ": " + what);
  }
  void step();
  void close_tuple(std::size_t count);
  void collect(NodeKind kind);
  void push(NodeId id);
  void push_node(const PickleNode& node) { push(graph_.add(node)); }
  void push_integer(NodeKind kind, std::int64_t value);
  void push_big(core::Bytes twos_complement);
  NodeId pop();
  NodeId top() const;
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::size_t take_mark();
  std::span<const NodeId> above(std::size_t mark) const { return std::span(stack_).subspan(mark); }
  std::uint64_t text_index();
  void memoise(std::uint64_t index);
  NodeId recall(std::uint64_t index) const;
  std::vector<NodeId>& append_target(NodeId target);
  std::vector<NodeId>& item_target(NodeId target);
  const PickleSymbol& callee(NodeId call) const { return graph_.symbol(graph_.call(call).callable); }
  NodeId class_inside(NodeId callable);
  void push_call(NodeId callable, NodeId args, bool instance);
  std::uint64_t length_of(std::uint64_t length) const;
  /// The class that a persistent id stands for, kNoNode when it stands for none.
  NodeId class_of_id(NodeId id) const;

  PickleGraph graph_;
  PickleCursor cursor_;
  const Limits& limits_;
  PickleIds ids_;
  std::vector<NodeId> stack_;
  std::vector<std::size_t> marks_;  ///< stack heights
  std::vector<NodeId> memo_;
  std::unordered_map<std::uint64_t, NodeId> far_memo_;  ///< numbers given out of order
  std::uint64_t opcodes_ = 0;
  bool stopped_ = false;
  bool hides_calls_ = false;
};

/// What one opcode does; null for codes that are none.
using OpcodeHandler = void (PickleMachine::*)();
OpcodeHandler opcode_handler(std::uint8_t code);

}  // namespace ckpt

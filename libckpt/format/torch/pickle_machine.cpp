#include "libckpt/format/torch/pickle_machine.h"

#include "libcore/base/text.h"

namespace ckpt {

using core::Error;
using core::ErrorCode;

PickleGraph PickleMachine::run() {
  while (!stopped_) step();
  if (stack_.size() != 1 || !marks_.empty())
    fail("STOP with " + std::to_string(stack_.size()) + " objects on the stack");
  graph_.finish(stack_.back(), cursor_.position());
  return std::move(graph_);
}

void PickleMachine::feed(core::Bytes piece) {
  graph_.append(piece);
  cursor_.extend(graph_.pickle());
  while (!stopped_ && !cursor_.at_end()) step();
}

void PickleMachine::step() {
  if (cursor_.at_end()) throw Error(ErrorCode::corrupt, "the pickle is cut off: it ends without STOP");
  if (++opcodes_ > limits_.max_pickle_opcodes) {
    throw Error(ErrorCode::refused, "the pickle has more than " + core::format_count(limits_.max_pickle_opcodes) +
                                        " opcodes; raise the limit to read it");
  }
  std::uint8_t code = cursor_.opcode();
  OpcodeHandler handler = opcode_handler(code);
  if (handler == nullptr) fail("unknown opcode " + std::to_string(code));
  (this->*handler)();
}

void PickleMachine::push(NodeId id) {
  if (stack_.size() + marks_.size() >= limits_.max_pickle_stack) {
    throw Error(ErrorCode::refused,
                "the pickle holds more than " + core::format_count(limits_.max_pickle_stack) + " objects open at once");
  }
  stack_.push_back(id);
}

void PickleMachine::push_integer(NodeKind kind, std::int64_t value) {
  PickleNode node;
  node.kind = kind;
  node.integer = value;
  push_node(node);
}

NodeId PickleMachine::top() const {
  if (stack_.size() <= floor()) fail("an opcode needs more objects than are there");
  return stack_.back();
}

NodeId PickleMachine::pop() {
  NodeId id = top();
  stack_.pop_back();
  return id;
}

std::size_t PickleMachine::take_mark() {
  if (marks_.empty()) fail("an opcode needs a MARK that is not there");
  std::size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

void PickleMachine::pop_one() {
  if (!marks_.empty() && stack_.size() == marks_.back()) {
    marks_.pop_back();
  } else {
    pop();
  }
}

void PickleMachine::memoise(std::uint64_t index) {
  NodeId id = top();
  if (index < memo_.size()) {
    memo_[index] = id;
    return;
  }
  if (memo_.size() + far_memo_.size() >= limits_.max_pickle_memo) {
    throw Error(ErrorCode::refused,
                "the pickle has more than " + core::format_count(limits_.max_pickle_memo) + " memo entries");
  }
  if (index == memo_.size() && far_memo_.empty()) {
    memo_.push_back(id);
  } else {
    far_memo_[index] = id;
  }
}

NodeId PickleMachine::recall(std::uint64_t index) const {
  if (index < memo_.size()) return memo_[index];
  auto found = far_memo_.find(index);
  if (found == far_memo_.end()) fail("memo entry " + std::to_string(index) + " was never stored");
  return found->second;
}

void PickleMachine::close_tuple(std::size_t count) {
  if (stack_.size() < floor() + count) fail("a tuple with too few members");
  NodeId id = graph_.add_tuple(std::span(stack_).last(count));
  stack_.resize(stack_.size() - count);
  push(id);
}

void PickleMachine::tuple() {
  std::size_t mark = take_mark();
  NodeId id = graph_.add_tuple(above(mark));
  stack_.resize(mark);
  push(id);
}

void PickleMachine::collect(NodeKind kind) {
  std::size_t mark = take_mark();
  std::span<const NodeId> items = above(mark);
  if (kind == NodeKind::dict && items.size() % 2 != 0) fail("a dict with a key and no value");
  NodeId id = graph_.add_container(kind);
  graph_.children_of(id).assign(items.begin(), items.end());
  stack_.resize(mark);
  push(id);
}

std::vector<NodeId>& PickleMachine::append_target(NodeId target) {
  if (graph_.kind(target) == NodeKind::list) return graph_.children_of(target);
  if (graph_.kind(target) == NodeKind::call) {
    SymbolRole role = callee(target).role;
    if (role >= SymbolRole::inert) return graph_.list_of(graph_.call_at(target).appended);
  }
  fail("items are appended to " + describe_node(graph_, target) + ", which is not a list");
}

std::vector<NodeId>& PickleMachine::item_target(NodeId target) {
  if (graph_.kind(target) == NodeKind::dict) return graph_.children_of(target);
  if (graph_.kind(target) == NodeKind::call) {
    SymbolRole role = callee(target).role;
    if (role == SymbolRole::dict_class || role >= SymbolRole::inert)
      return graph_.list_of(graph_.call_at(target).items);
  }
  fail("items are set in " + describe_node(graph_, target) + ", which is not a dict");
}

void PickleMachine::append() {
  NodeId item = pop();
  append_target(top()).push_back(item);
}

void PickleMachine::appends() {
  std::size_t mark = take_mark();
  std::vector<NodeId> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
  stack_.resize(mark);
  std::vector<NodeId>& target = append_target(top());
  target.insert(target.end(), items.begin(), items.end());
}

void PickleMachine::set_item() {
  NodeId value = pop();
  NodeId key = pop();
  std::vector<NodeId>& target = item_target(top());
  target.push_back(key);
  target.push_back(value);
}

void PickleMachine::set_items() {
  std::size_t mark = take_mark();
  std::vector<NodeId> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
  if (items.size() % 2 != 0) fail("a dict with a key and no value");
  stack_.resize(mark);
  std::vector<NodeId>& target = item_target(top());
  target.insert(target.end(), items.begin(), items.end());
}

void PickleMachine::add_items() {
  std::size_t mark = take_mark();
  std::vector<NodeId> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
  stack_.resize(mark);
  NodeId target = top();
  if (graph_.kind(target) != NodeKind::set) fail("items are added to " + describe_node(graph_, target) + ", no set");
  std::vector<NodeId>& members = graph_.children_of(target);
  members.insert(members.end(), items.begin(), items.end());
}

void PickleMachine::global() {
  std::string_view module = cursor_.line();
  std::string_view name = cursor_.line();
  push(graph_.add_global(module, name));
}

void PickleMachine::stack_global() {
  NodeId name = pop();
  NodeId module = pop();
  if (graph_.kind(name) != NodeKind::text || graph_.kind(module) != NodeKind::text) {
    hides_calls_ = true;
    throw Error(ErrorCode::refused, "the pickle computes the name of a symbol, which is never accepted");
  }
  push(graph_.add_global(graph_.text(module), graph_.text(name)));
}

/// The class inside of ShardedTensor, which protocol 2 can name by getattr(ShardedTensor, 'ProcessGroupState') alone,
/// as the symbol that newer protocols write; any other node as it is.
NodeId PickleMachine::class_inside(NodeId callable) {
  constexpr std::string_view kModule = "torch.distributed._shard.sharded_tensor.api";
  if (graph_.kind(callable) != NodeKind::call || callee(callable).full != "builtins.getattr") return callable;
  std::span<const NodeId> args = graph_.children(graph_.call(callable).args);
  const bool inside = args.size() == 2 && graph_.kind(args[0]) == NodeKind::global &&
                      graph_.symbol(args[0]).full == std::string(kModule) + ".ShardedTensor" &&
                      graph_.kind(args[1]) == NodeKind::text && graph_.text(args[1]) == "ProcessGroupState";
  return inside ? graph_.add_global(kModule, "ShardedTensor.ProcessGroupState") : callable;
}

void PickleMachine::push_call(NodeId callable, NodeId args, bool instance) {
  callable = class_inside(callable);
  if (graph_.kind(callable) != NodeKind::global) {
    hides_calls_ = true;
    throw Error(ErrorCode::refused, "the pickle calls " + describe_node(graph_, callable) +
                                        ", which is not a plain symbol; that is never accepted");
  }
  if (graph_.kind(args) != NodeKind::tuple) fail("a call whose arguments are not a tuple");
  PickleCall call;
  call.callable = callable;
  call.args = args;
  call.instance = instance;
  push(graph_.add_call(call));
}

void PickleMachine::reduce() {
  NodeId args = pop();
  NodeId callable = pop();
  push_call(callable, args, false);
}

void PickleMachine::new_object() {
  NodeId args = pop();
  NodeId callable = pop();
  push_call(callable, args, true);
}

void PickleMachine::new_object_kwargs() {
  NodeId kwargs = pop();
  new_object();
  if (graph_.kind(kwargs) != NodeKind::dict) fail("keyword arguments that are not a dict");
  graph_.call_at(top()).kwargs = kwargs;
}

void PickleMachine::inst() {
  std::string_view module = cursor_.line();
  std::string_view name = cursor_.line();
  tuple();
  NodeId args = pop();
  push_call(graph_.add_global(module, name), args, true);
}

void PickleMachine::obj() {
  std::size_t mark = take_mark();
  if (stack_.size() == mark) fail("an object without a class");
  NodeId callable = stack_[mark];
  NodeId args = graph_.add_tuple(above(mark).subspan(1));
  stack_.resize(mark);
  push_call(callable, args, true);
}

void PickleMachine::build() {
  NodeId state = pop();
  NodeId target = top();
  bool is_call = graph_.kind(target) == NodeKind::call;
  if (!is_call || callee(target).role == SymbolRole::value) {
    fail("state is given to " + describe_node(graph_, target) + ", which has none");
  }
  PickleCall& call = graph_.call_at(target);
  if (call.state != kNoNode) fail("state is given twice to " + describe_node(graph_, target));
  call.state = state;
}

/// A legacy stream writes a module's class as ('module', class, source file, source text), a tar as (class, file,
/// text).
NodeId PickleMachine::class_of_id(NodeId id) const {
  if (ids_ == PickleIds::storages || graph_.kind(id) != NodeKind::tuple) return kNoNode;
  std::span<const NodeId> parts = graph_.children(id);
  std::size_t at = ids_ == PickleIds::legacy ? 1 : 0;
  if (parts.size() <= at || graph_.kind(parts[at]) != NodeKind::global) return kNoNode;
  bool named = at == 0 || (graph_.kind(parts[0]) == NodeKind::text && graph_.text(parts[0]) == "module");
  return named ? parts[at] : kNoNode;
}

void PickleMachine::persistent() {
  NodeId id = pop();
  if (NodeId known = class_of_id(id); known != kNoNode) return push(known);
  PickleNode node;
  node.kind = NodeKind::persistent;
  node.index = id;
  push_node(node);
}

void PickleMachine::text_persistent() {
  PickleNode node;
  node.kind = NodeKind::persistent;
  node.index = graph_.add_owned_text(NodeKind::text, std::string(cursor_.line()));
  push_node(node);
}

}  // namespace ckpt

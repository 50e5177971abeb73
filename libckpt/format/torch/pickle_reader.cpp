#include "libckpt/format/torch/pickle_reader.h"

#include <array>
#include <bit>
#include <cstdlib>

#include "libckpt/format/torch/pickle_cursor.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr unsigned kNewestProtocol = 5;

/// The stack machine. Each opcode is a member function of its own; kOpcodes below is the list of them.
class PickleMachine {
 public:
  PickleMachine(core::ByteVector pickle, const Limits& limits)
      : graph_(std::move(pickle)), cursor_(graph_.pickle()), limits_(limits) {}

  PickleGraph run();
  const PickleGraph& graph() const { return graph_; }

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
  void fixed_tuple();
  void tuple();
  template <NodeKind kKind>
  void from_mark();
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
  void stop() { stopped_ = true; }
  void extension() { throw Error(ErrorCode::refused, "the pickle uses an extension code, which is never accepted"); }
  void out_of_band() {
    throw Error(ErrorCode::refused, "the pickle refers to buffers outside itself, which are never accepted");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::corrupt,
                "the pickle is damaged at byte " + std::to_string(cursor_.position()) + ": " + what);
  }
  void step();
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
  void push_call(NodeId callable, NodeId args, bool instance);
  std::uint64_t length_of(std::uint64_t length) const;

  PickleGraph graph_;
  PickleCursor cursor_;
  const Limits& limits_;
  std::vector<NodeId> stack_;
  std::vector<std::size_t> marks_;  ///< stack heights
  std::vector<NodeId> memo_;
  std::unordered_map<std::uint64_t, NodeId> far_memo_;  ///< numbers given out of order
  std::uint64_t opcodes_ = 0;
  bool stopped_ = false;
};

using Handler = void (PickleMachine::*)();
struct Opcode {
  std::uint8_t code;
  Handler run;
};
using M = PickleMachine;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;

/// Every opcode of protocols 0 to 5.
constexpr auto kOpcodes = std::to_array<Opcode>({
    {0x80, &M::proto},
    {0x95, &M::frame},
    {'.', &M::stop},
    {'(', &M::mark},
    {'0', &M::pop_one},
    {'1', &M::pop_mark},
    {'2', &M::dup},
    {'N', &M::none},
    {0x88, &M::boolean<true>},
    {0x89, &M::boolean<false>},
    {'I', &M::text_int},
    {'L', &M::text_long},
    {'F', &M::text_real},
    {'J', &M::small_int<i32>},
    {'K', &M::small_int<u8>},
    {'M', &M::small_int<u16>},
    {0x8a, &M::long_int<u8>},
    {0x8b, &M::long_int<i32>},
    {'G', &M::real},
    {'S', &M::text_string},
    {'V', &M::text_unicode},
    {'U', &M::python2_text<u8>},
    {'T', &M::python2_text<i32>},
    {'X', &M::unicode<u32>},
    {0x8c, &M::unicode<u8>},
    {0x8d, &M::unicode<u64>},
    {'C', &M::byte_string<u8, NodeKind::bytes>},
    {'B', &M::byte_string<u32, NodeKind::bytes>},
    {0x8e, &M::byte_string<u64, NodeKind::bytes>},
    {0x96, &M::byte_string<u64, NodeKind::bytearray>},
    {0x97, &M::out_of_band},
    {0x98, &M::out_of_band},
    {'}', &M::empty<NodeKind::dict>},
    {']', &M::empty<NodeKind::list>},
    {0x8f, &M::empty<NodeKind::set>},
    {')', &M::empty_tuple},
    {'t', &M::tuple},
    {0x85, &M::fixed_tuple<1>},
    {0x86, &M::fixed_tuple<2>},
    {0x87, &M::fixed_tuple<3>},
    {'l', &M::from_mark<NodeKind::list>},
    {'d', &M::from_mark<NodeKind::dict>},
    {0x91, &M::from_mark<NodeKind::frozenset>},
    {'a', &M::append},
    {'e', &M::appends},
    {'s', &M::set_item},
    {'u', &M::set_items},
    {0x90, &M::add_items},
    {'q', &M::put<u8>},
    {'r', &M::put<u32>},
    {'p', &M::text_put},
    {0x94, &M::memoize},
    {'h', &M::get<u8>},
    {'j', &M::get<u32>},
    {'g', &M::text_get},
    {'c', &M::global},
    {0x93, &M::stack_global},
    {'R', &M::reduce},
    {0x81, &M::new_object},
    {0x92, &M::new_object_kwargs},
    {'i', &M::inst},
    {'o', &M::obj},
    {'b', &M::build},
    {'Q', &M::persistent},
    {'P', &M::text_persistent},
    {0x82, &M::extension},
    {0x83, &M::extension},
    {0x84, &M::extension},
});

constexpr std::array<Handler, 256> make_table() {
  std::array<Handler, 256> table{};
  for (const Opcode& opcode : kOpcodes) table[opcode.code] = opcode.run;
  return table;
}
constexpr std::array<Handler, 256> kTable = make_table();

PickleGraph PickleMachine::run() {
  while (!stopped_) step();
  if (stack_.size() != 1 || !marks_.empty())
    fail("STOP with " + std::to_string(stack_.size()) + " objects on the stack");
  graph_.finish(stack_.back(), cursor_.position());
  return std::move(graph_);
}

void PickleMachine::step() {
  if (cursor_.at_end()) throw Error(ErrorCode::corrupt, "the pickle is cut off: it ends without STOP");
  if (++opcodes_ > limits_.max_pickle_opcodes) {
    throw Error(ErrorCode::refused, "the pickle has more than " + core::format_count(limits_.max_pickle_opcodes) +
                                        " opcodes; raise the limit to read it");
  }
  auto code = cursor_.number<std::uint8_t>();
  Handler handler = kTable[code];
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

void PickleMachine::push_big(core::Bytes number) {
  if (std::optional<std::int64_t> small = small_integer(number)) return push_integer(NodeKind::integer, *small);
  core::ByteVector copy(number.begin(), number.end());
  trim_integer(copy);
  push(graph_.add_owned_text(NodeKind::big_integer, std::string(core::as_text(copy))));
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

std::uint64_t PickleMachine::text_index() {
  std::optional<std::int64_t> index = small_integer(parse_decimal(cursor_.line()));
  if (!index || *index < 0) fail("a memo entry has no number");
  return static_cast<std::uint64_t>(*index);
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

std::uint64_t PickleMachine::length_of(std::uint64_t length) const {
  if (length > cursor_.remaining() || length >= kNoNode) {
    fail(core::format_size(length) + " promised where " + core::format_size(cursor_.remaining()) + " are left");
  }
  return length;
}

template <class Length>
void PickleMachine::long_int() {
  auto length = static_cast<std::int64_t>(cursor_.number<Length>());
  if (length < 0) fail("a number of negative length");
  push_big(cursor_.bytes(length_of(static_cast<std::uint64_t>(length))));
}

void PickleMachine::text_int() {
  std::string_view line = cursor_.line();
  if (line == "00" || line == "01") return push_integer(NodeKind::boolean, line == "01" ? 1 : 0);
  push_big(parse_decimal(line));
}

void PickleMachine::text_long() {
  push_big(parse_decimal(cursor_.line()));
}

void PickleMachine::real() {
  PickleNode node;
  node.kind = NodeKind::real;
  node.real = std::bit_cast<double>(core::byte_swap(cursor_.number<std::uint64_t>()));
  push_node(node);
}

void PickleMachine::text_real() {
  std::string line(cursor_.line());
  char* end = nullptr;
  PickleNode node;
  node.kind = NodeKind::real;
  node.real = std::strtod(line.c_str(), &end);
  if (line.empty() || *end != '\0') fail("a float that is no number");
  push_node(node);
}

template <class Length>
void PickleMachine::unicode() {
  core::Bytes raw = cursor_.bytes(length_of(cursor_.number<Length>()));
  if (!is_pickle_utf8(core::as_text(raw))) fail("text that is not UTF-8");
  push(graph_.add_bytes(NodeKind::text, raw));
}

/// Python 2 had one type for text and bytes: what is UTF-8 is text, the rest stays bytes.
template <class Length>
void PickleMachine::python2_text() {
  auto length = static_cast<std::int64_t>(cursor_.number<Length>());
  if (length < 0) fail("text of negative length");
  core::Bytes raw = cursor_.bytes(length_of(static_cast<std::uint64_t>(length)));
  push(graph_.add_bytes(core::is_utf8(core::as_text(raw)) ? NodeKind::text : NodeKind::bytes, raw));
}

template <class Length, NodeKind kKind>
void PickleMachine::byte_string() {
  push(graph_.add_bytes(kKind, cursor_.bytes(length_of(cursor_.number<Length>()))));
}

void PickleMachine::text_string() {
  std::string raw = parse_quoted(cursor_.line());
  NodeKind kind = core::is_utf8(raw) ? NodeKind::text : NodeKind::bytes;
  push(graph_.add_owned_text(kind, std::move(raw)));
}

void PickleMachine::text_unicode() {
  push(graph_.add_owned_text(NodeKind::text, parse_raw_unicode(cursor_.line())));
}

template <std::size_t kCount>
void PickleMachine::fixed_tuple() {
  if (stack_.size() < floor() + kCount) fail("a tuple with too few members");
  NodeId id = graph_.add_tuple(std::span(stack_).last(kCount));
  stack_.resize(stack_.size() - kCount);
  push(id);
}

void PickleMachine::tuple() {
  std::size_t mark = take_mark();
  NodeId id = graph_.add_tuple(above(mark));
  stack_.resize(mark);
  push(id);
}

template <NodeKind kKind>
void PickleMachine::from_mark() {
  std::size_t mark = take_mark();
  std::span<const NodeId> items = above(mark);
  if (kKind == NodeKind::dict && items.size() % 2 != 0) fail("a dict with a key and no value");
  NodeId id = graph_.add_container(kKind);
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
  fail("items are appended to " + describe_node(graph_, target) + ", which is no list");
}

std::vector<NodeId>& PickleMachine::item_target(NodeId target) {
  if (graph_.kind(target) == NodeKind::dict) return graph_.children_of(target);
  if (graph_.kind(target) == NodeKind::call) {
    SymbolRole role = callee(target).role;
    if (role == SymbolRole::dict_class || role >= SymbolRole::inert)
      return graph_.list_of(graph_.call_at(target).items);
  }
  fail("items are set in " + describe_node(graph_, target) + ", which is no dict");
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
    throw Error(ErrorCode::refused, "the pickle computes the name of a symbol, which is never accepted");
  }
  push(graph_.add_global(graph_.text(module), graph_.text(name)));
}

void PickleMachine::push_call(NodeId callable, NodeId args, bool instance) {
  if (graph_.kind(callable) != NodeKind::global) {
    throw Error(ErrorCode::refused, "the pickle calls " + describe_node(graph_, callable) +
                                        ", which is no plain symbol; that is never accepted");
  }
  if (graph_.kind(args) != NodeKind::tuple) fail("a call whose arguments are no tuple");
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
  if (graph_.kind(kwargs) != NodeKind::dict) fail("keyword arguments that are no dict");
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

void PickleMachine::persistent() {
  PickleNode node;
  node.kind = NodeKind::persistent;
  node.index = pop();
  push_node(node);
}

void PickleMachine::text_persistent() {
  PickleNode node;
  node.kind = NodeKind::persistent;
  node.index = graph_.add_owned_text(NodeKind::text, std::string(cursor_.line()));
  push_node(node);
}

void PickleMachine::proto() {
  if (cursor_.position() != 1) fail("PROTO inside the stream");
  auto version = cursor_.number<std::uint8_t>();
  if (version > kNewestProtocol) {
    throw Error(ErrorCode::unsupported,
                "the pickle is of protocol " + std::to_string(version) + ", which is not known; 0 to 5 are");
  }
}

}  // namespace

PickleGraph read_pickle(core::ByteVector pickle, const Limits& limits) {
  PickleMachine machine(std::move(pickle), limits);
  try {
    return machine.run();
  } catch (const Error& error) {
    std::vector<std::string> unknown = unknown_symbols(machine.graph(), SymbolRole::foreign);
    if (unknown.empty()) throw;
    throw Error(error.code(), error.message() + "; before that it names " + core::join(unknown, ", "));
  }
}

std::vector<std::string> unknown_symbols(const PickleGraph& graph, SymbolRole role) {
  std::vector<std::string> names;
  for (const PickleSymbol& symbol : graph.symbols()) {
    if (symbol.role >= role) names.push_back(core::quote(symbol.full));
  }
  return names;
}

}  // namespace ckpt

// The opcodes of protocols 0 to 5: what each reads from the stream, and the table of all of them.

#include <array>
#include <bit>
#include <cstdlib>

#include "libckpt/format/torch/pickle_machine.h"
#include "libcore/base/text.h"

namespace ckpt {

using core::Error;
using core::ErrorCode;

namespace {
constexpr unsigned kNewestProtocol = 5;
}  // namespace

void PickleMachine::push_big(core::Bytes number) {
  if (std::optional<std::int64_t> small = small_integer(number)) return push_integer(NodeKind::integer, *small);
  core::ByteVector copy(number.begin(), number.end());
  trim_integer(copy);
  push(graph_.add_owned_text(NodeKind::big_integer, std::string(core::as_text(copy))));
}

std::uint64_t PickleMachine::text_index() {
  std::optional<std::int64_t> index = small_integer(parse_decimal(cursor_.line()));
  if (!index || *index < 0) fail("a memo entry has no number");
  return static_cast<std::uint64_t>(*index);
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
  if (line.empty() || *end != '\0') fail("a float that is not a number");
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

void PickleMachine::proto() {
  if (cursor_.position() != 1) fail("PROTO inside the stream");
  auto version = cursor_.number<std::uint8_t>();
  if (version > kNewestProtocol) {
    throw Error(ErrorCode::unsupported,
                "the pickle is of protocol " + std::to_string(version) + ", which is not known; 0 to 5 are");
  }
}

namespace {

struct Opcode {
  std::uint8_t code;
  OpcodeHandler run;
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

constexpr std::array<OpcodeHandler, 256> make_table() {
  std::array<OpcodeHandler, 256> table{};
  for (const Opcode& opcode : kOpcodes) table[opcode.code] = opcode.run;
  return table;
}
constexpr std::array<OpcodeHandler, 256> kTable = make_table();

}  // namespace

OpcodeHandler opcode_handler(std::uint8_t code) {
  return kTable[code];
}

}  // namespace ckpt

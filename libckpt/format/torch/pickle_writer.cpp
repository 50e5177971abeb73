#include "libckpt/format/torch/pickle_writer.h"

#include <bit>
#include <limits>

#include "libckpt/format/torch/symbols.h"
#include "libcore/base/error.h"

namespace ckpt {

PickleWriter::PickleWriter() {
  op(0x80);
  op(2);
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0 && value <= 0xff) {
    op('K');
    op(static_cast<int>(value));
  } else if (value >= 0 && value <= 0xffff) {
    op('M');
    core::append_le(out_, static_cast<std::uint16_t>(value));
  } else if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    op('J');
    core::append_le(out_, static_cast<std::int32_t>(value));
  } else {
    op(0x8a);  // libtorch reads this opcode with eight bytes only
    op(8);
    core::append_le(out_, value);
  }
}

void PickleWriter::big_integer(core::Bytes number) {
  if (number.size() > 0xff) {
    op(0x8b);
    core::append_le(out_, static_cast<std::int32_t>(number.size()));
  } else {
    op(0x8a);
    op(static_cast<int>(number.size()));
  }
  core::append(out_, number);
}

void PickleWriter::real(double value) {
  op('G');
  core::append_le(out_, core::byte_swap(std::bit_cast<std::uint64_t>(value)));
}

void PickleWriter::text(std::string_view utf8) {
  if (utf8.size() > 0xffffffff) throw core::Error(core::ErrorCode::unsupported, "a text is longer than 4 GiB");
  op('X');
  core::append_le(out_, static_cast<std::uint32_t>(utf8.size()));
  core::append(out_, core::as_bytes(utf8));
}

void PickleWriter::global(std::string_view symbol) {
  if (auto known = symbols_.find(std::string(symbol)); known != symbols_.end()) return get(known->second);
  SymbolParts parts = protocol2_parts(symbol);
  op('c');
  core::append(out_, core::as_bytes(parts.module + "\n" + parts.name + "\n"));
  symbols_.emplace(symbol, put());
}

void PickleWriter::common_text(std::string_view utf8) {
  if (auto known = texts_.find(std::string(utf8)); known != texts_.end()) return get(known->second);
  text(utf8);
  texts_.emplace(utf8, put());
}

void PickleWriter::close_tuple(std::size_t count) {
  if (count == 0) return empty_tuple();
  op(count <= 3 ? 0x84 + static_cast<int>(count) : 't');
}

std::uint32_t PickleWriter::put() {
  if (memo_size_ <= 0xff) {
    op('q');
    op(static_cast<int>(memo_size_));
  } else {
    op('r');
    core::append_le(out_, memo_size_);
  }
  return memo_size_++;
}

void PickleWriter::get(std::uint32_t number) {
  if (number <= 0xff) {
    op('h');
    op(static_cast<int>(number));
  } else {
    op('j');
    core::append_le(out_, number);
  }
}

}  // namespace ckpt

#include "libckpt/io/proto_reader.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint32_t kLastFieldNumber = (1U << 29) - 1;

[[noreturn]] void damaged_message(const std::string& what) {
  throw core::Error(core::ErrorCode::corrupt, what);
}

}  // namespace

std::uint64_t ProtoReader::varint(ProtoRange& rest) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (rest.begin >= rest.end) damaged_message("a number is cut off at byte " + std::to_string(rest.begin));
    auto byte = std::to_integer<std::uint64_t>(bytes_.at(rest.begin++));
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  damaged_message("a number of more than 64 bits ends at byte " + std::to_string(rest.begin));
}

std::optional<ProtoField> ProtoReader::next(ProtoRange& rest) {
  if (rest.begin >= rest.end) return std::nullopt;
  const std::uint64_t start = rest.begin;
  const std::uint64_t tag = varint(rest);
  ProtoField field;
  field.number = static_cast<std::uint32_t>(std::min<std::uint64_t>(tag >> 3, UINT32_MAX));
  field.kind = static_cast<ProtoField::Kind>(tag & 7);
  field.content.begin = rest.begin;
  std::uint64_t length = 0;
  switch (tag & 7) {
    case 0:
      field.value = varint(rest);
      field.content.end = rest.begin;
      break;
    case 1:
      length = 8;
      break;
    case 2:
      length = varint(rest);
      field.content.begin = rest.begin;
      break;
    case 5:
      length = 4;
      break;
    default:
      field.number = 0;
  }
  if (field.number == 0 || field.number > kLastFieldNumber) {
    damaged_message("byte " + std::to_string(start) + " begins no field of a message");
  }
  if (field.kind == ProtoField::Kind::varint) return field;
  if (length > rest.size()) {
    damaged_message("the file is cut off or damaged: the field at byte " + std::to_string(start) + " needs " +
                    core::format_count(length) + " bytes where " + core::format_count(rest.size()) + " are left");
  }
  rest.begin += length;
  field.content.end = rest.begin;
  return field;
}

std::string ProtoReader::text(const ProtoField& field, std::uint64_t max) {
  std::string out(std::min(field.content.size(), max), '\0');
  bytes_.source().read(field.content.begin, MutableBytes(reinterpret_cast<std::byte*>(out.data()), out.size()));
  bool cut = field.content.size() > max;
  for (int i = 0; i < 3 && cut && !core::is_utf8(out); ++i) out.pop_back();  // in the midst of a character
  if (!core::is_utf8(out))
    damaged_message("the text at byte " + std::to_string(field.content.begin) + " is not valid UTF-8");
  return out;
}

}  // namespace ckpt::detail

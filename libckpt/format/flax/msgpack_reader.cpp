#include "libckpt/format/flax/msgpack_reader.h"

#include <bit>

#include "libckpt/format/corrupt.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using TokenKind = MsgpackToken::Kind;

constexpr std::uint64_t kMostLooked = 65'536;  ///< tokens
constexpr unsigned kThree = 0x93;              ///< a list of three: shape, type and values

}  // namespace

std::uint64_t MsgpackReader::number(unsigned width) {
  if (width > remaining()) corrupt("the file is cut off in a number at byte " + std::to_string(position_));
  std::uint64_t value = 0;
  for (unsigned i = 0; i < width; ++i) value = value << 8 | std::to_integer<std::uint64_t>(bytes_.at(position_++));
  return value;
}

void MsgpackReader::content(MsgpackToken& token, TokenKind kind, std::uint64_t size) {
  if (size > remaining()) {
    corrupt("the file is cut off: a value at byte " + std::to_string(position_) + " has " + core::format_count(size) +
            " bytes where " + core::format_count(remaining()) + " are left");
  }
  token.kind = kind;
  token.begin = position_;
  token.size = size;
  position_ += size;
}

/// `least`: bytes that each of them needs.
void MsgpackReader::holds(MsgpackToken& token, TokenKind kind, std::uint64_t count, std::uint64_t least) {
  if (count > remaining() / least) {
    corrupt("the file is cut off: at byte " + std::to_string(position_) + " " + core::format_count(count) +
            (kind == TokenKind::map ? " pairs" : " values") + " should follow where " +
            core::format_count(remaining()) + " bytes are left");
  }
  token.kind = kind;
  token.size = count;
}

void MsgpackReader::integer(MsgpackToken& token, std::int64_t value) {
  token.kind = TokenKind::integer;
  token.integer = value;
}

void MsgpackReader::extension(MsgpackToken& token, std::uint64_t size) {
  token.extension = static_cast<std::int8_t>(number(1));
  content(token, TokenKind::extension, size);
}

/// Codes from 0xc0 to 0xdf, whose value or length follows.
void MsgpackReader::wide(MsgpackToken& token, unsigned code) {
  const unsigned width = 1U << (code & 3);
  if (code == 0xc0) return;
  if (code == 0xc2 || code == 0xc3) {
    token.kind = TokenKind::boolean;
    token.integer = code & 1;
  } else if (code >= 0xc4 && code <= 0xc6) {
    content(token, TokenKind::bytes, number(width));
  } else if (code >= 0xc7 && code <= 0xc9) {
    extension(token, number(1U << (code - 0xc7)));
  } else if (code == 0xca || code == 0xcb) {
    token.kind = TokenKind::real;
    token.real = code == 0xca ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(number(4))))
                              : std::bit_cast<double>(number(8));
  } else if (code >= 0xcc && code <= 0xcf) {
    std::uint64_t value = number(width);
    token.integer = static_cast<std::int64_t>(value);
    token.kind = value > INT64_MAX ? TokenKind::past_64_bits : TokenKind::integer;
  } else if (code >= 0xd0 && code <= 0xd3) {
    const unsigned unused = 64 - 8 * width;
    integer(token, static_cast<std::int64_t>(number(width) << unused) >> unused);
  } else if (code >= 0xd4 && code <= 0xd8) {
    extension(token, 1ULL << (code - 0xd4));
  } else if (code >= 0xd9 && code <= 0xdb) {
    content(token, TokenKind::text, number(1U << (code - 0xd9)));
  } else if (code == 0xdc || code == 0xdd) {
    holds(token, TokenKind::array, number(code == 0xdc ? 2 : 4), 1);
  } else if (code == 0xde || code == 0xdf) {
    holds(token, TokenKind::map, number(code == 0xde ? 2 : 4), 2);
  } else {
    corrupt("byte " + std::to_string(position_ - 1) + " begins no value of msgpack");
  }
}

MsgpackToken MsgpackReader::next() {
  MsgpackToken token;
  const auto code = static_cast<unsigned>(number(1));
  if (code < 0x80) {
    integer(token, code);
  } else if (code < 0x90) {
    holds(token, TokenKind::map, code & 0x0f, 2);
  } else if (code < 0xa0) {
    holds(token, TokenKind::array, code & 0x0f, 1);
  } else if (code < 0xc0) {
    content(token, TokenKind::text, code & 0x1f);
  } else if (code < 0xe0) {
    wide(token, code);
  } else {
    integer(token, static_cast<std::int64_t>(code) - 256);
  }
  return token;
}

std::string MsgpackReader::text(const MsgpackToken& token) const {
  std::string out(token.size, '\0');
  bytes_.source().read(token.begin, MutableBytes(reinterpret_cast<std::byte*>(out.data()), out.size()));
  if (!core::is_utf8(out)) corrupt("the text at byte " + std::to_string(token.begin) + " is not valid UTF-8");
  return out;
}

core::ByteVector MsgpackReader::bytes(const MsgpackToken& token) const {
  core::ByteVector out(token.size);
  bytes_.source().read(token.begin, out);
  return out;
}

bool looks_like_flax(const ByteSource& file) {
  try {
    MsgpackReader in(file, 0, file.size());
    for (std::uint64_t count = 0; count < kMostLooked && in.remaining() > 0; ++count) {
      const std::uint64_t start = in.position();
      std::byte first{};
      file.read(start, MutableBytes(&first, 1));
      const bool array = first == std::byte{0xc9} || first == std::byte{0xc8} || first == std::byte{0xc7};
      if (array) {
        // The array may be cut off.
        const std::uint64_t head = 2 + (1ULL << (std::to_integer<unsigned>(first) - 0xc7));
        std::byte type_and_list[2];
        file.read(start + head - 1, type_and_list);
        return type_and_list[0] == std::byte{1} && type_and_list[1] == std::byte{kThree};
      }
      MsgpackToken token = in.next();
      if (count == 0 && (token.kind != TokenKind::map || token.size == 0)) return false;
      if (token.kind == TokenKind::extension && token.extension != 2) return false;
    }
  } catch (const core::Error&) {
    return false;
  }
  return false;
}

}  // namespace ckpt::detail

#include "libckpt/integer_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

namespace ckpt::detail {
namespace {

constexpr std::uint32_t kChunk = 1'000'000'000;  ///< nine digits at a time
constexpr std::size_t kChunkDigits = 9;

using Words = std::vector<std::uint32_t>;  ///< a magnitude, the lowest first

Words words_of(std::string_view digits) {
  Words words;
  while (!digits.empty()) {
    std::size_t count = (digits.size() - 1) % kChunkDigits + 1;
    std::uint32_t chunk = 0;
    std::from_chars(digits.data(), digits.data() + count, chunk);
    digits.remove_prefix(count);
    std::uint64_t carry = chunk;
    for (std::uint32_t& word : words) {
      carry += std::uint64_t{word} * kChunk;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32U;
    }
    if (carry != 0) words.push_back(static_cast<std::uint32_t>(carry));
  }
  return words;
}

/// In place: what is x becomes -x.
void negate(core::ByteVector& twos_complement) {
  unsigned carry = 1;
  for (std::byte& byte : twos_complement) {
    carry += std::to_integer<unsigned>(~byte);
    byte = static_cast<std::byte>(carry);
    carry >>= 8U;
  }
}

bool is_negative(const core::ByteVector& bytes) {
  return !bytes.empty() && (bytes.back() & std::byte{0x80}) != std::byte{0};
}

/// Without bytes at the end that only repeat the sign.
void shorten(core::ByteVector& bytes) {
  std::byte sign = is_negative(bytes) ? std::byte{0xff} : std::byte{0};
  while (bytes.size() > 1 && bytes.back() == sign) {
    bool same_sign = ((bytes[bytes.size() - 2] ^ sign) & std::byte{0x80}) == std::byte{0};
    if (!same_sign) return;
    bytes.pop_back();
  }
}

core::ByteVector twos_complement(const Words& words, bool negative) {
  core::ByteVector bytes;
  for (std::uint32_t word : words) core::append_le(bytes, word);
  bytes.push_back(std::byte{0});
  if (negative) negate(bytes);
  shorten(bytes);
  return bytes;
}

}  // namespace

std::optional<Value> parse_integer(std::string_view text) {
  bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative || text.starts_with('+') ? 1 : 0);
  bool all_digits = digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (digits.empty() || digits.size() > kMaxDigits || !all_digits) return std::nullopt;
  std::int64_t small = 0;
  const char* begin = negative ? text.data() : digits.data();
  if (std::from_chars(begin, text.data() + text.size(), small).ec == std::errc()) return Value::integer(small);
  return Value::big_integer(twos_complement(words_of(digits), negative));
}

std::string integer_text(const Value& integer) {
  if (integer.is(Value::Kind::integer)) return std::to_string(integer.as_integer());
  core::ByteVector bytes = integer.as_bytes();
  bool negative = is_negative(bytes);
  if (negative) negate(bytes);
  std::string reversed;
  while (!bytes.empty()) {
    std::uint64_t rest = 0;
    for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {
      rest = (rest << 8U) | std::to_integer<std::uint64_t>(*byte);
      *byte = static_cast<std::byte>(rest / kChunk);
      rest %= kChunk;
    }
    while (!bytes.empty() && bytes.back() == std::byte{0}) bytes.pop_back();
    for (std::size_t i = 0; i < kChunkDigits; ++i, rest /= 10) reversed += static_cast<char>('0' + rest % 10);
  }
  while (reversed.size() > 1 && reversed.back() == '0') reversed.pop_back();
  if (reversed.empty()) reversed = "0";
  if (negative) reversed += '-';
  return {reversed.rbegin(), reversed.rend()};
}

}  // namespace ckpt::detail

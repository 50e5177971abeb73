// A code stands with its first bit on top. An entry of the table answers for eleven bits. It has, from its lowest byte
// on: how many bits are used, how many bytes they are codes of, and these, up to six.

#include "libckpt/io/byte_codes.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::uint32_t kTableSize = 1U << kLongestCode;
constexpr unsigned kBytesAtOnce = 6;
constexpr unsigned kCountAt = 8;
constexpr unsigned kBytesAt = 16;
constexpr std::size_t kStreamHead = 2;

/// Depths of the leaves of Huffman's tree, of leaves in ascending order.
std::vector<unsigned> depths(const std::vector<std::uint64_t>& leaves) {
  const std::size_t n = leaves.size();
  std::vector<std::uint64_t> weight(leaves);
  std::vector<std::size_t> parent(2 * n - 1, 0);
  std::size_t leaf = 0;
  std::size_t inner = n;
  auto least = [&] { return leaf < n && (inner == weight.size() || weight[leaf] <= weight[inner]) ? leaf++ : inner++; };
  while (weight.size() < 2 * n - 1) {
    const std::size_t a = least();
    const std::size_t b = least();
    parent[a] = parent[b] = weight.size();
    weight.push_back(weight[a] + weight[b]);
  }
  std::vector<unsigned> depth(2 * n - 1, 0);
  for (std::size_t i = 2 * n - 2; i-- > 0;) depth[i] = depth[parent[i]] + 1;
  depth.resize(n);
  return depth;
}

/// Part of the table that codes of these lengths fill.
std::uint32_t filled(const CodeLengths& lengths) {
  std::uint32_t sum = 0;
  for (std::uint8_t length : lengths) sum += length == 0 ? 0 : kTableSize >> length;
  return sum;
}

/// Bytes that have one, shorter ones first, then by value.
std::vector<std::size_t> in_order_of_codes(const CodeLengths& lengths) {
  std::array<std::size_t, UINT8_MAX + 2> next = {};  // where the next one of a length goes
  for (std::uint8_t length : lengths) ++next[length + 1U];
  const std::size_t none = next[1];
  next[0] = next[1] = 0;
  for (std::size_t i = 2; i < next.size(); ++i) next[i] += next[i - 1];
  std::vector<std::size_t> bytes(lengths.size() - none);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > 0) bytes[next[lengths[i]]++] = i;
  }
  return bytes;
}

std::uint64_t load_be(const std::byte* from) {
  return core::byte_swap(core::load_le<std::uint64_t>(from));
}

/// The same where fewer than eight bytes may be left.
std::uint64_t load_be(const std::byte* from, const std::byte* end) {
  if (end - from >= 8) return load_be(from);
  std::byte bytes[8] = {};
  if (from < end) std::copy(from, end, bytes);
  return load_be(bytes);
}

/// A stream while it is unpacked. The bits that are next stand on top of `bits`, and its lowest one that is set says
/// how many were used since `in` (by being shifted there from bit 0).
struct Stream {
  std::uint64_t bits;
  const std::byte* in;
  std::byte* out;
  std::byte* end;
};

constexpr std::size_t kLookups = 5;  ///< between loads of bits: 55 of them, of 56 that are there at least

/// How often all of that can be done without a look at the ends.
std::size_t safe_rounds(const Stream& stream, const std::byte* end) {
  const std::ptrdiff_t room = (stream.end - stream.out - 2) / static_cast<std::ptrdiff_t>(kLookups * kBytesAtOnce);
  const std::ptrdiff_t bytes = (end - stream.in - 8) / 7;
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, std::min(room, bytes)));
}

[[gnu::always_inline]] inline void look_up(const std::uint64_t* table, std::uint64_t& bits, std::byte*& out) {
  const std::uint64_t entry = table[bits >> (64 - kLongestCode)];
  core::store_le(out, entry >> kBytesAt);
  out += entry >> kCountAt & 0xff;
  bits <<= entry & 63;
}

[[gnu::always_inline]] inline void load_more(std::uint64_t& bits, const std::byte*& in) {
  const int used = std::countr_zero(bits);
  in += used >> 3;
  bits = (load_be(in) | 1) << (used & 7);
}

void unpack_beside(const std::uint64_t* table, Stream (&streams)[kCodeStreams], const std::byte* end) {
  Stream a = streams[0], b = streams[1], c = streams[2], d = streams[3];
  for (;;) {
    std::size_t rounds = std::min({safe_rounds(a, end), safe_rounds(b, end), safe_rounds(c, end), safe_rounds(d, end)});
    if (rounds == 0) break;
    for (; rounds > 0; --rounds) {
#pragma GCC unroll 5
      for (std::size_t i = 0; i < kLookups; ++i) {
        look_up(table, a.bits, a.out);
        look_up(table, b.bits, b.out);
        look_up(table, c.bits, c.out);
        look_up(table, d.bits, d.out);
      }
      load_more(a.bits, a.in);
      load_more(b.bits, b.in);
      load_more(c.bits, c.in);
      load_more(d.bits, d.in);
    }
  }
  streams[0] = a, streams[1] = b, streams[2] = c, streams[3] = d;
}

/// What is left of one. Bits behind the last ones are taken for zeros.
void unpack_rest(const std::uint64_t* table, Stream& stream, const std::byte* end) {
  const auto behind = core::load_le<std::uint64_t>(stream.end);  // the next stream's, and there already
  while (stream.out < stream.end) {
    const int used = std::countr_zero(stream.bits);
    stream.in += used >> 3;
    stream.bits = (load_be(stream.in, end) | 1) << (used & 7);
    for (std::size_t i = 0; i < kLookups && stream.out < stream.end; ++i) look_up(table, stream.bits, stream.out);
  }
  core::store_le(stream.end, behind);
}

/// Entries that begin with a byte and its code, and go on as `rest`.
void put_before(std::size_t byte, unsigned length, const std::uint64_t* rest, std::size_t count, std::uint64_t* out) {
  constexpr std::uint64_t kBelow = (std::uint64_t{1} << kBytesAt) - 1;
  const std::uint64_t first = std::uint64_t{byte} << kBytesAt | std::uint64_t{1} << kCountAt;
  for (std::size_t i = 0; i < count; ++i) out[i] = (rest[i] & ~kBelow) << 8 | ((rest[i] & kBelow) + first + length);
}

/// Entries without their last byte where they are full.
void shorten(const CodeLengths& lengths, const std::uint64_t* entries, std::size_t count, std::uint64_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t entry = entries[i];
    if ((entry >> kCountAt & 0xff) == kBytesAtOnce) {
      entry -= std::uint64_t{1} << kCountAt | lengths[entry >> 56];
      entry &= UINT64_MAX >> 8;
    }
    out[i] = entry;
  }
}

/// Bytes of stream `i` of `size` in all.
std::size_t stream_share(std::size_t i, std::size_t size) {
  const std::size_t each = (size + kCodeStreams - 1) / kCodeStreams;
  return std::min(each, size - std::min(size, i * each));
}

}  // namespace

void damaged_words(const std::string& what) {
  throw core::Error(core::ErrorCode::corrupt, "packed words are damaged: " + what);
}

std::array<std::uint16_t, 256> codes_of(const CodeLengths& lengths) {
  std::array<std::uint16_t, 256> codes = {};
  std::uint32_t filled = 0;
  for (std::size_t byte : in_order_of_codes(lengths)) {
    const std::uint32_t part = kTableSize >> lengths[byte];
    codes[byte] = static_cast<std::uint16_t>(filled / part);
    filled += part;
  }
  return codes;
}

void check_lengths(const CodeLengths& lengths) {
  for (std::uint8_t length : lengths) {
    if (length > kLongestCode) damaged_words("a code has " + std::to_string(length) + " bits");
  }
  if (filled(lengths) > kTableSize) damaged_words("their codes contradict each other");
}

CodeLengths code_lengths(const ByteCounts& counts) {
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) bytes.push_back(i);
  }
  std::ranges::stable_sort(bytes, {}, [&](std::size_t i) { return counts[i]; });
  CodeLengths lengths = {};
  if (bytes.size() == 1) {
    lengths[bytes[0]] = 1;
    return lengths;
  }
  std::vector<std::uint64_t> leaves;
  for (std::size_t i : bytes) leaves.push_back(counts[i]);
  const std::vector<unsigned> depth = depths(leaves);
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    lengths[bytes[k]] = static_cast<std::uint8_t>(std::min(depth[k], kLongestCode));
  }
  // What was cut to the longest code takes more than there is: the rarest of the others give way.
  std::uint32_t sum = filled(lengths);
  for (unsigned longest = kLongestCode - 1; sum > kTableSize; --longest) {
    for (std::size_t k = 0; k < bytes.size() && sum > kTableSize; ++k) {
      std::uint8_t& length = lengths[bytes[k]];
      if (length != longest) continue;
      sum -= (kTableSize >> length) - (kTableSize >> (length + 1));
      ++length;
    }
  }
  return lengths;
}

std::uint64_t coded_bits(const ByteCounts& counts, const CodeLengths& lengths) {
  return std::inner_product(counts.begin(), counts.end(), lengths.begin(), std::uint64_t{0});
}

void append_lengths(ByteVector& out, const CodeLengths& lengths) {
  std::size_t last = lengths.size() - 1;
  while (last > 0 && lengths[last] == 0) --last;
  out.push_back(static_cast<std::byte>(last));
  for (std::size_t i = 0; i <= last; i += 2) {
    out.push_back(static_cast<std::byte>(lengths[i] | (i < last ? lengths[i + 1] << 4 : 0)));
  }
}

CodeLengths take_lengths(Bytes& in) {
  if (in.empty()) damaged_words("they end within their codes");
  const auto last = static_cast<std::size_t>(in[0]);
  const std::size_t size = 1 + (last + 2) / 2;
  if (in.size() < size) damaged_words("they end within their codes");
  CodeLengths lengths = {};
  for (std::size_t i = 0; i <= last; ++i) {
    lengths[i] = static_cast<std::uint8_t>(static_cast<unsigned>(in[1 + i / 2]) >> i % 2 * 4 & 15);
  }
  in = in.subspan(size);
  return lengths;
}

ByteEncoder::ByteEncoder(const CodeLengths& lengths) : lengths_(lengths), codes_(codes_of(lengths)) {}

std::size_t ByteEncoder::put_codes(Bytes bytes, std::byte* out) const {
  std::byte* at = out;
  constexpr unsigned kFull = 48;  // bits that are written at once, with room for another code
  std::uint64_t bits = 0;         // from the top
  unsigned count = 0;
  for (std::byte byte : bytes) {
    const auto value = static_cast<std::size_t>(byte);
    count += lengths_[value];
    bits |= std::uint64_t{codes_[value]} << (64 - count);
    if (count < kFull) continue;
    core::store_le(at, core::byte_swap(bits));
    at += count / 8;
    bits <<= count / 8 * 8;
    count %= 8;
  }
  core::store_le(at, core::byte_swap(bits));
  return static_cast<std::size_t>(at - out) + (count + 7) / 8;
}

void ByteEncoder::append(ByteVector& out, Bytes bytes) const {
  const std::size_t head = out.size();
  const std::size_t size = bytes.size();
  out.resize(head + kCodeStreams * kStreamHead);
  for (std::size_t i = 0; i < kCodeStreams; ++i) {
    const Bytes part = bytes.first(stream_share(i, size));
    bytes = bytes.subspan(part.size());
    const std::size_t begin = out.size();
    out.resize(begin + (part.size() * kLongestCode + 7) / 8 + sizeof(std::uint64_t));
    out.resize(begin + put_codes(part, out.data() + begin));
    core::store_le(out.data() + head + i * kStreamHead, static_cast<std::uint16_t>(out.size() - begin));
  }
}

ByteDecoder::ByteDecoder(const CodeLengths& lengths) {
  check_lengths(lengths);
  // What k bits say is their first code, and then what the bits behind it say: tables of 1, 2, 4, ... entries, of which
  // that of k bits begins at 2^k. Codes with the same first bits lie side by side.
  std::array<std::uint64_t, 2 * kTableSize> tables;
  std::array<std::uint64_t, kTableSize> shorter;  // the same with one byte fewer where there is no room for another
  tables[1] = shorter[1] = 0;
  const std::vector<std::size_t> bytes = in_order_of_codes(lengths);
  for (unsigned k = 1; k <= kLongestCode; ++k) {
    std::uint64_t* table = &tables[std::size_t{1} << k];
    std::uint64_t* next = table;
    for (std::size_t byte : bytes) {
      if (lengths[byte] > k) break;
      const std::size_t behind = std::size_t{1} << (k - lengths[byte]);
      put_before(byte, lengths[byte], &shorter[behind], behind, next);
      next += behind;
    }
    std::fill(next, table + (std::size_t{1} << k), 0);
    if (k < kLongestCode) shorten(lengths, table, std::size_t{1} << k, &shorter[std::size_t{1} << k]);
  }
  constexpr std::uint64_t kNoCode = std::uint64_t{1} << kCountAt | kLongestCode;
  for (std::size_t i = 0; i < kTableSize; ++i) {
    const std::uint64_t entry = tables[kTableSize + i];
    table_[i] = entry == 0 ? kNoCode : entry;
  }
}

void ByteDecoder::take(Bytes& in, MutableBytes out) const {
  constexpr std::size_t kHead = kCodeStreams * kStreamHead;
  if (in.size() < kHead) damaged_words("they end within the sizes of their streams");
  Stream streams[kCodeStreams];
  std::size_t at = kHead;
  std::byte* to = out.data();
  for (std::size_t i = 0; i < kCodeStreams; ++i) {
    const std::byte* begin = in.data() + std::min(at, in.size());
    std::byte* end = to + stream_share(i, out.size());
    streams[i] = {load_be(begin, in.data() + in.size()) | 1, begin, to, end};
    to = end;
    at += core::load_le<std::uint16_t>(in.data() + i * kStreamHead);
  }
  if (at > in.size()) damaged_words("they end within a stream of codes");
  const std::byte* end = in.data() + in.size();
  unpack_beside(table_.data(), streams, end);
  for (Stream& stream : streams) unpack_rest(table_.data(), stream, end);
  in = in.subspan(at);
}

}  // namespace ckpt::detail

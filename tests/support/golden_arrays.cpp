#include "tests/support/golden_arrays.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "tests/support/temp_dir.h"

namespace test {
namespace {

/// "F32" as safetensors writes it; the names differ from ours only in letter case here.
core::DType safetensors_dtype(std::string_view name) {
  if (name == "BOOL") return core::DType::boolean;
  return core::parse_dtype(name);
}

GoldenArray array_from(simdjson::dom::object entry, core::Bytes data) {
  GoldenArray array;
  array.dtype = safetensors_dtype(std::string_view(entry["dtype"]));
  for (std::int64_t size : entry["shape"]) array.shape.push_back(size);
  std::uint64_t from = entry["data_offsets"].at(0);
  std::uint64_t to = entry["data_offsets"].at(1);
  if (from > to || to > data.size()) throw std::runtime_error("array outside the file");
  core::Bytes bytes = data.subspan(from, to - from);
  array.bytes.assign(bytes.begin(), bytes.end());
  return array;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  throw std::runtime_error("no hexadecimal digit");
}

using Sha256State = std::array<std::uint32_t, 8>;

constexpr std::array<std::uint32_t, 64> kSha256Rounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// One round function over a 64-byte block (FIPS 180-4, 6.2.2).
void sha256_block(Sha256State& state, const std::byte* block) {
  std::array<std::uint32_t, 64> w{};
  for (int i = 0; i < 16; ++i) w[i] = core::byte_swap(core::load_le<std::uint32_t>(block + 4 * i));
  for (int i = 16; i < 64; ++i) {
    std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Rounds[i] + w[i];
    std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> add = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += add[i];
}

}  // namespace

GoldenArrays::GoldenArrays(const std::filesystem::path& path) {
  std::string file = read_file(path);
  core::Bytes bytes = core::as_bytes(file);
  if (bytes.size() < 8) throw std::runtime_error("no safetensors file: " + path.string());
  auto header_size = core::load_le<std::uint64_t>(bytes.data());
  if (header_size > bytes.size() - 8) throw std::runtime_error("no safetensors file: " + path.string());
  simdjson::dom::parser parser;
  simdjson::dom::object header = parser.parse(file.substr(8, header_size));
  for (auto [name, entry] : header) {
    if (name != "__metadata__") arrays_[std::string(name)] = array_from(entry, bytes.subspan(8 + header_size));
  }
}

const GoldenArray& GoldenArrays::at(const std::string& name) const {
  auto found = arrays_.find(name);
  if (found == arrays_.end()) throw std::out_of_range("no golden array " + name);
  return found->second;
}

std::uint64_t hex_word(std::string_view word) {
  std::uint64_t value = 0;
  for (char c : word) value = value << 4 | static_cast<std::uint64_t>(digit(c));
  return value;
}

core::ByteVector bytes_from_hex_words(std::string_view words) {
  core::ByteVector bytes;
  while (!words.empty()) {
    std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    std::uint64_t value = hex_word(word);
    for (std::size_t i = 0; i < word.size() / 2; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  return bytes;
}

std::string hex_words(core::Bytes bytes, int width) {
  std::string words;
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(width)) {
    if (at != 0) words += ' ';
    for (int i = width - 1; i >= 0; --i) {
      auto byte = std::to_integer<unsigned>(bytes[at + static_cast<std::size_t>(i)]);
      words += "0123456789abcdef"[byte >> 4];
      words += "0123456789abcdef"[byte & 15];
    }
  }
  return words;
}

core::ByteVector bytes_from_base64(std::string_view text) {
  static constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  core::ByteVector bytes;
  std::uint32_t buffer = 0;
  int bits = 0;
  for (char c : text) {
    if (c == '=') break;
    std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) throw std::runtime_error("no base64 text");
    buffer = buffer << 6 | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<std::byte>(buffer >> bits));
  }
  return bytes;
}

std::string sha256(core::Bytes bytes) {
  Sha256State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  core::ByteVector tail;
  std::size_t whole = bytes.size() / 64 * 64;
  for (std::size_t at = 0; at < whole; at += 64) sha256_block(state, bytes.data() + at);
  core::append(tail, bytes.subspan(whole));
  tail.push_back(std::byte{0x80});
  while (tail.size() % 64 != 56) tail.push_back(std::byte{0});
  core::append_le(tail, core::byte_swap<std::uint64_t>(bytes.size() * 8));
  for (std::size_t at = 0; at < tail.size(); at += 64) sha256_block(state, tail.data() + at);
  std::string digest;
  for (std::uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) digest += "0123456789abcdef"[word >> shift & 15];
  }
  return digest;
}

}  // namespace test

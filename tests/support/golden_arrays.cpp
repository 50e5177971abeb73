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

}  // namespace test

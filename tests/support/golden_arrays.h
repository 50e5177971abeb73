#pragma once
// Plain arrays for golden tests: a reader for the .safetensors files beside the golden JSON, and the encodings that the
// JSON uses (hexadecimal words, base64, SHA-256). Knows nothing of tensors, so that it cannot share their bugs.
// Thread safety: reading is safe from many threads. Use: GoldenArrays arrays(path); arrays.at("add/in0").shape;

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/bytes.h"
#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"
#include "tests/support/sha256.h"

namespace test {

/// Row-major little-endian bytes (one byte per bool).
struct GoldenArray {
  core::DType dtype = core::DType::f32;
  core::Shape shape;
  core::ByteVector bytes;
};

/// All arrays of one .safetensors file.
class GoldenArrays {
 public:
  /// Throws std::runtime_error when the file cannot be read or is no safetensors file.
  explicit GoldenArrays(const std::filesystem::path& path);
  bool contains(const std::string& name) const { return arrays_.contains(name); }
  /// Throws std::out_of_range with the name.
  const GoldenArray& at(const std::string& name) const;
  const std::map<std::string, GoldenArray>& all() const { return arrays_; }

 private:
  std::map<std::string, GoldenArray> arrays_;
};

/// "3f800000 00000000": words of 4, 8 or 16 digits, most significant digit first, to little-endian bytes.
core::ByteVector bytes_from_hex_words(std::string_view words);
/// The inverse; `width` is the size of a word in bytes (2, 4 or 8).
std::string hex_words(core::Bytes bytes, int width);
/// The one word of `words` as a number: "3f800000" is 0x3f800000.
std::uint64_t hex_word(std::string_view word);

core::ByteVector bytes_from_base64(std::string_view text);

}  // namespace test

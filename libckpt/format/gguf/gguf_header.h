#pragma once
// The header of a GGUF file: typed metadata and the table of tensors, read in order through a bounded window and
// checked against the size of the file. Thread safety: immutable once read. Use: GgufHeader h = read_gguf_header(*file,
// options);

#include <string>
#include <vector>

#include "libckpt/format/gguf/gguf_types.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/options.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::uint32_t kGgufVersion = 3;
inline constexpr std::uint64_t kGgufMaxName = 63;  ///< bytes of a tensor's name; ggml keeps 64 with the NUL
inline constexpr std::uint32_t kGgufMaxRank = 4;
inline constexpr std::uint64_t kGgufAlignment = 32;
inline constexpr std::string_view kAlignmentKey = "general.alignment";

/// One value of the metadata as it is stored, little-endian whatever the file is: of an array the type of its elements
/// (u32) and their number (u64) first; a text is its length (u64) and its bytes.
struct GgufValue {
  std::string key;
  GgufValueType type = GgufValueType::u8;
  core::ByteVector stored;
};

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;
  core::Shape shape;         ///< row-major: the file has the dimensions the other way round
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t size = 0;    ///< bytes
};

struct GgufHeader {
  bool big_endian = false;
  std::uint64_t alignment = kGgufAlignment;
  std::vector<GgufValue> values;    ///< in order of the file
  std::vector<GgufTensor> tensors;  ///< in order of the file, which is the order of their data
  bool trailing = false;            ///< lenient: bytes behind the last tensor were let pass
};

/// Versions 2 and 3. Errors: Error(corrupt) for everything that contradicts itself, is cut off, is there twice, or
/// whose data do not lie one behind the other; Error(refused) for limits; Error(unsupported) for other versions,
/// unknown types, arrays of arrays and quantised tensors of the other byte order. Lenient: bools other than 0 and 1,
/// and bytes behind the last tensor, are let pass.
GgufHeader read_gguf_header(const ByteSource& file, const OpenOptions& options);

}  // namespace ckpt::detail

#pragma once
// The JSON header of a safetensors file, read and checked whole. Thread safety: pure functions; a header is a value.
// Use: SafetensorsHeader header = read_safetensors_header(*file, options);

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/json.h"
#include "libckpt/options.h"
#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

inline constexpr std::string_view kMetadataKey = "__metadata__";
inline constexpr std::uint64_t kLengthBytes = 8;

using TextPairs = std::vector<std::pair<std::string, std::string>>;

/// A piece of the header's text.
struct TextSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsItem {
  std::string name;
  core::DType dtype = core::DType::f32;
  core::Shape shape;  ///< as PyTorch counts: two F4 values are one element
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  TextSpan text;  ///< the JSON object that describes it
};

struct SafetensorsHeader {
  std::string text;                    ///< as it stands in the file, padding included
  std::vector<SafetensorsItem> items;  ///< in the order of the text
  TextPairs metadata;
  TextSpan metadata_text;  ///< the value of __metadata__, empty when there is none

  std::uint64_t data_offset() const { return kLengthBytes + text.size(); }
};

/// Reads and checks everything that formats of this kind must fulfil. Errors: Error(corrupt | refused | unsupported)
/// naming the tensor; what lenient reading lets pass is listed in the report.
SafetensorsHeader read_safetensors_header(const ByteSource& file, const OpenOptions& options);

/// Fills items and metadata of `header` from its text, any JSON. Errors: as above, for the text alone.
void read_json_header(SafetensorsHeader& header, const OpenOptions& options);
/// The value of "__metadata__". Errors: Error(corrupt) for anything but an object of texts, or null.
TextPairs read_metadata(const JsonView& node);

/// "BF16", or "" when the format has no such type.
std::string_view safetensors_name(core::DType dtype);
/// Place in the format's own order of types; writers put large ones first.
int safetensors_rank(core::DType dtype);

}  // namespace ckpt::detail

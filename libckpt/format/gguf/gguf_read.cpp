#include <charconv>

#include "libckpt/format/folder.h"
#include "libckpt/format/gguf/gguf_file.h"
#include "libckpt/format/verify_reading.h"
#include "libckpt/io/byte_swap.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kSplitNumber = "split.no";
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitTensors = "split.tensors.count";

EntryPtr make_entry(const GgufTensor& tensor, const SourcePtr& file, bool big_endian) {
  auto entry = std::make_shared<Entry>();
  entry->shape = tensor.shape;
  entry->bytes = tensor.size == 0 ? memory_source({}) : slice(file, tensor.offset, tensor.size);
  if (tensor.type->dtype) {
    entry->dtype = *tensor.type->dtype;
    if (big_endian) entry->bytes = byte_swapped(entry->bytes, swap_width(entry->dtype));
    return entry;
  }
  entry->dtype = core::DType::u8;
  entry->blocks = BlockType{std::string(tensor.type->name), tensor.shape};
  std::int64_t& row =
      entry->shape[entry->shape.size() - 1];  // a block type divides the last dimension, so there is one
  row = row / tensor.type->elements * tensor.type->bytes;
  return entry;
}

/// A whole number of the metadata, whatever its width; 0 when there is none.
std::uint64_t number_of(const std::vector<GgufValue>& values, std::string_view key) {
  for (const GgufValue& value : values) {
    if (value.key != key) continue;
    std::string text = metadata_text(value);
    std::uint64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? number : 0;
  }
  return 0;
}

struct Part {
  SourcePtr file;
  GgufHeader header;
};

/// "name-00001-of-00009.gguf" for another number.
std::filesystem::path sibling(const std::filesystem::path& first, std::uint64_t number, std::uint64_t count) {
  auto padded = [](std::uint64_t n) {
    std::string digits = std::to_string(n);
    return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
  };
  std::string name = first.filename().string();
  std::string tail = "-" + padded(1) + "-of-" + padded(count) + ".gguf";
  if (!name.ends_with(tail)) {
    throw Error(ErrorCode::corrupt, "this is part 1 of " + std::to_string(count) +
                                        " of a split model, but its name does not end in " + tail);
  }
  name.replace(name.size() - tail.size(), tail.size(), "-" + padded(number) + "-of-" + padded(count) + ".gguf");
  return first.parent_path() / name;
}

std::vector<Part> read_parts(const Input& input, const OpenOptions& options) {
  std::vector<Part> parts;
  parts.push_back({input.file, read_gguf_header(*input.file, options)});
  const std::vector<GgufValue>& values = parts[0].header.values;
  std::uint64_t count = number_of(values, kSplitCount);
  if (count <= 1) return parts;
  if (std::uint64_t number = number_of(values, kSplitNumber); number > 0) {
    if (options.report != nullptr) {
      options.report->warnings.push_back("this is part " + std::to_string(number + 1) + " of " + std::to_string(count) +
                                         " of a split model; open the first one for all of it");
    }
    return parts;
  }
  if (count > kMaxGgufSplits) throw Error(ErrorCode::corrupt, "split.count is " + std::to_string(count));
  for (std::uint64_t i = 2; i <= count; ++i) {
    std::filesystem::path path = sibling(input.path, i, count);
    core::with_context(path.string(), [&] {
      SourcePtr file = open_part(path.parent_path(), path.filename(), options, "the first part");
      GgufHeader header = read_gguf_header(*file, options);
      bool fits = number_of(header.values, kSplitNumber) == i - 1 && number_of(header.values, kSplitCount) == count;
      if (!fits) throw Error(ErrorCode::corrupt, "this is not part " + std::to_string(i) + " of the split model");
      parts.push_back({std::move(file), std::move(header)});
    });
  }
  return parts;
}

void require_complete(const std::vector<Part>& parts, std::size_t tensors) {
  std::uint64_t promised = number_of(parts[0].header.values, kSplitTensors);
  if (parts.size() == 1 || promised == 0 || promised == tensors) return;
  throw Error(ErrorCode::corrupt, "the parts hold " + core::format_count(tensors) + " tensors where " +
                                      core::format_count(promised) + " were promised");
}

bool is_split_key(std::string_view key) {
  return key == kSplitNumber || key == kSplitCount || key == kSplitTensors;
}

void require_distinct(const Dict& dict) {
  std::vector<std::string_view> names;
  for (const auto& item : dict.items) names.push_back(item.first.as_text());
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw Error(ErrorCode::corrupt, "the tensor " + core::quote(*twice) + " is in two parts of the split model");
}

/// Whether the tensors are to be written as they lie in the file.
bool may_edit(const std::vector<Part>& parts) {
  return parts.size() == 1 && !parts[0].header.big_endian && !parts[0].header.trailing;
}

/// `dict`: the tensors of that part.
GgufInPlace in_place_of(const Part& part, const Dict& dict) {
  GgufInPlace out{.file = part.file, .tensors = part.header.tensors, .sources = {}};
  for (const auto& [name, value] : dict.items) out.sources.push_back(value.as_entry().bytes);
  return out;
}

}  // namespace

Checkpoint read_gguf(const Input& input, const OpenOptions& options) {
  std::vector<Part> parts = read_parts(input, options);
  Dict dict;
  for (const Part& part : parts) {
    for (const GgufTensor& tensor : part.header.tensors) {
      dict.items.emplace_back(Value::text(tensor.name),
                              Value::tensor(make_entry(tensor, part.file, part.header.big_endian)));
    }
  }
  require_complete(parts, dict.items.size());
  if (parts.size() > 1) require_distinct(dict);
  auto detail = std::make_shared<GgufDetail>();
  Checkpoint checkpoint;
  if (may_edit(parts)) detail->in_place = in_place_of(parts[0], dict);
  for (GgufValue& value : parts[0].header.values) {
    if (is_slack(value) || (parts.size() > 1 && is_split_key(value.key))) continue;
    checkpoint.metadata.emplace_back(value.key, metadata_text(value));
    detail->values.push_back(std::move(value));
  }
  checkpoint.root = Value::dict(std::move(dict));
  checkpoint.detail = std::move(detail);
  return checkpoint;
}

VerifyResult verify_gguf(const Input& input, const OpenOptions& options, const Progress& progress) {
  return verify_by_reading(read_gguf(input, options).root, progress);
}

}  // namespace ckpt::detail

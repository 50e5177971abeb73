#include "libckpt/format/safetensors/header.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "libckpt/format/corrupt.h"
#include "libckpt/format/safetensors/item.h"
#include "libckpt/format/safetensors/plain_header.h"
#include "libckpt/io/header_values.h"
#include "libckpt/io/json.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

/// Something that only lenient reading lets pass.
void relax(const OpenOptions& options, const std::string& what) {
  if (!options.lenient) corrupt(what);
  if (options.report != nullptr) options.report->relaxations.push_back(what);
}

std::string tensor_subject(std::string_view name) {
  return "tensor " + core::quote(name);
}

std::uint64_t header_length(const ByteSource& file, const OpenOptions& options) {
  if (file.size() < kLengthBytes)
    corrupt("the file is cut off: it is only " + core::format_size(file.size()) + " long");
  std::array<std::byte, kLengthBytes> bytes{};
  file.read(0, bytes);
  auto length = core::load_le<std::uint64_t>(bytes.data());
  if (length > options.limits.max_safetensors_header) {
    throw Error(ErrorCode::refused, "the header is " + core::format_count(length) + " bytes long where " +
                                        core::format_count(options.limits.max_safetensors_header) + " are allowed");
  }
  if (length > file.size() - kLengthBytes) {
    corrupt("the file is cut off: it ends at byte " + core::format_count(file.size()) +
            " where the header alone needs " + core::format_count(length + kLengthBytes));
  }
  return length;
}

/// What stands before and behind the JSON: nothing before, spaces only behind.
void check_padding(std::string_view text, const OpenOptions& options) {
  constexpr std::string_view kBlank = " \t\r\n";
  std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) corrupt("the header is empty");
  if (first > 0) relax(options, "the header begins with white space where '{' was expected");
  std::string_view padding = text.substr(text.find_last_not_of(kBlank) + 1);
  if (padding.find_first_not_of(' ') != std::string_view::npos) {
    relax(options, "the header is padded with other characters than spaces");
  }
}

std::uint64_t read_count(const JsonView& node, const char* what) {
  if (!node.is_count()) corrupt(std::string(what) + " is not a whole number from 0 to 2^63-1");
  return node.as_unsigned();
}

core::Shape read_shape(const JsonView& node, const OpenOptions& options) {
  if (!node.is(JsonView::Kind::array)) corrupt("its shape is not a list");
  core::Shape shape;
  for (const JsonView& size : node.items()) {
    shape.push_back(static_cast<std::int64_t>(read_count(size, "a size of its shape")));
  }
  if (shape.size() > options.limits.max_rank) {
    throw Error(ErrorCode::refused, "it has " + std::to_string(shape.size()) + " dimensions where " +
                                        std::to_string(options.limits.max_rank) + " are allowed");
  }
  return shape;
}

DType read_dtype(const JsonView& node) {
  if (!node.is(JsonView::Kind::text)) corrupt("its dtype is not text");
  if (std::optional<DType> dtype = safetensors_dtype(node.as_text())) return *dtype;
  throw Error(ErrorCode::unsupported, "its dtype " + core::quote(node.as_text()) + " is unknown");
}

/// The fields of a tensor, looked through once.
struct ItemFields {
  std::optional<JsonView> dtype, shape, offsets;
};

ItemFields item_fields(std::string_view name, const JsonView& node, const OpenOptions& options) {
  ItemFields fields;
  for (const auto& [key, value] : node.members()) {
    if (key == "dtype") {
      fields.dtype = value;
    } else if (key == "shape") {
      fields.shape = value;
    } else if (key == "data_offsets") {
      fields.offsets = value;
    } else if (options.report != nullptr) {
      options.report->warnings.push_back(tensor_subject(name) + " has the unknown field " + core::quote(key));
    }
  }
  return fields;
}

SafetensorsItem read_item(std::string_view name, const JsonView& node, const OpenOptions& options) {
  if (!node.is(JsonView::Kind::object)) corrupt("its entry is not an object");
  const ItemFields fields = item_fields(name, node, options);
  // at() says that it is missing.
  auto field = [&](const std::optional<JsonView>& found, const char* key) { return found ? *found : node.at(key); };
  SafetensorsItem item;
  item.name = name;
  item.dtype = read_dtype(field(fields.dtype, "dtype"));
  item.shape = read_shape(field(fields.shape, "shape"), options);
  const JsonView pair = field(fields.offsets, "data_offsets");
  std::vector<JsonView> offsets = pair.is(JsonView::Kind::array) ? pair.items() : std::vector<JsonView>();
  if (offsets.size() != 2) corrupt("its data_offsets are not a pair");
  item.begin = read_count(offsets[0], "the begin of its data");
  item.end = read_count(offsets[1], "the end of its data");
  require_sound(item);
  return item;
}

/// Every byte of the data belongs to exactly one tensor.
void check_layout(const SafetensorsHeader& header, std::uint64_t data_size, const OpenOptions& options) {
  std::vector<const SafetensorsItem*> sorted;
  sorted.reserve(header.items.size());
  for (const SafetensorsItem& item : header.items) sorted.push_back(&item);
  auto earlier = [](const auto* a, const auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); };
  if (!std::is_sorted(sorted.begin(), sorted.end(), earlier)) std::stable_sort(sorted.begin(), sorted.end(), earlier);
  std::uint64_t end = 0;
  for (const SafetensorsItem* item : sorted) {
    if (item->end > data_size) {
      corrupt("the file is cut off: it holds " + core::format_count(data_size) + " bytes of data where " +
              tensor_subject(item->name) + " ends at " + core::format_count(item->end));
    }
    if (item->begin != end) {
      relax(options, tensor_subject(item->name) + " begins at byte " + core::format_count(item->begin) +
                         " of the data where " + core::format_count(end) + " was expected: " +
                         (item->begin > end ? "there is a hole before it" : "it overlaps another tensor"));
    }
    end = std::max(end, item->end);
  }
  if (end != data_size) {
    relax(options, "the last tensor ends at byte " + core::format_count(end) + " of the data, but " +
                       core::format_count(data_size) + " bytes are there");
  }
}

void check_limits(const JsonDocument& json, const OpenOptions& options) {
  if (!json.root().is(JsonView::Kind::object)) corrupt("the header is not a JSON object");
  const Limits& limits = options.limits;
  auto members = json.root().members();
  if (members.size() > limits.max_tensors + 1) {
    throw Error(ErrorCode::refused, "the file has " + core::format_count(members.size()) + " tensors where " +
                                        core::format_count(limits.max_tensors) + " are allowed");
  }
  for (const auto& [name, node] : members) {
    if (name.size() <= limits.max_name) continue;
    throw Error(ErrorCode::refused, "a tensor has a name of " + core::format_count(name.size()) + " bytes where " +
                                        core::format_count(limits.max_name) + " are allowed");
  }
}

}  // namespace

void read_json_header(SafetensorsHeader& header, const OpenOptions& options) {
  check_header_values(header.text, options.limits);
  JsonDocument json = JsonDocument::parse(
      header.text,
      {.max_depth = options.limits.max_json_depth_header, .what = "the JSON header", .offset = kLengthBytes});
  check_limits(json, options);
  std::vector<JsonSpan> spans = json.member_spans();
  const auto members = json.root().members();
  header.items.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& [name, node] = members[i];
    TextSpan text{spans[i].begin, spans[i].end};
    if (name == kMetadataKey) {
      header.metadata = read_metadata(node);
      header.metadata_text = text;
      continue;
    }
    try {
      header.items.push_back(read_item(name, node, options));
    } catch (Error& error) {  // with_context() would build the subject of every tensor
      error.add_context(tensor_subject(name));
      throw;
    }
    header.items.back().text = text;
  }
}

TextPairs read_metadata(const JsonView& node) {
  TextPairs pairs;
  if (node.is(JsonView::Kind::null)) return pairs;
  if (!node.is(JsonView::Kind::object)) corrupt("'__metadata__' is not an object");
  for (const auto& [key, value] : node.members()) {
    if (!value.is(JsonView::Kind::text)) {
      corrupt("'__metadata__' has the value of " + core::quote(key) + " that is not text");
    }
    pairs.emplace_back(key, value.as_text());
  }
  return pairs;
}

SafetensorsHeader read_safetensors_header(const ByteSource& file, const OpenOptions& options) {
  std::uint64_t length = header_length(file, options);
  SafetensorsHeader header;
  header.text.resize(length);
  file.read(kLengthBytes, std::as_writable_bytes(std::span(header.text)));
  check_padding(header.text, options);
  if (!read_plain_header(header, options.limits)) read_json_header(header, options);
  check_layout(header, file.size() - header.data_offset(), options);
  return header;
}

}  // namespace ckpt::detail

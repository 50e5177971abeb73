#include "libckpt/format/parts/parts_index.h"

#include <set>

#include "libckpt/format/corrupt.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

void write_shape(JsonWriter& json, const core::Shape& shape) {
  json.begin_array();
  for (std::int64_t n : shape) json.value(n);
  json.end_array();
}

void write_item(JsonWriter& json, const IndexedItem& item) {
  json.begin_object();
  json.key("name").value(item.name);
  json.key("path").begin_array();
  for (const PathStep& step : item.path) {
    const auto* text = std::get_if<std::string>(&step);
    text != nullptr ? json.value(*text) : json.value(std::get<std::int64_t>(step));
  }
  json.end_array();
  if (!item.is_tensor) {
    json.key("part").value(static_cast<std::uint64_t>(item.part)).end_object();
    return;
  }
  json.key("dtype").value(core::name(item.dtype));
  json.key("shape");
  write_shape(json, item.shape);
  if (item.requires_grad) json.key("requires_grad").value(true);
  json.key("boxes").begin_array();
  for (const IndexedBox& box : item.boxes) {
    json.begin_object();
    json.key("part").value(static_cast<std::uint64_t>(box.part));
    json.key("offsets");
    write_shape(json, box.box.offsets);
    json.key("sizes");
    write_shape(json, box.box.sizes);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

JsonView kind_at(const JsonView& object, std::string_view key, JsonView::Kind kind, const char* what) {
  JsonView value = object.at(key);
  if (!value.is(kind)) corrupt("its " + quote(key) + " is no " + what);
  return value;
}

std::string text_at(const JsonView& object, std::string_view key) {
  return std::string(kind_at(object, key, JsonView::Kind::text, "text").as_text());
}

std::uint64_t count_of(const JsonView& value, std::string_view key) {
  if (!value.is_count()) corrupt("its " + quote(key) + " is no count");
  return value.as_unsigned();
}

core::Shape shape_at(const JsonView& object, std::string_view key, const Limits& limits) {
  std::vector<JsonView> items = kind_at(object, key, JsonView::Kind::array, "list").items();
  if (items.size() > limits.max_rank) {
    throw Error(ErrorCode::refused, "a tensor has " + std::to_string(items.size()) + " dimensions");
  }
  core::Shape shape(items.size(), 0);
  for (std::size_t d = 0; d < items.size(); ++d) shape[d] = static_cast<std::int64_t>(count_of(items[d], key));
  return shape;
}

std::size_t part_at(const JsonView& object, const PartsIndex& index) {
  std::uint64_t part = count_of(object.at("part"), "part");
  if (part >= index.parts.size()) {
    corrupt("it is said to lie in part " + std::to_string(part) + " of " + std::to_string(index.parts.size()));
  }
  return part;
}

void check_names(const std::vector<PartFacts>& parts) {
  for (const PartFacts& part : parts) {
    bool plain = part.file.find_first_of("/\\") == std::string::npos && part.file.find('\0') == std::string::npos;
    if (plain && part.file.ends_with(".ckpt")) continue;
    throw Error(ErrorCode::refused, "it names the part " + quote(part.file) + ", which is no .ckpt file beside it");
  }
}

void read_path(const JsonView& item, IndexedItem& out) {
  for (const JsonView& step : kind_at(item, "path", JsonView::Kind::array, "list").items()) {
    if (step.is(JsonView::Kind::text)) {
      out.path.emplace_back(std::string(step.as_text()));
    } else {
      out.path.emplace_back(static_cast<std::int64_t>(count_of(step, "path")));
    }
  }
}

void read_tensor(const JsonView& item, const PartsIndex& index, const Limits& limits, IndexedItem& out) {
  std::string dtype = text_at(item, "dtype");
  std::optional<core::DType> known = core::try_parse_dtype(dtype);
  if (!known) throw Error(ErrorCode::unsupported, "it is of dtype " + quote(dtype));
  out.is_tensor = true;
  out.dtype = *known;
  out.requires_grad = item.has("requires_grad");
  out.shape = shape_at(item, "shape", limits);
  for (const JsonView& box : kind_at(item, "boxes", JsonView::Kind::array, "list").items()) {
    out.boxes.push_back({{shape_at(box, "offsets", limits), shape_at(box, "sizes", limits)}, part_at(box, index)});
  }
}

void read_items(const JsonView& root, const Limits& limits, PartsIndex& index) {
  std::vector<JsonView> items = kind_at(root, "items", JsonView::Kind::array, "list").items();
  if (items.size() > limits.max_tensors) throw Error(ErrorCode::refused, "it lists more items than allowed");
  std::set<std::string> seen;
  for (const JsonView& item : items) {
    IndexedItem out;
    out.name = text_at(item, "name");
    core::with_context(quote(out.name), [&] {
      if (!seen.insert(out.name).second) corrupt("it is listed twice");
      read_path(item, out);
      item.has("dtype") ? read_tensor(item, index, limits, out) : void(out.part = part_at(item, index));
    });
    index.items.push_back(std::move(out));
  }
}

}  // namespace

std::string encode_parts_index(const PartsIndex& index) {
  JsonWriter json(1);
  json.begin_object();
  json.key("ckpt_parts_index").value(1);
  json.key("save_id").value(index.save_id);
  write_parts(json, index.parts);
  json.key("items").begin_array();
  for (const IndexedItem& item : index.items) write_item(json, item);
  json.end_array();
  json.end_object();
  return json.take() + "\n";
}

PartsIndex read_parts_index(const ByteSource& file, const OpenOptions& options) {
  if (file.size() > options.limits.max_json_bytes) {
    throw Error(ErrorCode::refused, "the index holds " + core::format_size(file.size()));
  }
  JsonDocument json = JsonDocument::parse(read_all(file), {.max_depth = 8, .what = "the index"});
  if (count_of(json.root().at("ckpt_parts_index"), "ckpt_parts_index") != 1) {
    throw Error(ErrorCode::unsupported, "the index is of a later version of this library");
  }
  PartsIndex index;
  index.save_id = text_at(json.root(), "save_id");
  index.parts = read_parts(json.root());
  check_names(index.parts);
  read_items(json.root(), options.limits, index);
  return index;
}

std::string native_part_name(std::uint64_t rank) {
  std::string digits = std::to_string(rank);
  return "part-" + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits + ".ckpt";
}

bool is_file_of_parts(std::string_view name) {
  constexpr std::string_view kBegin = "part-";
  constexpr std::string_view kEnd = ".ckpt";
  if (name == kPartsIndex || (name.starts_with('.') && is_dcp_file(name))) return true;
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() < kBegin.size() + 5 + kEnd.size()) return false;
  const std::string_view digits = name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  return digits.find_first_not_of("0123456789") == digits.npos;
}

}  // namespace ckpt::detail

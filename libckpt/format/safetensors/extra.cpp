#include "libckpt/format/safetensors/extra.h"

#include <algorithm>
#include <cmath>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

bool is_plain_dict(const Dict& dict) {
  return dict.attributes.is_null() && dict.constructor_args.is_null() &&
         std::all_of(dict.items.begin(), dict.items.end(), [](const auto& item) {
           return item.first.is(Value::Kind::text) && core::is_utf8(item.first.as_text()) && is_json_value(item.second);
         });
}

void write_value(JsonWriter& out, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::boolean:
      out.value(value.as_boolean());
      break;
    case Value::Kind::integer:
      out.value(value.as_integer());
      break;
    case Value::Kind::real:
      out.value(value.as_real());
      break;
    case Value::Kind::text:
      out.value(value.as_text());
      break;
    case Value::Kind::list:
      out.begin_array();
      for (const Value& item : value.as_list()) write_value(out, item);
      out.end_array();
      break;
    case Value::Kind::dict:
      out.begin_object();
      for (const auto& [key, item] : value.as_dict().items) write_value(out.key(key.as_text()), item);
      out.end_object();
      break;
    default:
      out.null();
  }
}

Value read_value(const JsonView& node, const char* dict_type) {
  switch (node.kind()) {
    case JsonView::Kind::boolean:
      return Value::boolean(node.as_boolean());
    case JsonView::Kind::integer:
      return Value::integer(node.as_integer());
    case JsonView::Kind::real:
    case JsonView::Kind::unsigned_integer:
      return Value::real(node.as_real());
    case JsonView::Kind::text:
      return Value::text(std::string(node.as_text()));
    case JsonView::Kind::array: {
      Value::List items;
      for (const JsonView& item : node.items()) items.push_back(read_value(item, "dict"));
      return Value::list(std::move(items));
    }
    case JsonView::Kind::object: {
      Dict dict;
      dict.type = dict_type;
      for (const auto& [key, item] : node.members()) {
        dict.items.emplace_back(Value::text(std::string(key)), read_value(item, "dict"));
      }
      return Value::dict(std::move(dict));
    }
    default:
      return {};
  }
}

}  // namespace

bool is_json_value(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::null:
    case Value::Kind::boolean:
    case Value::Kind::integer:
      return true;
    case Value::Kind::real:
      return std::isfinite(value.as_real());
    case Value::Kind::text:
      return core::is_utf8(value.as_text());
    case Value::Kind::list:
      return std::all_of(value.as_list().begin(), value.as_list().end(), is_json_value);
    case Value::Kind::dict:
      return is_plain_dict(value.as_dict());
    default:
      return false;
  }
}

std::string extra_json(const Extra& extra) {
  JsonWriter out;
  out.begin_object();
  if (!extra.module_metadata.is_null()) write_value(out.key("_metadata"), extra.module_metadata);
  if (!extra.attributes.empty()) {
    out.key("attributes").begin_object();
    for (const auto& [name, value] : extra.attributes) write_value(out.key(name), value);
    out.end_object();
  }
  if (!extra.tied.empty()) {
    out.key("tied").begin_object();
    for (const auto& [dropped, kept] : extra.tied) out.key(dropped).value(kept);
    out.end_object();
  }
  out.end_object();
  return out.take();
}

std::optional<Extra> parse_extra(std::string_view json) {
  try {
    JsonDocument document = JsonDocument::parse(json);
    if (!document.root().is(JsonView::Kind::object)) return std::nullopt;
    Extra extra;
    for (const auto& [part, node] : document.root().members()) {
      if (!node.is(JsonView::Kind::object)) return std::nullopt;
      if (part == "_metadata") extra.module_metadata = read_value(node, "collections.OrderedDict");
      for (const auto& [name, value] : node.members()) {
        if (part == "attributes") extra.attributes.emplace_back(name, read_value(value, "dict"));
        if (part == "tied" && value.is(JsonView::Kind::text)) extra.tied.emplace_back(name, value.as_text());
      }
    }
    return extra;
  } catch (const core::Error&) {
    return std::nullopt;
  }
}

}  // namespace ckpt::detail

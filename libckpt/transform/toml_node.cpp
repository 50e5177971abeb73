#include "libckpt/transform/toml_node.h"

#include "libcore/base/error.h"

namespace {

[[noreturn]] void throw_malformed() {
  throw core::Error(core::ErrorCode::corrupt, "the text is no TOML");
}

}  // namespace

// toml++ takes for granted what some malformed texts do not keep to ("[!a]"): its assertions must hold in every build,
// and as an error of the text.
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : throw_malformed())
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "libckpt/io/json.h"

namespace ckpt::detail {
namespace {

using Kind = TextNode::Kind;

// Both readers bound how deep a text may nest, so these may recurse.
TextNode node_of(const toml::node& from) {
  TextNode out;
  if (const auto* text = from.as_string()) {
    out.kind = Kind::text;
    out.text = text->get();
  } else if (const auto* integer = from.as_integer()) {
    out.kind = Kind::integer;
    out.integer = integer->get();
  } else if (const auto* list = from.as_array()) {
    out.kind = Kind::list;
    for (const toml::node& item : *list) out.items.push_back(node_of(item));
  } else if (const auto* table = from.as_table()) {
    out.kind = Kind::table;
    for (const auto& [key, value] : *table) out.members.emplace_back(std::string(key.str()), node_of(value));
  }
  return out;
}

TextNode node_of(const JsonView& from) {
  TextNode out;
  if (from.is(JsonView::Kind::text)) {
    out.kind = Kind::text;
    out.text = from.as_text();
  } else if (from.is(JsonView::Kind::integer)) {
    out.kind = Kind::integer;
    out.integer = from.as_integer();
  } else if (from.is(JsonView::Kind::array)) {
    out.kind = Kind::list;
    for (const JsonView& item : from.items()) out.items.push_back(node_of(item));
  } else if (from.is(JsonView::Kind::object)) {
    out.kind = Kind::table;
    for (const auto& [key, value] : from.members()) out.members.emplace_back(std::string(key), node_of(value));
  }
  return out;
}

}  // namespace

const TextNode* TextNode::find(std::string_view key) const {
  for (const auto& [name, node] : members) {
    if (name == key) return &node;
  }
  return nullptr;
}

TextNode parse_toml_node(std::string_view text) {
  try {
    return node_of(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw core::Error(core::ErrorCode::corrupt, "line " + std::to_string(error.source().begin.line) +
                                                    " is no TOML: " + std::string(error.description()));
  }
}

TextNode parse_json_node(std::string_view text) {
  JsonDocument json = JsonDocument::parse(text, {.what = "the rules"});
  return node_of(json.root());
}

}  // namespace ckpt::detail

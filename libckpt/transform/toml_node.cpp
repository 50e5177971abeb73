#include "libckpt/transform/toml_node.h"

#include <algorithm>

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

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Where the string or comment that begins at `at` ends; `at` itself when none begins there. A string of one line ends
/// with its line at the latest; a quote inside a word ("0\"a") begins none.
std::size_t end_of_plain_text(std::string_view text, std::size_t at) {
  const char opening = text[at];
  if (opening == '#') return std::min(text.find('\n', at), text.size());
  if (opening != '"' && opening != '\'') return at;
  if (at > 0 && std::string_view(" \t\r\n=[{,.").find(text[at - 1]) == std::string_view::npos) return at;
  const std::string_view three = text.substr(at, 3);
  if (three.size() == 3 && three[1] == opening && three[2] == opening) return at;
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\n' || text[i] == opening) return i + 1;
    if (text[i] == '\\' && opening == '"') ++i;
  }
  return text.size();
}

/// toml++ 3.3 runs into undefined behaviour where it looks for white space and finds some letters outside ASCII ("Τ").
/// TOML allows such letters in strings and comments alone; strings of several lines it searches for white space, too.
void check_letters(std::string_view text) {
  std::size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < text.size()) {
    const std::size_t end = end_of_plain_text(text, at);
    if (end > at) {
      at = end;
      continue;
    }
    if (static_cast<unsigned char>(text[at]) >= 0x80) {
      const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      throw core::Error(core::ErrorCode::corrupt,
                        "line " + std::to_string(line) +
                            " is no TOML: letters outside ASCII may stand in comments and in strings of one line");
    }
    ++at;
  }
}

}  // namespace

TextNode parse_toml_node(std::string_view text) {
  check_letters(text);
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

#include "libckpt/transform/toml_node.h"

#include <algorithm>
#include <charconv>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace {

[[noreturn]] void throw_malformed() {
  throw core::Error(core::ErrorCode::corrupt, "the text is not TOML");
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

using TextNodeKind = TextNode::Kind;

/// toml++ 3.3 runs into undefined behaviour where it looks for white space and finds some letters outside ASCII, so it
/// sees none: each of their bytes stands as a word that the text does not have, and is put back into what was parsed.
class AsciiCover {
 public:
  explicit AsciiCover(std::string_view text) {
    std::size_t longest = 0, run = 0;
    for (char c : text) longest = std::max(longest, run = c == '_' ? run + 1 : 0);
    word_ = "u" + std::string(longest + 1, '_') + "u";
    constexpr char kDigits[] = "0123456789abcdef";
    for (char c : text.substr(text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0)) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80) {
        text_ += c;
      } else {
        text_ += word_;
        text_ += {kDigits[byte >> 4], kDigits[byte & 15]};
      }
    }
  }
  const std::string& text() const { return text_; }
  std::string lifted(std::string_view covered) const {
    std::string out;
    for (std::size_t at = 0;;) {
      const std::size_t word = covered.find(word_, at);
      out += covered.substr(at, word - at);
      if (word == std::string_view::npos || covered.size() - word < word_.size() + 2) return out;
      unsigned byte = 0;
      std::from_chars(covered.data() + word + word_.size(), covered.data() + word + word_.size() + 2, byte, 16);
      out += static_cast<char>(byte);
      at = word + word_.size() + 2;
    }
  }

 private:
  static constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string word_;
  std::string text_;
};

// Both readers bound how deep a text may nest, so these may recurse.
TextNode node_of(const toml::node& from, const AsciiCover& cover) {
  TextNode out;
  if (const auto* text = from.as_string()) {
    out.kind = TextNodeKind::text;
    out.text = cover.lifted(text->get());
  } else if (const auto* integer = from.as_integer()) {
    out.kind = TextNodeKind::integer;
    out.integer = integer->get();
  } else if (const auto* real = from.as_floating_point()) {
    out.kind = TextNodeKind::real;
    out.real = real->get();
  } else if (const auto* boolean = from.as_boolean()) {
    out.kind = TextNodeKind::boolean;
    out.integer = boolean->get() ? 1 : 0;
  } else if (const auto* list = from.as_array()) {
    out.kind = TextNodeKind::list;
    for (const toml::node& item : *list) out.items.push_back(node_of(item, cover));
  } else if (const auto* table = from.as_table()) {
    out.kind = TextNodeKind::table;
    for (const auto& [key, value] : *table) {
      out.members.emplace_back(cover.lifted(key.str()), node_of(value, cover));
    }
  }
  return out;
}

TextNode node_of(const JsonView& from) {
  TextNode out;
  if (from.is(JsonView::Kind::text)) {
    out.kind = TextNodeKind::text;
    out.text = from.as_text();
  } else if (from.is(JsonView::Kind::integer)) {
    out.kind = TextNodeKind::integer;
    out.integer = from.as_integer();
  } else if (from.is(JsonView::Kind::real)) {
    out.kind = TextNodeKind::real;
    out.real = from.as_real();
  } else if (from.is(JsonView::Kind::boolean)) {
    out.kind = TextNodeKind::boolean;
    out.integer = from.as_boolean() ? 1 : 0;
  } else if (from.is(JsonView::Kind::array)) {
    out.kind = TextNodeKind::list;
    for (const JsonView& item : from.items()) out.items.push_back(node_of(item));
  } else if (from.is(JsonView::Kind::object)) {
    out.kind = TextNodeKind::table;
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
  if (!core::is_utf8(text)) throw core::Error(core::ErrorCode::corrupt, "the text is not TOML: it is not UTF-8");
  const AsciiCover cover(text);
  try {
    return node_of(toml::parse(cover.text()), cover);
  } catch (const toml::parse_error& error) {
    throw core::Error(core::ErrorCode::corrupt, "line " + std::to_string(error.source().begin.line) +
                                                    " is not TOML: " + cover.lifted(error.description()));
  }
}

TextNode parse_json_node(std::string_view text) {
  JsonDocument json = JsonDocument::parse(text, {.what = "the rules"});
  return node_of(json.root());
}

}  // namespace ckpt::detail

#pragma once
// A small tree that TOML and JSON texts become alike, for files that people write by hand. Internal.
// Thread safety: plain value. Use: TextNode root = parse_toml_node(text); if (root.find("rule")) ...

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ckpt::detail {

struct TextNode {
  enum class Kind : std::uint8_t { other, text, integer, real, boolean, list, table };
  Kind kind = Kind::other;
  std::string text = {};
  std::int64_t integer = 0;  ///< of a boolean: 0 or 1
  double real = 0;
  std::vector<TextNode> items = {};
  std::vector<std::pair<std::string, TextNode>> members = {};  ///< of a TOML table in the order of their names

  const TextNode* find(std::string_view key) const;
};

/// Both: a table at the top. Errors: Error(corrupt) naming the line for text that is none.
TextNode parse_toml_node(std::string_view text);
TextNode parse_json_node(std::string_view text);

}  // namespace ckpt::detail

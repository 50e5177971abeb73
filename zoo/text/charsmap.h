#pragma once
// The table of replacements that SentencePiece compiles into its models: a trie of texts (a double array of Darts) and
// the texts that they become. Thread safety: immutable. Use: Charsmap map(bytes); map.apply("ﬁ") == "fi";

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zoo::text {

class Charsmap {
 public:
  /// Error(corrupt) for a table that leads out of itself.
  explicit Charsmap(std::string_view bytes);
  /// As the `tokenizers` package does it: clusters of less than six bytes whole, else character by character.
  std::string apply(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement_of(std::string_view part) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

/// Error(corrupt) for what is no base64.
std::string from_base64(std::string_view text);

}  // namespace zoo::text

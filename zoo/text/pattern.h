#pragma once
// What a tokenizer looks for in a text: a fixed text or a regular expression (PCRE2, in the meaning that Oniguruma
// gives to the classes). Thread safety: immutable. Use: auto spans = zoo::text::Pattern::regex("\\s+").find_in("a b");

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zoo::text {

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool matches = false;
};

class Pattern {
 public:
  /// Error(unsupported) for what is no regular expression, or means something else to PCRE2 than to Oniguruma.
  static Pattern regex(std::string_view expression);
  static Pattern literal(std::string_view text);

  /// Spans that cover the text: what matches, and what lies between. Error(refused) when looking takes too long.
  std::vector<Span> find_in(std::string_view text) const;
  /// Every match replaced by `by`.
  std::string replace_in(std::string_view text, std::string_view by) const;

 private:
  struct Code;
  std::vector<Span> matches_in(std::string_view text) const;

  std::string literal_;
  std::shared_ptr<const Code> code_;  ///< null: a fixed text
};

}  // namespace zoo::text

#pragma once
// Pattern and Template: which keys, and what they become. A pattern is a glob (glob.h) or, behind "re:", a regular
// expression (RE2 syntax, of the whole key); what it captures is put into a template.
//   glob       '*' and '**' capture any characters, dots too, as few as fit; '{name}' captures one component or a part
//              of one (no dot), '{#i}' a number; '?' and '[a-z]' match without capturing; '\' takes the next as it is
//   template   '*' is the next capture of a '*'; '{name}' and '{#i}' what was captured under that name, '{i+1}',
//              '{i-1}', '{i*2}', '{i/2}' (any chain, from left to right) a number counted on; '$1' or '\1' and '${1}'
//              the capture of that number; '\' takes any other character as it is
// Thread safety: immutable once parsed. Use: auto p = ckpt::Pattern::parse("enc.{#i}.*"); auto c =
// p.match("enc.3.weight"); std::string to = ckpt::Template::parse("blocks.{i+1}.*", p).expand(*c);

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ckpt {

/// What a match captured, from left to right.
using Captures = std::vector<std::string>;

class Pattern {
 public:
  /// Error(usage) naming what is wrong: a bad expression, an open '{'. A name that stands there
  /// twice must capture the same both times.
  static Pattern parse(std::string_view text);

  bool matches(std::string_view key) const;
  /// Nothing when the key does not match.
  std::optional<Captures> match(std::string_view key) const;

  const std::string& text() const;
  /// True for a pattern without anything special: it means one key, which name() is.
  bool is_name() const;
  const std::string& name() const;
  bool is_regex() const;
  /// One a capture: its name, "*" for a star, "" for a nameless group of a regular expression.
  const std::vector<std::string>& capture_names() const;
  /// Which captures may be counted with: "{#i}", and every group of a regular expression.
  const std::vector<bool>& number_captures() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

class Template {
 public:
  /// A new name for what `pattern` matches. Error(usage) for a capture that the pattern does not have.
  static Template parse(std::string_view text, const Pattern& pattern);

  /// Error(value) when a number cannot be counted on: '{i/2}' of 3 is 1, but '{i-1}' of 0 is none.
  std::string expand(const Captures& captures) const;
  const std::string& text() const { return text_; }

 private:
  struct Step {
    char op;
    std::int64_t number;
  };
  struct Part {
    std::string literal;
    std::size_t capture = 0;  ///< used when `steps` or `is_capture` say so
    bool is_capture = false;
    std::vector<Step> steps;
  };
  friend struct TemplateParser;
  friend struct TemplateReverser;
  std::string counted(const Part& part, const std::string& capture) const;

  std::string text_;
  std::vector<Part> parts_;
};

/// Pattern and template with their parts exchanged, so that what the first pair renamed goes back: "a.*.b" -> "c.*"
/// gives "c.*" -> "a.*.b". Nothing where that cannot be done: regular expressions, '?' and sets, a capture that is
/// dropped, '{i/2}'.
struct ReversedPattern {
  std::string pattern;
  std::string replacement;
};
std::optional<ReversedPattern> reverse_pattern(std::string_view pattern, std::string_view replacement);

/// `name` with a '\' before everything that a pattern or template would take as special.
std::string escape_pattern(std::string_view name);

}  // namespace ckpt

// Template of pattern.h: new names from captures, and pairs of pattern and template turned round.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "libckpt/transform/glob_parts.h"
#include "libckpt/transform/pattern.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {

using core::Error;
using core::ErrorCode;

struct TemplateParser {
  std::string_view text;
  const Pattern& pattern;
  std::size_t at = 0;
  std::size_t star = 0;  ///< captures before this one were used by a '*'
  std::vector<Template::Part> parts = {};

  [[noreturn]] void bad(const std::string& what) const {
    throw Error(ErrorCode::usage,
                "the new name " + core::quote(text) + " " + what + " of the pattern " + core::quote(pattern.text()));
  }

  void run() {
    while (at < text.size()) step();
  }

  void step() {
    char c = text[at];
    char next = at + 1 < text.size() ? text[at + 1] : '\0';
    bool digit = next >= '0' && next <= '9';
    if ((c == '\\' || c == '$') && digit) {
      add_capture(number_at(at + 1));
    } else if (c == '$' && next == '{') {
      ++at;
      add_braces();
    } else if (c == '\\' && next != '\0') {
      add_literal(next);
      at += 2;
    } else if (c == '*' && !pattern.is_regex()) {
      while (at < text.size() && text[at] == '*') ++at;
      add_star();
    } else if (c == '{') {
      add_braces();
    } else {
      add_literal(c);
      ++at;
    }
  }

  void add_literal(char c) {
    if (parts.empty() || parts.back().is_capture) parts.push_back({});
    parts.back().literal += c;
  }

  /// The number at `begin`; `at` goes behind it.
  std::size_t number_at(std::size_t begin) {
    std::size_t number = 0;
    auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
    at = static_cast<std::size_t>(end - text.data());
    return error == std::errc() ? number : SIZE_MAX;
  }

  void add_capture(std::size_t number) {
    if (number == 0 || number > pattern.capture_names().size()) {
      bad("uses capture " + std::to_string(number) + " but there are " +
          std::to_string(pattern.capture_names().size()));
    }
    parts.push_back({"", number - 1, true, {}});
  }

  void add_star() {
    const std::vector<std::string>& names = pattern.capture_names();
    while (star < names.size() && names[star] != "*") ++star;
    if (star == names.size()) bad("has more '*' than there are in the name");
    parts.push_back({"", star++, true, {}});
  }

  /// "{name}", "{#name}", "{name+1}", "{1}" and so on.
  void add_braces() {
    std::size_t end = text.find('}', at);
    if (end == std::string_view::npos) bad("has a '{' without its '}', beside what is");
    std::string_view inside = text.substr(at + 1, end - at - 1);
    if (inside.starts_with('#')) inside.remove_prefix(1);
    std::size_t op = std::min(inside.find_first_of("+-*/"), inside.size());
    parts.push_back({"", capture_named(inside.substr(0, op)), true, {}});
    add_steps(inside.substr(op));
    at = end + 1;
  }

  std::size_t capture_named(std::string_view name) const {
    const std::vector<std::string>& names = pattern.capture_names();
    auto known = std::find(names.begin(), names.end(), name);
    if (known != names.end() && !name.empty()) return static_cast<std::size_t>(known - names.begin());
    std::size_t number = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    bool is_number = error == std::errc() && end == name.data() + name.size();
    if (!is_number || number == 0 || number > names.size())
      bad("uses {" + std::string(name) + "}, which is not a capture");
    return number - 1;
  }

  void add_steps(std::string_view steps) {
    if (!steps.empty() && !pattern.number_captures()[parts.back().capture]) {
      bad("counts with a capture that is not a number; write {#name} in the name");
    }
    while (!steps.empty()) {
      std::int64_t number = 0;
      auto [end, error] = std::from_chars(steps.data() + 1, steps.data() + steps.size(), number);
      if (error != std::errc() || number <= 0 || number > 1'000'000) bad("has a bad count in '{...}', beside what is");
      parts.back().steps.push_back({steps[0], number});
      steps.remove_prefix(static_cast<std::size_t>(end - steps.data()));
      if (!steps.empty() && std::string_view("+-*/").find(steps[0]) == std::string_view::npos) {
        bad("has a bad count in '{...}', beside what is");
      }
    }
  }
};

Template Template::parse(std::string_view text, const Pattern& pattern) {
  if (text.empty()) throw Error(ErrorCode::usage, "the new name of " + core::quote(pattern.text()) + " is empty");
  TemplateParser parser{text, pattern};
  parser.run();
  Template out;
  out.text_ = text;
  out.parts_ = std::move(parser.parts);
  return out;
}

std::string Template::counted(const Part& part, const std::string& capture) const {
  if (part.steps.empty()) return capture;
  std::int64_t number = 0;
  auto [end, error] = std::from_chars(capture.data(), capture.data() + capture.size(), number);
  bool valid = error == std::errc() && end == capture.data() + capture.size();
  for (const Step& step : part.steps) {
    if (!valid) break;
    std::optional<std::int64_t> next = number / step.number;
    if (step.op == '+') next = core::try_add(number, step.number);
    if (step.op == '-') next = number - step.number;
    if (step.op == '*') next = core::try_mul(number, step.number);
    valid = next && *next >= 0;
    number = next.value_or(0);
  }
  if (!valid) {
    throw Error(ErrorCode::value,
                "the new name " + core::quote(text_) + " cannot count on from " + core::quote(capture));
  }
  return std::to_string(number);
}

std::string Template::expand(const Captures& captures) const {
  std::string out;
  for (const Part& part : parts_) out += part.is_capture ? counted(part, captures[part.capture]) : part.literal;
  return out;
}

/// Turns a pair round: the template's parts become the pattern, the pattern's parts the template.
struct TemplateReverser {
  const Pattern& pattern;
  const Template& replacement;
  std::map<std::string, std::string> fields = {};  ///< name -> its text in the new template: "{i-1}"
  std::map<std::size_t, std::size_t> stars = {};   ///< old capture -> number of the new one
  std::size_t captures = 0;

  std::optional<std::string> make_pattern() {
    std::string out;
    for (const Template::Part& part : replacement.parts_) {
      if (!part.is_capture) {
        out += escape_pattern(part.literal);
        continue;
      }
      ++captures;
      const std::string& name = pattern.capture_names()[part.capture];
      if (name.empty() || !note(part, name)) return std::nullopt;
      bool number = pattern.number_captures()[part.capture];
      out += name == "*" ? "*" : (number ? "{#" : "{") + name + "}";
    }
    return out;
  }

  /// False when the same capture stands there twice in different ways, or cannot be counted back.
  bool note(const Template::Part& part, const std::string& name) {
    if (name == "*") return stars.emplace(part.capture, captures).second;
    std::string text = "{" + name;
    for (std::size_t i = part.steps.size(); i-- > 0;) {
      const Template::Step& step = part.steps[i];
      if (step.op != '+' && step.op != '-') return false;
      text += (step.op == '+' ? "-" : "+") + std::to_string(step.number);
    }
    return fields.emplace(name, text + "}").first->second == text + "}";
  }

  bool stars_in_order() const {
    return std::is_sorted(stars.begin(), stars.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  }

  std::optional<std::string> make_template() const {
    std::string out;
    std::size_t capture = 0;
    for (const detail::GlobPart& part : detail::parse_glob(pattern.text())) {
      using Kind = detail::GlobPart::Kind;
      if (part.kind == Kind::one || part.kind == Kind::set) return std::nullopt;
      if (part.kind == Kind::literal) out += escape_pattern(part.text);
      if (part.kind == Kind::star) {
        auto known = stars.find(capture);
        if (known == stars.end()) return std::nullopt;
        out += stars_in_order() ? "*" : "${" + std::to_string(known->second) + "}";
      }
      if (part.kind == Kind::field) {
        auto known = fields.find(part.text);
        if (known == fields.end()) return std::nullopt;
        out += known->second;
      }
      capture += part.kind == Kind::star || part.kind == Kind::field ? 1 : 0;
    }
    return out;
  }
};

std::optional<ReversedPattern> reverse_pattern(std::string_view pattern, std::string_view replacement) {
  Pattern from = Pattern::parse(pattern);
  Template to = Template::parse(replacement, from);
  if (from.is_regex()) return std::nullopt;
  TemplateReverser reverser{from, to};
  std::optional<std::string> new_pattern = reverser.make_pattern();
  std::optional<std::string> new_template = new_pattern ? reverser.make_template() : std::nullopt;
  if (!new_template) return std::nullopt;
  return ReversedPattern{std::move(*new_pattern), std::move(*new_template)};
}

}  // namespace ckpt

#include "libckpt/transform/pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "libckpt/transform/glob.h"
#include "libckpt/transform/glob_parts.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::GlobPart;

constexpr std::string_view kRegex = "re:";
constexpr std::int64_t kProgramBytes = 8 << 20;  // RE2's bound for a compiled expression and its caches

[[noreturn]] void throw_bad_pattern(std::string_view text, const std::string& what) {
  throw Error(ErrorCode::usage, "the pattern " + core::quote(text) + " " + what);
}

std::string hex_escape(char c) {
  static constexpr char kDigits[] = "0123456789abcdef";
  auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15U]};
}

/// "[!a-z]" as a class of a regular expression, with every character escaped.
std::string class_of(std::string_view set) {
  bool negated = set[1] == '!';
  std::string out = negated ? "[^" : "[";
  for (std::size_t i = negated ? 2 : 1; i + 1 < set.size(); ++i) {
    out += hex_escape(set[i]);
    bool range = set[i + 1] == '-' && i + 3 < set.size();
    if (!range) continue;
    if (set[i] > set[i + 2]) throw_bad_pattern(set, "has a range that runs backwards");
    out += "-" + hex_escape(set[i + 2]);
    i += 2;
  }
  return out + "]";
}

std::string regex_of(const std::vector<GlobPart>& parts) {
  std::string out;
  for (const GlobPart& part : parts) {
    switch (part.kind) {
      case GlobPart::Kind::literal:
        out += RE2::QuoteMeta(part.text);
        break;
      case GlobPart::Kind::star:
        out += "(.*?)";
        break;
      case GlobPart::Kind::one:
        out += ".";
        break;
      case GlobPart::Kind::set:
        out += class_of(part.text);
        break;
      case GlobPart::Kind::field:
        out += part.number ? "([0-9]+)" : "([^.]+)";
        break;
    }
  }
  return out;
}

RE2::Options regex_options(bool utf8) {
  RE2::Options options;
  options.set_encoding(utf8 ? RE2::Options::EncodingUTF8 : RE2::Options::EncodingLatin1);
  options.set_dot_nl(true);
  options.set_log_errors(false);
  options.set_max_mem(kProgramBytes);
  return options;
}

}  // namespace

struct Pattern::State {
  std::string text;
  std::string name;
  bool is_name = false;
  bool is_regex = false;
  bool plain_glob = false;  ///< glob_match() knows all of it
  std::vector<std::string> captures;
  std::vector<bool> numbers;
  std::vector<std::pair<std::size_t, std::size_t>> same;  ///< captures of one name
  std::string expression;
  mutable std::once_flag once;
  mutable std::unique_ptr<RE2> compiled;

  const RE2& regex() const {
    std::call_once(once, [this] { compiled = std::make_unique<RE2>(expression, regex_options(is_regex)); });
    return *compiled;
  }

  void add_capture(const std::string& capture, bool number) {
    auto known = std::find(captures.begin(), captures.end(), capture);
    if (known != captures.end() && capture != "*" && !capture.empty()) {
      same.emplace_back(static_cast<std::size_t>(known - captures.begin()), captures.size());
    }
    captures.push_back(capture);
    numbers.push_back(number);
  }

  void set_glob() {
    std::vector<GlobPart> parts = detail::parse_glob(text);
    is_name = std::all_of(parts.begin(), parts.end(),
                          [](const GlobPart& part) { return part.kind == GlobPart::Kind::literal; });
    plain_glob = true;
    for (const GlobPart& part : parts) {
      if (part.kind == GlobPart::Kind::literal) name += part.text;
      if (part.kind == GlobPart::Kind::star) add_capture("*", false);
      if (part.kind == GlobPart::Kind::field) add_capture(part.text, part.number);
      plain_glob &= part.kind != GlobPart::Kind::field;
    }
    if (!is_name) expression = regex_of(parts);
  }

  void set_regex() {
    is_regex = true;
    expression = text.substr(kRegex.size());
    const RE2& re = regex();
    if (!re.ok()) throw_bad_pattern(text, "is not a regular expression: " + re.error());
    captures.resize(static_cast<std::size_t>(re.NumberOfCapturingGroups()));
    numbers.resize(captures.size(), true);
    for (const auto& [index, group] : re.CapturingGroupNames()) {
      captures[static_cast<std::size_t>(index) - 1] = group;
    }
  }
};

Pattern Pattern::parse(std::string_view text) {
  auto state = std::make_shared<State>();
  state->text = text;
  if (text.empty()) throw Error(ErrorCode::usage, "the pattern is empty");
  if (text.starts_with(kRegex)) {
    state->set_regex();
  } else {
    state->set_glob();
  }
  Pattern out;
  out.state_ = std::move(state);
  return out;
}

bool Pattern::matches(std::string_view key) const {
  if (state_->is_name) return key == state_->name;
  if (state_->plain_glob) return glob_match(state_->text, key);
  if (!state_->same.empty()) return match(key).has_value();
  return RE2::FullMatch({key.data(), key.size()}, state_->regex());
}

std::optional<Captures> Pattern::match(std::string_view key) const {
  if (state_->is_name) return key == state_->name ? std::optional(Captures()) : std::nullopt;
  std::vector<re2::StringPiece> groups(state_->captures.size() + 1);
  re2::StringPiece text(key.data(), key.size());
  bool found =
      state_->regex().Match(text, 0, key.size(), RE2::ANCHOR_BOTH, groups.data(), static_cast<int>(groups.size()));
  if (!found) return std::nullopt;
  for (const auto& [first, second] : state_->same) {
    if (groups[first + 1] != groups[second + 1]) return std::nullopt;
  }
  Captures out;
  for (std::size_t i = 1; i < groups.size(); ++i) out.emplace_back(groups[i].data(), groups[i].size());
  return out;
}

const std::string& Pattern::text() const {
  return state_->text;
}

bool Pattern::is_name() const {
  return state_->is_name;
}

const std::string& Pattern::name() const {
  return state_->name;
}

bool Pattern::is_regex() const {
  return state_->is_regex;
}

const std::vector<std::string>& Pattern::capture_names() const {
  return state_->captures;
}

const std::vector<bool>& Pattern::number_captures() const {
  return state_->numbers;
}

std::string escape_pattern(std::string_view name) {
  std::string out;
  if (name.starts_with(kRegex)) out += '\\';
  for (char c : name) {
    if (std::string_view("*?[\\{$").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace ckpt

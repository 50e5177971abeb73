#include "zoo/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace zoo::text {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint32_t kMostSteps = 10'000'000;
constexpr std::uint32_t kMostKilobytes = 256 << 10;
constexpr std::size_t kLongestText = 16 << 20;

Error not_here(std::string_view expression, const std::string& why) {
  return Error(ErrorCode::unsupported, "the regular expression " + core::quote(expression) + " " + why);
}

// What \w is to Oniguruma: of the numbers that are no digits, those of Latin-1 too.
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

/// The classes \w and \s have other members in PCRE2 than in Oniguruma; these say the same in both.
std::string_view same_class(char letter, bool in_set) {
  switch (letter) {
    case 's':
      return "\\p{White_Space}";
    case 'S':
      return "\\P{White_Space}";
    case 'w':
      return in_set ? WORD : "[" WORD "]";
    case 'W':
      return in_set ? "" : "[^" WORD "]";
    default:
      return "";
  }
}

std::string in_words_of_pcre2(std::string_view expression) {
  std::string out;
  int sets = 0;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char letter = expression[++i];
      const std::string_view same = same_class(letter, sets > 0);
      constexpr std::string_view kOther = "bBhHRXKGAzZkgWQEC";
      if (same.empty() && kOther.find(letter) != std::string_view::npos) {
        throw not_here(expression, std::string("has a \\") + letter + ", which is not here");
      }
      out += same.empty() ? std::string{c, letter} : std::string(same);
      continue;
    }
    if (c == '[' && sets > 0) {  // a set in a set: its members are members of the outer one
      const char behind = i + 1 < expression.size() ? expression[i + 1] : ']';
      if (behind == '^' || behind == ':') throw not_here(expression, "has a set in a set, which is not here");
      ++sets;
      continue;
    }
    if (c == ']' && sets > 1) {
      --sets;
      continue;
    }
    if (c == '&' && sets > 0 && expression.substr(i).substr(0, 2) == "&&") {
      throw not_here(expression, "has an intersection of sets, which is not here");
    }
    if (c == '[' && sets == 0) ++sets;
    if (c == ']' && sets > 0) --sets;
    if (c == '+' && sets == 0 && !out.empty() && out.back() == '}') {
      // After a name of a class, "one or more"; after a count, something else to each of the two.
      const std::size_t open = out.rfind('{');
      const bool name = open != std::string::npos && open >= 2 && (out[open - 1] == 'p' || out[open - 1] == 'P');
      if (!name) throw not_here(expression, "has a '+' after a count, which is not here");
    }
    out += c;
  }
  return out;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Pattern::Code {
  std::string expression;
  std::unique_ptr<pcre2_code, FreeCode> code;
};

Pattern Pattern::regex(std::string_view expression) {
  const std::string ours = in_words_of_pcre2(expression);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto code = std::make_shared<Code>();
  code->expression = expression;
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(ours.data()), ours.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &at, nullptr));
  if (!code->code) {
    PCRE2_UCHAR said[200] = {};
    pcre2_get_error_message(error, said, sizeof said);
    throw not_here(expression, "cannot be read: " + std::string(reinterpret_cast<const char*>(said)));
  }
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);  // where there is none, it is slower
  Pattern pattern;
  pattern.code_ = std::move(code);
  return pattern;
}

Pattern Pattern::literal(std::string_view text) {
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

std::vector<Span> Pattern::matches_in(std::string_view text) const {
  std::vector<Span> found;
  if (code_ == nullptr) {
    if (literal_.empty()) return found;
    for (std::size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, found.back().end)) {
      found.push_back({at, at + literal_.size(), true});
    }
    return found;
  }
  const std::unique_ptr<pcre2_match_data, FreeData> data(
      pcre2_match_data_create_from_pattern(code_->code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMostSteps);
  pcre2_set_heap_limit(context.get(), kMostKilobytes);
  std::size_t at = 0;
  while (at <= text.size()) {
    const int rc = pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                               PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0)
      throw Error(ErrorCode::refused, "looking for " + core::quote(code_->expression) + " in the text takes too long");
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
    if (ends[1] < ends[0] || ends[1] < at) break;  // a look-behind that moved the beginning
    if (ends[1] > ends[0]) found.push_back({ends[0], ends[1], true});
    at = ends[1];
    if (ends[1] == ends[0]) {  // an empty match: on by one character
      do ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
    }
  }
  return found;
}

std::vector<Span> Pattern::find_in(std::string_view text) const {
  std::vector<Span> spans;
  std::size_t at = 0;
  for (const Span& match : matches_in(text)) {
    if (match.begin > at) spans.push_back({at, match.begin, false});
    spans.push_back(match);
    at = match.end;
  }
  if (at < text.size()) spans.push_back({at, text.size(), false});
  return spans;
}

std::string Pattern::replace_in(std::string_view text, std::string_view by) const {
  std::string out;
  for (const Span& span : find_in(text)) {
    out += span.matches ? by : text.substr(span.begin, span.end - span.begin);
    if (out.size() > kLongestText) throw Error(ErrorCode::refused, "replacements make the text longer than 16 MiB");
  }
  return out;
}

}  // namespace zoo::text

#include "libckpt/transform/glob.h"

namespace ckpt {
namespace {

/// Length of the set "[...]" at the head of `pattern`, 0 when it is not closed (then '[' is an ordinary character).
std::size_t set_length(std::string_view pattern) {
  std::size_t first = pattern.size() > 1 && pattern[1] == '!' ? 2 : 1;
  std::size_t end = pattern.find(']', first + 1);
  return end == std::string_view::npos ? 0 : end + 1;
}

bool in_set(std::string_view set, char c) {
  bool negated = set[1] == '!';
  bool found = false;
  for (std::size_t i = negated ? 2 : 1; i + 1 < set.size(); ++i) {
    if (set[i + 1] == '-' && i + 3 < set.size()) {
      found |= set[i] <= c && c <= set[i + 2];
      i += 2;
    } else {
      found |= set[i] == c;
    }
  }
  return found != negated;
}

/// Pattern characters that the first one of `text` uses up, 0 when it does not match. Not for '*'.
std::size_t match_one(std::string_view pattern, char c) {
  if (pattern.empty()) return 0;
  if (pattern[0] == '?') return 1;
  if (pattern[0] == '\\' && pattern.size() > 1) return pattern[1] == c ? 2 : 0;
  std::size_t set = pattern[0] == '[' ? set_length(pattern) : 0;
  if (set > 0) return in_set(pattern.substr(0, set), c) ? set : 0;
  return pattern[0] == c ? 1 : 0;
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // behind the last '*' seen; a mismatch gives it one more character
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
    } else if (std::size_t used = match_one(pattern.substr(p), text[t])) {
      p += used;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace ckpt

#include "libckpt/run/step_name.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "libckpt/format/format.h"

namespace ckpt::detail {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Digits of a name, from `begin` to `end`.
struct Digits {
  std::size_t begin = 0;
  std::size_t end = 0;
};

std::vector<Digits> digits_in(std::string_view name) {
  std::vector<Digits> all;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!is_digit(name[i])) continue;
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    all.push_back({i, end});
    i = end;
  }
  return all;
}

/// Part of "0.25".
bool has_point(std::string_view name, Digits digits) {
  bool before = digits.begin >= 2 && name[digits.begin - 1] == '.' && is_digit(name[digits.begin - 2]);
  bool behind = digits.end + 1 < name.size() && name[digits.end] == '.' && is_digit(name[digits.end + 1]);
  return before || behind;
}

/// True when the letters before the number, apart from "=", "_" and the like, are a word for how far training got.
bool has_counting_word(std::string_view name, Digits digits) {
  constexpr std::array<std::string_view, 13> kWords = {"epoch",      "epochs", "ep",   "step",      "steps",
                                                       "iter",       "iters",  "it",   "iteration", "update",
                                                       "checkpoint", "ckpt",   "round"};
  std::size_t end = digits.begin;
  while (end > 0 && std::string_view("=_-. ").find(name[end - 1]) != std::string_view::npos) --end;
  std::size_t begin = end;
  while (begin > 0 && is_letter(name[begin - 1])) --begin;
  std::string word(name.substr(begin, end - begin));
  std::transform(word.begin(), word.end(), word.begin(), lower);
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

std::optional<std::int64_t> number_of(std::string_view name, Digits digits) {
  std::int64_t number = 0;
  auto [at, error] = std::from_chars(name.data() + digits.begin, name.data() + digits.end, number);
  if (error != std::errc()) return {};
  return number;
}

/// `name` with '*' in place of the given parts.
std::string with_stars(std::string_view name, const std::vector<Digits>& parts) {
  std::string out;
  std::size_t at = 0;
  for (const Digits& part : parts) {
    out += std::string(name.substr(at, part.begin - at)) + "*";
    at = part.end;
  }
  return out + std::string(name.substr(at));
}

}  // namespace

std::string_view without_extension(std::string_view name) {
  std::size_t longest = 0;
  for (const Format* format : formats()) {
    for (std::string_view extension : format->extensions) {
      bool ends =
          name.size() >= extension.size() &&
          std::equal(extension.begin(), extension.end(), name.end() - static_cast<std::ptrdiff_t>(extension.size()),
                     [](char a, char b) { return a == lower(b); });
      if (ends) longest = std::max(longest, extension.size());
    }
  }
  return name.substr(0, name.size() - longest);
}

std::optional<StepName> read_step_name(std::string_view name) {
  std::string_view stem = without_extension(name);
  std::vector<Digits> with_word, whole, starred;
  for (const Digits& digits : digits_in(stem)) {
    bool letter_behind = digits.end < stem.size() && is_letter(stem[digits.end]);
    if (has_point(stem, digits)) {
      starred.push_back(digits);
    } else if (!letter_behind) {
      whole.push_back(digits);
      if (has_counting_word(stem, digits)) with_word.push_back(digits);
    }
  }
  if (whole.empty()) return {};
  StepName read;
  read.has_word = !with_word.empty();
  std::vector<Digits> counting = read.has_word ? with_word : std::vector<Digits>{whole.back()};
  for (const Digits& digits : counting) {
    std::optional<std::int64_t> number = number_of(stem, digits);
    if (!number) return {};
    read.counters.push_back(*number);
    starred.push_back(digits);
  }
  std::sort(starred.begin(), starred.end(), [](const Digits& a, const Digits& b) { return a.begin < b.begin; });
  read.family = with_stars(stem, starred);
  return read;
}

}  // namespace ckpt::detail

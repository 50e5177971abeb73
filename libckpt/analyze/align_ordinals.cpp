#include "libckpt/analyze/align_ordinals.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <numeric>

namespace ckpt::detail {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Runs of digits, of letters, and single other characters.
std::vector<std::string_view> tokens_of(std::string_view name) {
  std::vector<std::string_view> out;
  auto kind = [](char c) { return is_digit(c) ? 1 : std::isalpha(static_cast<unsigned char>(c)) != 0 ? 2 : 0; };
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at + 1;
    while (end < name.size() && kind(name[at]) != 0 && kind(name[end]) == kind(name[at])) ++end;
    out.push_back(name.substr(at, end - at));
    at = end;
  }
  return out;
}

struct Ordinal {
  int family;  ///< only those of one can be compared
  std::int64_t place;
};

std::optional<Ordinal> ordinal_of(std::string_view token) {
  struct Word {
    std::string_view text;
    Ordinal ordinal;
  };
  static constexpr std::array<Word, 7> kWords = {{{"before", {1, 0}},
                                                  {"after", {1, 1}},
                                                  {"pre", {2, 0}},
                                                  {"post", {2, 1}},
                                                  {"first", {3, 0}},
                                                  {"second", {3, 1}},
                                                  {"third", {3, 2}}}};
  if (is_digit(token[0])) {
    std::int64_t number = 0;
    auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
    if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
    return Ordinal{0, number};
  }
  for (const Word& word : kWords) {
    if (word.text == token) return word.ordinal;
  }
  return std::nullopt;
}

/// Names in the order in which they are counted, and at which of the counters each differs first from the one before.
struct Counted {
  std::vector<std::size_t> order;
  std::vector<std::size_t> steps;
  std::size_t counters = 0;
};

std::optional<Counted> counted(const std::vector<std::string_view>& names) {
  std::vector<std::vector<std::string_view>> tokens;
  for (std::string_view name : names) {
    tokens.push_back(tokens_of(name));
    if (tokens.back().size() != tokens[0].size()) return std::nullopt;
  }
  std::vector<std::vector<std::int64_t>> places(names.size());
  for (std::size_t t = 0; t < tokens[0].size(); ++t) {
    bool same = std::all_of(tokens.begin(), tokens.end(), [&](const auto& name) { return name[t] == tokens[0][t]; });
    if (same) continue;
    std::optional<Ordinal> first = ordinal_of(tokens[0][t]);
    for (std::size_t n = 0; n < names.size(); ++n) {
      std::optional<Ordinal> ordinal = ordinal_of(tokens[n][t]);
      if (!first || !ordinal || ordinal->family != first->family) return std::nullopt;
      places[n].push_back(ordinal->place);
    }
  }
  Counted out;
  out.counters = places[0].size();
  out.order.resize(names.size());
  std::iota(out.order.begin(), out.order.end(), std::size_t{0});
  std::sort(out.order.begin(), out.order.end(), [&](std::size_t x, std::size_t y) { return places[x] < places[y]; });
  for (std::size_t n = 1; n < names.size(); ++n) {
    const auto& before = places[out.order[n - 1]];
    const auto& now = places[out.order[n]];
    std::size_t step =
        static_cast<std::size_t>(std::mismatch(before.begin(), before.end(), now.begin()).first - before.begin());
    if (step == before.size()) return std::nullopt;  // "a.01" and "a.1"
    out.steps.push_back(step);
  }
  return out;
}

}  // namespace

std::string without_numbers(std::string_view name) {
  std::string out;
  for (std::string_view token : tokens_of(name)) out += is_digit(token[0]) ? std::string_view("#") : token;
  return out;
}

std::string_view module_of(std::string_view name) {
  std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view last_of(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

std::optional<IndexPairs> zip_by_order(const std::vector<std::string_view>& from,
                                       const std::vector<std::string_view>& to) {
  if (from.size() != to.size() || from.size() < 2) return std::nullopt;
  std::optional<Counted> a = counted(from);
  std::optional<Counted> b = counted(to);
  if (!a || !b || a->counters != b->counters || a->steps != b->steps) return std::nullopt;
  IndexPairs out;
  for (std::size_t n = 0; n < from.size(); ++n) out.emplace_back(a->order[n], b->order[n]);
  return out;
}

}  // namespace ckpt::detail

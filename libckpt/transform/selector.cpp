#include "libckpt/transform/selector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "libckpt/transform/glob.h"
#include "libckpt/transform/pattern.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using Test = std::function<bool(std::string_view, const Entry&)>;

enum class Compare : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };

struct Predicate {
  std::string text;  ///< as it was written
  std::string field;
  Compare compare = Compare::equal;
  std::string value;
};

[[noreturn]] void throw_bad_selector(const std::string& part, const std::string& what) {
  throw Error(ErrorCode::usage, "the selector " + core::quote(part) + " " + what);
}

/// Parts between blanks; '\ ' is a blank that stays.
std::vector<std::string> split_parts(std::string_view text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      if (text[i + 1] != ' ') parts.back() += '\\';
      parts.back() += text[++i];
    } else if (text[i] == ' ' || text[i] == '\t') {
      if (!parts.back().empty()) parts.emplace_back();
    } else {
      parts.back() += text[i];
    }
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

Predicate parse_predicate(const std::string& part) {
  std::size_t op = part.find_first_of("=!<>");
  if (op == std::string::npos) throw_bad_selector(part, "has no comparison such as =, != or >");
  Predicate out{part, part.substr(1, op - 1), Compare::equal, ""};
  bool wide = op + 1 < part.size() && part[op + 1] == '=';
  if (part[op] == '!' && !wide) throw_bad_selector(part, "has no comparison such as =, != or >");
  if (part[op] == '!') out.compare = Compare::not_equal;
  if (part[op] == '<') out.compare = wide ? Compare::less_equal : Compare::less;
  if (part[op] == '>') out.compare = wide ? Compare::greater_equal : Compare::greater;
  out.value = part.substr(op + (wide ? 2 : 1));
  if (out.value.empty()) throw_bad_selector(part, "compares with nothing");
  return out;
}

bool holds(Compare compare, std::uint64_t a, std::uint64_t b) {
  switch (compare) {
    case Compare::equal:
      return a == b;
    case Compare::not_equal:
      return a != b;
    case Compare::less:
      return a < b;
    case Compare::less_equal:
      return a <= b;
    case Compare::greater:
      return a > b;
    case Compare::greater_equal:
      return a >= b;
  }
  return false;
}

/// True for "=", false for "!="; nothing else makes sense for names.
bool wants_equal(const Predicate& p) {
  if (p.compare == Compare::equal || p.compare == Compare::not_equal) return p.compare == Compare::equal;
  throw_bad_selector(p.text, "compares sizes where only = and != make sense");
}

/// "1000000", "1M", "2.5k": powers of 1,000.
std::uint64_t parse_count(const Predicate& p) {
  char* end = nullptr;
  double number = std::strtod(p.value.c_str(), &end);
  std::string unit = end;
  std::size_t power = unit.empty() ? 0 : std::string_view("kMGTK").find(unit[0]) + 1;
  if (power == 5) power = 1;
  bool valid = end != p.value.c_str() && std::isfinite(number) && number >= 0 && unit.size() <= 1 && power <= 4;
  double value = valid ? number * std::pow(1000.0, static_cast<double>(power)) : 0;
  if (!valid || value > 9e18) throw_bad_selector(p.text, "needs a count such as 1000, 1M or 2.5G");
  return static_cast<std::uint64_t>(value);
}

Test dtype_test(const Predicate& p) {
  std::vector<core::DType> wanted;
  for (std::string_view part : core::split(p.value, '|')) {
    std::optional<core::DType> dtype = core::try_parse_dtype(part);
    if (!dtype) throw_bad_selector(p.text, "needs a dtype such as f32, bf16 or int64");
    wanted.push_back(*dtype);
  }
  bool equal = wants_equal(p);
  return [=](std::string_view, const Entry& e) {
    return (std::find(wanted.begin(), wanted.end(), e.dtype) != wanted.end()) == equal;
  };
}

Test kind_test(const Predicate& p) {
  if (p.value != "buffer" && p.value != "parameter") throw_bad_selector(p.text, "needs buffer or parameter");
  TensorKind wanted = p.value == "buffer" ? TensorKind::buffer : TensorKind::parameter;
  bool equal = wants_equal(p);
  return [=](std::string_view key, const Entry& e) { return (tensor_kind(key, e) == wanted) == equal; };
}

Test location_test(const Predicate& p) {
  bool equal = wants_equal(p);
  return [equal, value = p.value](std::string_view, const Entry& e) { return glob_match(value, e.location) == equal; };
}

Test shape_test(const Predicate& p) {
  std::vector<std::optional<std::int64_t>> sizes;
  std::string_view shape = p.value == "scalar" ? std::string_view() : std::string_view(p.value);
  for (std::string_view part : core::split(shape, 'x')) {
    bool number = !part.empty() && part.size() < 19 &&
                  std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number && part != "*" && p.value != "scalar")
      throw_bad_selector(p.text, "needs a shape such as 768x3072, 768x* or scalar");
    if (p.value != "scalar") sizes.push_back(number ? std::optional(std::stoll(std::string(part))) : std::nullopt);
  }
  bool equal = wants_equal(p);
  return [=](std::string_view, const Entry& e) {
    bool same = e.shape.size() == sizes.size();
    for (std::size_t d = 0; same && d < sizes.size(); ++d) same = !sizes[d] || *sizes[d] == e.shape[d];
    return same == equal;
  };
}

Test make_test(const Predicate& p) {
  Compare compare = p.compare;
  if (p.field == "dtype") return dtype_test(p);
  if (p.field == "kind") return kind_test(p);
  if (p.field == "location") return location_test(p);
  if (p.field == "shape") return shape_test(p);
  if (p.field == "numel") {
    return [=, count = parse_count(p)](std::string_view, const Entry& e) { return holds(compare, e.numel(), count); };
  }
  if (p.field == "ndim") {
    return
        [=, count = parse_count(p)](std::string_view, const Entry& e) { return holds(compare, e.shape.size(), count); };
  }
  if (p.field == "bytes") {
    std::optional<std::uint64_t> size = core::try_parse_size(p.value);
    if (!size) throw_bad_selector(p.text, "needs a size such as 512, 1MiB or 4GB");
    return [=](std::string_view, const Entry& e) { return holds(compare, e.byte_size(), *size); };
  }
  throw_bad_selector(p.text, "has an unknown name; use dtype, numel, ndim, shape, bytes, kind or location");
}

constexpr std::array<std::string_view, 12> kBufferNames = {"running_mean",
                                                           "running_var",
                                                           "num_batches_tracked",
                                                           "position_ids",
                                                           "token_type_ids",
                                                           "inv_freq",
                                                           "attn_mask",
                                                           "masked_bias",
                                                           "anchor_points",
                                                           "n_averaged",
                                                           "relative_position_index",
                                                           "relative_coords_table"};

}  // namespace

struct Selector::State {
  std::string text;
  std::vector<Pattern> patterns;
  std::vector<Test> tests;

  bool tests_hold(std::string_view key, const Entry& entry) const {
    return std::all_of(tests.begin(), tests.end(), [&](const Test& test) { return test(key, entry); });
  }
  /// The pattern matches the key, or something above it.
  static bool reaches(const Pattern& pattern, std::string_view key) {
    if (pattern.matches(key)) return true;
    for (std::size_t dot = key.rfind('.'); dot != std::string_view::npos && dot > 0; dot = key.rfind('.', dot - 1)) {
      if (pattern.matches(key.substr(0, dot))) return true;
    }
    return false;
  }
  bool all_reach(std::string_view key) const {
    return std::all_of(patterns.begin(), patterns.end(), [&](const Pattern& p) { return reaches(p, key); });
  }
};

Selector Selector::parse(std::string_view text) {
  auto state = std::make_shared<State>();
  state->text = text;
  for (const std::string& part : split_parts(text)) {
    if (part[0] == '@') {
      state->tests.push_back(make_test(parse_predicate(part)));
    } else {
      state->patterns.push_back(Pattern::parse(part));
    }
  }
  if (state->patterns.empty() && state->tests.empty()) throw Error(ErrorCode::usage, "the selector is empty");
  Selector out;
  out.state_ = std::move(state);
  return out;
}

bool Selector::matches(std::string_view key, const Entry& entry) const {
  bool named = std::all_of(state_->patterns.begin(), state_->patterns.end(),
                           [&](const Pattern& pattern) { return pattern.matches(key); });
  return named && state_->tests_hold(key, entry);
}

bool Selector::covers(std::string_view key, const Entry& entry) const {
  return state_->all_reach(key) && state_->tests_hold(key, entry);
}

bool Selector::covers_value(std::string_view key) const {
  return state_->tests.empty() && state_->all_reach(key);
}

const std::string& Selector::text() const {
  return state_->text;
}

SelectionMatcher::SelectionMatcher(const Selection& selection) {
  for (const std::string& text : selection.include) include_.push_back(Selector::parse(text));
  for (const std::string& text : selection.exclude) exclude_.push_back(Selector::parse(text));
}

bool SelectionMatcher::contains(std::string_view key, const Entry& entry) const {
  auto covers = [&](const Selector& selector) { return selector.covers(key, entry); };
  bool included = include_.empty() || std::any_of(include_.begin(), include_.end(), covers);
  return included && std::none_of(exclude_.begin(), exclude_.end(), covers);
}

bool SelectionMatcher::contains_value(std::string_view key) const {
  auto covers = [&](const Selector& selector) { return selector.covers_value(key); };
  bool included = include_.empty() || std::any_of(include_.begin(), include_.end(), covers);
  return included && std::none_of(exclude_.begin(), exclude_.end(), covers);
}

std::vector<std::string> SelectionMatcher::unmatched(const std::vector<NamedEntry>& entries) const {
  std::vector<std::string> out;
  for (const std::vector<Selector>* side : {&include_, &exclude_}) {
    for (const Selector& selector : *side) {
      bool used = std::any_of(entries.begin(), entries.end(),
                              [&](const NamedEntry& e) { return selector.covers(e.name, *e.entry); });
      if (!used) out.push_back(selector.text());
    }
  }
  return out;
}

TensorKind tensor_kind(std::string_view key, const Entry& entry) {
  if (entry.parameter || entry.requires_grad) return TensorKind::parameter;
  std::string_view last = key.substr(key.rfind('.') + 1);  // npos + 1 is 0
  bool named = std::find(kBufferNames.begin(), kBufferNames.end(), last) != kBufferNames.end();
  bool real = core::is_floating(entry.dtype) || core::is_complex(entry.dtype) || core::is_quantized(entry.dtype) ||
              entry.blocks.has_value();
  return named || !real ? TensorKind::buffer : TensorKind::parameter;
}

}  // namespace ckpt

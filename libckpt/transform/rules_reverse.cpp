// Rules in words, and turned round.

#include <algorithm>

#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/pattern.h"
#include "libckpt/transform/rules.h"
#include "libcore/base/error.h"
#include "libcore/base/shape.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using RuleKind = Rule::Kind;

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(core::quote(name));
  return core::join(quoted, ", ");
}

[[noreturn]] void throw_one_way(const std::string& why) {
  throw Error(ErrorCode::unsupported, "cannot be reversed: " + why);
}

/// The order of dimensions that undoes `dims`.
std::vector<std::int64_t> inverse_order(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> out(dims.size(), -1);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] < 0 || static_cast<std::size_t>(dims[d]) >= dims.size())
      throw_one_way("dims is not an order of dimensions");
    out[static_cast<std::size_t>(dims[d])] = static_cast<std::int64_t>(d);
  }
  return out;
}

Rule reversed_rename(const Rule& rule) {
  Rule out = rule;
  for (auto& [from, to] : out.names) {
    std::optional<ReversedPattern> turned = reverse_pattern(from, to);
    if (!turned) throw_one_way("what " + core::quote(from) + " matched does not follow from " + core::quote(to));
    from = turned->pattern;
    to = turned->replacement;
  }
  return out;
}

/// split <-> fuse, fold <-> unfold. The captures of the first part name the whole; the other parts must follow from
/// that one.
Rule reversed_split(const Rule& rule) {
  Rule out = rule;
  out.kind = rule.kind == RuleKind::split ? RuleKind::fuse : RuleKind::unfold;
  std::optional<ReversedPattern> first = reverse_pattern(rule.from[0], rule.to[0]);
  if (!first) throw_one_way("the whole does not follow from the first part");
  out.to = {first->replacement};
  out.from = {first->pattern};
  for (std::size_t i = 1; i < rule.to.size(); ++i) {
    std::optional<ReversedPattern> part = reverse_pattern(rule.from[0], rule.to[i]);
    bool same = part && part->replacement == first->replacement;
    if (!same) throw_one_way("part " + std::to_string(i + 1) + " does not follow from the first");
    out.from.push_back(part->pattern);
  }
  return out;
}

Rule reversed_fuse(const Rule& rule) {
  Rule out = rule;
  out.kind = rule.kind == RuleKind::fuse ? RuleKind::split : RuleKind::fold;
  std::optional<ReversedPattern> first = reverse_pattern(rule.from[0], rule.to[0]);
  if (!first) throw_one_way("the parts do not follow from the whole");
  out.from = {first->pattern};
  out.to = {first->replacement};
  Pattern source = Pattern::parse(rule.from[0]);
  Pattern whole = Pattern::parse(first->pattern);
  if (source.capture_names() != whole.capture_names()) throw_one_way("the whole has its captures in another order");
  for (std::size_t i = 1; i < rule.from.size(); ++i) {
    Template::parse(rule.from[i], whole);
    out.to.push_back(rule.from[i]);
  }
  return out;
}

Rule reversed_cast(const Rule& rule) {
  Rule out = rule;
  if (!rule.was_dtype) throw_one_way("it does not say what the type was");
  if (!is_exact_cast(*rule.was_dtype, *rule.dtype)) throw_one_way("bits are lost");
  std::swap(out.dtype, out.was_dtype);
  return out;
}

Rule reversed_rule(const Rule& rule) {
  Rule out = rule;
  switch (rule.kind) {
    case RuleKind::rename:
      return reversed_rename(rule);
    case RuleKind::transpose:
      out.dims = inverse_order(rule.dims);
      return out;
    case RuleKind::reshape:
      if (!rule.was_shape) throw_one_way("it does not say what the shape was");
      out.shape = *rule.was_shape;
      out.was_shape = rule.shape;
      return out;
    case RuleKind::split:
    case RuleKind::fold:
      return reversed_split(rule);
    case RuleKind::fuse:
    case RuleKind::unfold:
      return reversed_fuse(rule);
    case RuleKind::add:
      out.value = -rule.value;
      return out;
    case RuleKind::make:
      out.kind = RuleKind::drop;
      return out;
    case RuleKind::cast:
      return reversed_cast(rule);
    case RuleKind::drop:
      if (!rule.constant) throw_one_way("values are lost");
      out.kind = RuleKind::make;
      return out;
    case RuleKind::tie:
      throw_one_way("it does not say whether the name was there");
  }
  return out;
}

}  // namespace

std::string_view name(Rule::Kind kind) {
  switch (kind) {
    case RuleKind::rename:
      return "rename";
    case RuleKind::drop:
      return "drop";
    case RuleKind::transpose:
      return "transpose";
    case RuleKind::reshape:
      return "reshape";
    case RuleKind::split:
      return "split";
    case RuleKind::fuse:
      return "fuse";
    case RuleKind::cast:
      return "cast";
    case RuleKind::tie:
      return "tie";
    case RuleKind::add:
      return "add";
    case RuleKind::fold:
      return "fold";
    case RuleKind::unfold:
      return "unfold";
    case RuleKind::make:
      return "make";
  }
  return "?";
}

std::string_view name(Rule::By by) {
  if (by == Rule::By::add) return "add";
  return by == Rule::By::subtract ? "subtract" : "multiply";
}

std::string describe(const Rule& rule) {
  std::string kind(name(rule.kind));
  if (rule.kind == RuleKind::add) return "add " + core::python_float(rule.value) + " to " + list_of(rule.from);
  if (rule.kind == RuleKind::rename) {
    if (rule.names.size() != 1) return "rename of " + core::format_count(rule.names.size()) + " pairs";
    return "rename " + core::quote(rule.names[0].first) + " to " + core::quote(rule.names[0].second);
  }
  std::string out = kind + " " + list_of(rule.from);
  if (!rule.to.empty()) out += " to " + list_of(rule.to);
  if (!rule.dims.empty()) out += " by " + core::to_list(core::Shape(rule.dims));
  if (rule.kind == RuleKind::reshape) out += " to " + core::to_list(core::Shape(rule.shape));
  if (rule.dtype && !rule.constant) out += " to " + std::string(core::short_name(*rule.dtype));
  return out;
}

Rules reversed(const Rules& rules) {
  Rules out;
  for (std::size_t i = rules.size(); i-- > 0;) {
    std::string place = "rule " + std::to_string(i + 1) + " (" + describe(rules[i]) + ")";
    out.push_back(core::with_context(place, [&] { return reversed_rule(rules[i]); }));
  }
  return out;
}

}  // namespace ckpt

#include "libckpt/analyze/number_fit.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "libckpt/transform/pattern.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxDigits = 6;

/// A name taken apart: texts[0] numbers[0] texts[1] numbers[1] ... texts[n].
struct Numbered {
  std::vector<std::string> texts = {""};
  std::vector<std::int64_t> numbers;
};

Numbered take_apart(const std::string& name) {
  Numbered out;
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
    std::size_t digits = end - at;
    bool number = digits > 0 && digits <= kMaxDigits && (digits == 1 || name[at] != '0');
    if (number) {
      out.numbers.push_back(std::stoll(name.substr(at, digits)));
      out.texts.emplace_back();
      at = end;
    } else {
      std::size_t length = std::max<std::size_t>(digits, 1);
      out.texts.back() += name.substr(at, length);
      at += length;
    }
  }
  return out;
}

struct Item {
  Numbered from;
  std::vector<Numbered> to;
};

using Items = std::vector<const Item*>;

/// How a number of the new name follows: a constant, or (number i) op.
struct Expression {
  std::optional<std::size_t> source;
  std::int64_t factor = 1;  ///< 1, 2, or -2 for a division by two
  std::int64_t offset = 0;  ///< added behind; the value itself for a constant
};

std::int64_t scaled(std::int64_t number, std::int64_t factor) {
  return factor < 0 ? number / -factor : number * factor;
}

std::optional<Expression> find_expression(const Items& items, std::size_t target, std::size_t column) {
  auto wanted = [&](const Item* item) { return item->to[target].numbers[column]; };
  auto same = [&](const auto& value) {
    return std::all_of(items.begin(), items.end(), [&](const Item* item) { return value(item) == value(items[0]); });
  };
  if (same(wanted)) return Expression{std::nullopt, 1, wanted(items[0])};
  std::size_t sources = items[0]->from.numbers.size();
  for (std::int64_t factor : {1, -2, 2}) {
    for (std::size_t k = 0; k < sources; ++k) {
      std::size_t i = (column + k) % sources;  // the number at the same place first
      auto rest = [&](const Item* item) { return wanted(item) - scaled(item->from.numbers[i], factor); };
      if (same(rest)) return Expression{i, factor, rest(items[0])};
    }
  }
  return std::nullopt;
}

/// Names for the numbers that vary, "" for those that do not; numbers that are always equal share one.
std::vector<std::string> field_names(const Items& items) {
  std::size_t count = items[0]->from.numbers.size();
  auto number = [&](const Item* item, std::size_t i) { return item->from.numbers[i]; };
  std::vector<std::string> out;
  char next = 'i';
  for (std::size_t i = 0; i < count; ++i) {
    bool varies = std::any_of(items.begin(), items.end(),
                              [&](const Item* item) { return number(item, i) != number(items[0], i); });
    std::string name;
    for (std::size_t earlier = 0; varies && earlier < i && name.empty(); ++earlier) {
      bool equal = std::all_of(items.begin(), items.end(),
                               [&](const Item* item) { return number(item, earlier) == number(item, i); });
      if (equal) name = out[earlier];
    }
    if (varies && name.empty()) name = std::string(1, next++);
    out.push_back(name);
  }
  return out;
}

std::string expression_text(const Expression& e, const std::vector<std::string>& fields) {
  if (!e.source) return std::to_string(e.offset);
  std::string text = "{" + fields[*e.source];
  if (e.factor == 2) text += "*2";
  if (e.factor == -2) text += "/2";
  if (e.offset > 0) text += "+" + std::to_string(e.offset);
  if (e.offset < 0) text += std::to_string(e.offset);
  return text + "}";
}

/// One pattern for all items, or nothing.
std::optional<ManyNames> fit(const Items& items) {
  std::vector<std::string> fields = field_names(items);
  ManyNames out;
  const Numbered& first = items[0]->from;
  for (std::size_t i = 0; i < first.texts.size(); ++i) {
    out.from += escape_pattern(first.texts[i]);
    if (i == first.numbers.size()) break;
    out.from += fields[i].empty() ? std::to_string(first.numbers[i]) : "{#" + fields[i] + "}";
  }
  for (std::size_t t = 0; t < items[0]->to.size(); ++t) {
    const Numbered& to = items[0]->to[t];
    std::string text;
    for (std::size_t i = 0; i < to.texts.size(); ++i) {
      text += escape_pattern(to.texts[i]);
      if (i == to.numbers.size()) break;
      std::optional<Expression> expression = find_expression(items, t, i);
      if (!expression || (expression->source && fields[*expression->source].empty())) return std::nullopt;
      text += expression_text(*expression, fields);
    }
    out.to.push_back(text);
  }
  return out;
}

/// Depth: the numbers in a name, a handful.
std::vector<ManyNames> fit_or_divide(const Items& items, std::size_t levels) {
  if (std::optional<ManyNames> one = fit(items)) return {*one};
  std::vector<ManyNames> best;
  for (std::size_t i = 0; i < items[0]->from.numbers.size() && levels > 0; ++i) {
    std::map<std::int64_t, Items> parts;
    for (const Item* item : items) parts[item->from.numbers[i]].push_back(item);
    if (parts.size() < 2) continue;
    std::vector<ManyNames> rules;
    for (const auto& [number, part] : parts) {
      std::vector<ManyNames> more = fit_or_divide(part, levels - 1);
      rules.insert(rules.end(), more.begin(), more.end());
    }
    if (best.empty() || rules.size() < best.size()) best = std::move(rules);
  }
  if (!best.empty()) return best;
  for (const Item* item : items) {
    if (std::optional<ManyNames> one = fit({item})) best.push_back(*one);
  }
  return best;
}

}  // namespace

std::vector<ManyNames> fit_numbers(const std::vector<ManyNames>& names) {
  constexpr std::size_t kLevels = 4;
  std::vector<Item> items;
  for (const ManyNames& name : names) {
    Item item{take_apart(name.from), {}};
    for (const std::string& to : name.to) item.to.push_back(take_apart(to));
    items.push_back(std::move(item));
  }
  std::map<std::vector<std::vector<std::string>>, Items> groups;
  std::vector<const Items*> order;
  for (const Item& item : items) {
    std::vector<std::vector<std::string>> skeleton = {item.from.texts};
    for (const Numbered& to : item.to) skeleton.push_back(to.texts);
    auto [group, fresh] = groups.try_emplace(std::move(skeleton));
    group->second.push_back(&item);
    if (fresh) order.push_back(&group->second);
  }
  std::vector<ManyNames> out;
  for (const Items* group : order) {
    std::vector<ManyNames> rules = fit_or_divide(*group, kLevels);
    out.insert(out.end(), rules.begin(), rules.end());
  }
  return out;
}

}  // namespace ckpt::detail

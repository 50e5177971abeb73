// Rules as text: TOML and JSON in, TOML out.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <variant>

#include "libckpt/io/json.h"
#include "libckpt/transform/rule_engine.h"
#include "libckpt/transform/rules.h"
#include "libckpt/transform/toml_node.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::TextNode;
using Kind = Rule::Kind;
using NodeKind = TextNode::Kind;

constexpr std::array kRuleKinds = {Kind::rename, Kind::drop, Kind::transpose, Kind::reshape, Kind::split,  Kind::fuse,
                                   Kind::cast,   Kind::tie,  Kind::add,       Kind::fold,    Kind::unfold, Kind::make};

std::string kind_names() {
  std::vector<std::string> names;
  for (Kind kind : kRuleKinds) names.emplace_back(name(kind));
  return core::join(names, ", ");
}

[[noreturn]] void throw_bad_rules(const std::string& what) {
  throw Error(ErrorCode::usage, what);
}

/// The fields of one rule; each may be taken once, and what is left is unknown.
class Fields {
 public:
  explicit Fields(const TextNode& table) : table_(table) {
    if (table.kind != NodeKind::table) throw_bad_rules("is not a table");
  }

  bool has(std::string_view key) const { return table_.find(key) != nullptr; }
  const TextNode& take(const std::string& key) {
    const TextNode* node = table_.find(key);
    if (node == nullptr) throw_bad_rules("has no " + core::quote(key));
    taken_.insert(key);
    return *node;
  }
  std::string text(const std::string& key) {
    const TextNode& node = take(key);
    if (node.kind != NodeKind::text) throw_bad_rules("has a " + core::quote(key) + " that is not text");
    return node.text;
  }
  std::vector<std::string> texts(const std::string& key) {
    const TextNode& node = take(key);
    std::vector<std::string> out;
    for (const TextNode& item : node.items) {
      if (item.kind == NodeKind::text) out.push_back(item.text);
    }
    bool valid = node.kind == NodeKind::list && out.size() == node.items.size() && out.size() >= 2;
    if (!valid) throw_bad_rules("has a " + core::quote(key) + " that is not a list of two or more texts");
    return out;
  }
  std::vector<std::int64_t> integers(const std::string& key) {
    const TextNode& node = take(key);
    std::vector<std::int64_t> out;
    for (const TextNode& item : node.items) {
      if (item.kind == NodeKind::integer) out.push_back(item.integer);
    }
    bool valid = node.kind == NodeKind::list && out.size() == node.items.size();
    if (!valid) throw_bad_rules("has a " + core::quote(key) + " that is not a list of integers");
    return out;
  }
  /// One text, or a list of two and more.
  std::vector<std::string> text_or_texts(const std::string& key) {
    if (take(key).kind == NodeKind::text) return {text(key)};
    return texts(key);
  }
  double number(const std::string& key) {
    std::optional<double> value = number_of(take(key));
    if (!value) throw_bad_rules("has a " + core::quote(key) + " that is not a number");
    return *value;
  }
  /// A number, or a list of them.
  RuleConstant constant(const std::string& key) {
    const TextNode& node = take(key);
    if (node.kind != NodeKind::list) return {{number(key)}, true};
    RuleConstant out;
    for (const TextNode& item : node.items) {
      std::optional<double> value = number_of(item);
      if (!value) throw_bad_rules("has a " + core::quote(key) + " that is not a list of numbers");
      out.values.push_back(*value);
    }
    return out;
  }
  core::DType dtype(const std::string& key) {
    std::string name = text(key);
    std::optional<core::DType> dtype = core::try_parse_dtype(name);
    if (!dtype) throw_bad_rules("has a " + core::quote(key) + " that is not a dtype: " + core::quote(name));
    return *dtype;
  }
  void require_all_taken() const {
    for (const auto& [key, node] : table_.members) {
      if (!taken_.contains(key)) throw_bad_rules("has an unknown field " + core::quote(key));
    }
  }

 private:
  static std::optional<double> number_of(const TextNode& node) {
    if (node.kind == NodeKind::integer) {
      constexpr std::int64_t kExact = std::int64_t{1} << 53;  // beyond, doubles skip integers
      if (node.integer > kExact || node.integer < -kExact) throw_bad_rules("has a number beyond 2^53");
      return static_cast<double>(node.integer);
    }
    return node.kind == NodeKind::real && std::isfinite(node.real) ? std::optional(node.real) : std::nullopt;
  }

  const TextNode& table_;
  std::set<std::string> taken_;
};

/// Pairs of a list [["a", "b"], ...] or of a table {"a" = "b"}.
std::vector<std::pair<std::string, std::string>> pairs_of(const TextNode& node) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [from, to] : node.members) {
    if (to.kind != NodeKind::text) {
      throw Error(ErrorCode::corrupt, "the new name of " + core::quote(from) + " is not text");
    }
    out.emplace_back(from, to.text);
  }
  for (const TextNode& item : node.items) {
    bool pair = item.kind == NodeKind::list && item.items.size() == 2 && item.items[0].kind == NodeKind::text &&
                item.items[1].kind == NodeKind::text;
    if (!pair) throw_bad_rules("has a 'rename' that is not a list of pairs [\"old\", \"new\"]");
    out.emplace_back(item.items[0].text, item.items[1].text);
  }
  return out;
}

void read_rename(Fields& fields, Rule& rule) {
  const TextNode& names = fields.take("rename");
  if (names.kind == NodeKind::text) {
    rule.names.emplace_back(names.text, fields.text("to"));
  } else {
    rule.names = pairs_of(names);
  }
}

void read_cut(Fields& fields, Rule& rule) {
  if (fields.has("sizes")) rule.sizes = fields.integers("sizes");
  if (!fields.has("dim")) return;
  const TextNode& dim = fields.take("dim");
  if (dim.kind != NodeKind::integer) throw_bad_rules("has a 'dim' that is not an integer");
  rule.dim = dim.integer;
}

Rule::By read_by(Fields& fields) {
  const std::string by = fields.text("by");
  if (by == "subtract") return Rule::By::subtract;
  if (by == "multiply") return Rule::By::multiply;
  if (by == "add") return Rule::By::add;
  throw_bad_rules("has a 'by' of " + core::quote(by) + "; it is subtract, multiply or add");
}

void read_fold(Fields& fields, Rule& rule) {
  rule.from = fields.text_or_texts(std::string(name(rule.kind)));
  rule.to = fields.text_or_texts("to");
  rule.by = read_by(fields);
  const bool one = (rule.kind == Kind::fold ? rule.from : rule.to).size() == 1;
  if (!one) throw_bad_rules("has several texts where one is meant");
}

void read_constant(Fields& fields, Rule& rule) {
  const char* key = rule.kind == Kind::make ? "values" : "was";
  if (rule.kind == Kind::drop && !fields.has(key)) return;
  rule.constant = fields.constant(key);
  rule.dtype = fields.dtype("dtype");
}

void read_fields(Fields& fields, Rule& rule) {
  std::string kind(name(rule.kind));
  switch (rule.kind) {
    case Kind::rename:
      return read_rename(fields, rule);
    case Kind::split:
      rule.from = {fields.text(kind)};
      rule.to = fields.texts("to");
      return read_cut(fields, rule);
    case Kind::fold:
    case Kind::unfold:
      return read_fold(fields, rule);
    case Kind::fuse:
      rule.from = fields.texts(kind);
      rule.to = {fields.text("to")};
      return read_cut(fields, rule);
    default:
      rule.from = {fields.text(kind)};
  }
  if (rule.kind == Kind::tie) rule.to = {fields.text("to")};
  if (rule.kind == Kind::add) rule.value = fields.number("value");
  if (rule.kind == Kind::make || rule.kind == Kind::drop) read_constant(fields, rule);
  if (rule.kind == Kind::transpose && fields.has("dims")) rule.dims = fields.integers("dims");
  if (rule.kind == Kind::reshape) rule.shape = fields.integers("shape");
  if (rule.kind == Kind::reshape && fields.has("was")) rule.was_shape = fields.integers("was");
  if (rule.kind == Kind::cast) rule.dtype = fields.dtype("dtype");
  if (rule.kind == Kind::cast && fields.has("was")) rule.was_dtype = fields.dtype("was");
}

void check_rule(const Rule& rule) {
  std::size_t parts = rule.kind == Kind::split ? rule.to.size() : rule.from.size();
  if (!rule.sizes.empty() && rule.sizes.size() != parts) throw_bad_rules("has another number of sizes than of parts");
  for (std::int64_t size : rule.sizes) {
    if (size < 0) throw_bad_rules("has a negative size");
  }
  if (std::count(rule.shape.begin(), rule.shape.end(), -1) > 1) throw_bad_rules("has more than one -1 in its shape");
  for (std::int64_t size : rule.shape) {
    if (size < -1) throw_bad_rules("has a negative size in its shape");
  }
  detail::compile_rule(rule);
  if (rule.kind != Kind::drop || !rule.constant) return;
  Rule back = rule;  // drops and makes the same
  back.kind = Kind::make;
  detail::compile_rule(back);
}

Rule read_rule(const TextNode& table) {
  Fields fields(table);
  Rule rule;
  std::size_t kinds = 0;
  for (Kind kind : kRuleKinds) {
    if (!fields.has(name(kind))) continue;
    rule.kind = kind;
    ++kinds;
  }
  if (kinds != 1) {
    throw_bad_rules(std::string(kinds == 0 ? "has no action" : "has more than one action") + "; a rule has one of " +
                    kind_names());
  }
  read_fields(fields, rule);
  fields.require_all_taken();
  check_rule(rule);
  return rule;
}

void read_rules(const TextNode& list, Rules& rules) {
  if (list.kind != NodeKind::list) throw_bad_rules("the rules are not a list");
  for (const TextNode& table : list.items) {
    std::string place = "rule " + std::to_string(rules.size() + 1);
    rules.push_back(core::with_context(place, [&] { return read_rule(table); }));
  }
}

/// A character that core::printable() would not show as it is; TOML has an escape for each.
std::string toml_character(std::string_view character) {
  constexpr std::array<unsigned, 5> kLead = {0, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t code = static_cast<unsigned char>(character[0]) & kLead[character.size()];
  for (char c : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fU);
  std::array<char, 12> buffer = {};
  std::snprintf(buffer.data(), buffer.size(), code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
  return buffer.data();
}

/// JSON's escapes are TOML's; what a terminal would not show, and DEL, which TOML demands, is escaped too.
std::string toml_quote(std::string_view text) {
  std::string json = json_quote(text);
  std::string out;
  for (std::string_view rest = json; !rest.empty();) {
    std::size_t length = 1;
    while (!core::is_utf8(rest.substr(0, length))) ++length;  // json_quote() writes nothing else
    std::string_view character = rest.substr(0, length);
    bool shown = character == "\\" || core::printable(character) == character;
    shown ? out += character : out += toml_character(character);
    rest.remove_prefix(length);
  }
  return out;
}

std::string list_text(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(toml_quote(text));
  return "[" + core::join(quoted, ", ") + "]";
}

std::string list_text(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> texts;
  for (std::int64_t number : numbers) texts.push_back(std::to_string(number));
  return "[" + core::join(texts, ", ") + "]";
}

std::string text_of(const RuleConstant& constant) {
  std::vector<std::string> texts;
  for (double value : constant.values) texts.push_back(core::python_float(value));
  return constant.scalar ? texts.at(0) : "[" + core::join(texts, ", ") + "]";
}

std::string one_or_list(const std::vector<std::string>& texts) {
  return texts.size() == 1 ? toml_quote(texts[0]) : list_text(texts);
}

std::string rename_text(const Rule& rule) {
  if (rule.names.size() == 1) {
    return "rename = " + toml_quote(rule.names[0].first) + "\nto = " + toml_quote(rule.names[0].second) + "\n";
  }
  std::string out = "rename = [\n";
  for (const auto& [from, to] : rule.names) out += "  [" + toml_quote(from) + ", " + toml_quote(to) + "],\n";
  return out + "]\n";
}

std::string rule_text(const Rule& rule) {
  if (rule.kind == Kind::rename) return rename_text(rule);
  std::string out = std::string(name(rule.kind)) + " = " + one_or_list(rule.from) + "\n";
  const bool folds = rule.kind == Kind::fold || rule.kind == Kind::unfold;
  if (folds) out += "to = " + one_or_list(rule.to) + "\nby = " + toml_quote(name(rule.by)) + "\n";
  if (rule.kind == Kind::split) out += "to = " + list_text(rule.to) + "\n";
  if (rule.kind == Kind::fuse || rule.kind == Kind::tie) out += "to = " + toml_quote(rule.to[0]) + "\n";
  bool cuts = rule.kind == Kind::split || rule.kind == Kind::fuse;
  if (cuts) out += "dim = " + std::to_string(rule.dim) + "\n";
  if (!rule.sizes.empty()) out += "sizes = " + list_text(rule.sizes) + "\n";
  if (!rule.dims.empty()) out += "dims = " + list_text(rule.dims) + "\n";
  if (rule.kind == Kind::reshape) out += "shape = " + list_text(rule.shape) + "\n";
  if (rule.kind == Kind::add) out += "value = " + core::python_float(rule.value) + "\n";
  if (rule.constant) out += (rule.kind == Kind::make ? "values = " : "was = ") + text_of(*rule.constant) + "\n";
  if (rule.was_shape) out += "was = " + list_text(*rule.was_shape) + "\n";
  if (rule.dtype) out += "dtype = " + toml_quote(core::short_name(*rule.dtype)) + "\n";
  if (rule.was_dtype) out += "was = " + toml_quote(core::short_name(*rule.was_dtype)) + "\n";
  return out;
}

}  // namespace

Rules parse_rules(std::string_view text, std::string_view name) {
  return core::with_context(name, [&] {
    std::size_t first = text.find_first_not_of(" \t\r\n");
    bool json = first != std::string_view::npos && text[first] == '{';
    TextNode root = json ? detail::parse_json_node(text) : detail::parse_toml_node(text);
    return !json && root.members.empty() ? Rules() : detail::rules_of(root);
  });
}

Rules detail::rules_of(const TextNode& root) {
  Rules rules;
  bool has_list = root.find("rules") != nullptr || root.find("rule") != nullptr;
  if (!has_list && root.find("rename") == nullptr) {  // {"old": "new"}
    Rule rule;
    rule.names = pairs_of(root);
    if (rule.names.empty()) throw_bad_rules("there is no rule");
    check_rule(rule);
    return {rule};
  }
  for (const auto& [key, node] : root.members) {
    if (key == "about" && node.kind == NodeKind::table) continue;  // rule_pack.h
    bool plain = key == "rename" && (node.kind == NodeKind::table || node.kind == NodeKind::list);
    if (key == "rules" || key == "rule") {
      read_rules(node, rules);
    } else if (plain) {
      Rule rule;
      rule.names = pairs_of(node);
      check_rule(rule);
      rules.push_back(std::move(rule));
    } else {
      throw_bad_rules("unknown entry " + core::quote(key) + "; rules begin with [[rule]]");
    }
  }
  return rules;
}

std::string to_toml(const Rules& rules) {
  std::string out;
  for (const Rule& rule : rules) out += (out.empty() ? "[[rule]]\n" : "\n[[rule]]\n") + rule_text(rule);
  return out;
}

}  // namespace ckpt

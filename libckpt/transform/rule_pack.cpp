#include "libckpt/transform/rule_pack.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "libckpt/transform/glob.h"
#include "libckpt/transform/pattern.h"
#include "libckpt/transform/rule_engine.h"
#include "libckpt/transform/toml_node.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::TextNode;
using PackNodeKind = TextNode::Kind;

struct TextField {
  std::string_view name;
  std::string RulePack::*member;
};
constexpr std::array kTexts = {
    TextField{"from", &RulePack::from},
    TextField{"to", &RulePack::to},
    TextField{"from_key", &RulePack::from_key},
    TextField{"to_key", &RulePack::to_key},
    TextField{"from_prefix", &RulePack::from_prefix},
    TextField{"to_prefix", &RulePack::to_prefix},
    TextField{"models", &RulePack::models},
    TextField{"note", &RulePack::note},
    TextField{"also", &RulePack::also},
};

[[noreturn]] void throw_bad_about(const std::string& what) {
  throw Error(ErrorCode::usage, "the table 'about' " + what);
}

std::vector<std::int64_t> proportion(const std::string& key, const TextNode& node) {
  std::vector<std::int64_t> out;
  for (const TextNode& item : node.items) {
    if (item.kind == PackNodeKind::integer && item.integer > 0) out.push_back(item.integer);
  }
  bool valid = node.kind == PackNodeKind::list && node.items.size() == 2 && out.size() == 2;
  if (!valid) throw_bad_about("has a " + core::quote(key) + " that is not a pair of numbers");
  return out;
}

void read_field(RulePack& pack, const std::string& key, const TextNode& node) {
  if (key == "from_shape") return void(pack.from_shape = proportion(key, node));
  if (key == "to_shape") return void(pack.to_shape = proportion(key, node));
  auto field = std::find_if(kTexts.begin(), kTexts.end(), [&](const TextField& text) { return text.name == key; });
  if (field == kTexts.end()) throw_bad_about("has an unknown field " + core::quote(key));
  if (node.kind != PackNodeKind::text || node.text.empty())
    throw_bad_about("has a " + core::quote(key) + " that is not text");
  pack.*(field->member) = node.text;
}

void check_pack(const RulePack& pack) {
  for (std::string_view key : {"from", "to"}) {
    if ((key == "from" ? pack.from : pack.to).empty()) throw_bad_about("has no " + core::quote(key));
  }
  if (pack.from_key.empty() != pack.to_key.empty()) throw_bad_about("has one of 'from_key' and 'to_key' alone");
}

bool has_proportion(const std::vector<std::int64_t>& proportion, const core::Shape& shape) {
  if (proportion.empty()) return true;
  return shape.size() >= 2 && shape[0] * proportion[1] == shape[1] * proportion[0];
}

bool any_key(const std::vector<NamedShape>& keys, std::string_view glob, const std::vector<std::int64_t>& shape,
             std::string_view before) {
  return std::any_of(keys.begin(), keys.end(), [&](const NamedShape& key) {
    if (!has_proportion(shape, key.shape)) return false;
    return before.empty() ? glob_match(glob, key.name) : glob_match(glob, std::string(before) + std::string(key.name));
  });
}

/// What one side of a pack says of its names.
struct Side {
  const std::string& key;
  const std::string& prefix;
  const std::vector<std::int64_t>& shape;
};

PackFit fit(const Side& side, const std::vector<NamedShape>& keys) {
  if (side.key.empty() || any_key(keys, side.key, side.shape, "")) return {true, ""};
  bool bare = !side.prefix.empty() && any_key(keys, side.key, side.shape, side.prefix);
  return {bare, bare ? side.prefix : ""};
}

bool has_match(const std::string& text, const std::vector<NamedShape>& keys) {
  const Pattern pattern = Pattern::parse(text);
  return std::any_of(keys.begin(), keys.end(), [&](const NamedShape& key) { return pattern.matches(key.name); });
}

/// Whether any rename knows a key; true for rules that rename nothing.
bool know_any(const Rules& rules, const std::vector<NamedShape>& keys) {
  bool renames = false;
  for (const Rule& rule : rules) {
    for (const auto& [from, to] : rule.names) {
      if (has_match(from, keys)) return true;
      renames = true;
    }
  }
  return !renames;
}

}  // namespace

std::optional<RulePack> try_parse_rule_pack(std::string_view text, std::string_view name) {
  std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] == '{') return std::nullopt;
  TextNode root = core::with_context(name, [&] { return detail::parse_toml_node(text); });
  const TextNode* about = root.find("about");
  if (about == nullptr || about->kind != PackNodeKind::table) return std::nullopt;
  RulePack pack;
  pack.name = name;
  pack.rules = core::with_context(name, [&] { return detail::rules_of(root); });
  core::with_context(name, [&] {
    for (const auto& [key, node] : about->members) read_field(pack, key, node);
    check_pack(pack);
  });
  return pack;
}

RulePack parse_rule_pack(std::string_view text, std::string_view name) {
  std::optional<RulePack> pack = try_parse_rule_pack(text, name);
  if (!pack) throw Error(ErrorCode::usage, "has no table [about]").add_context(std::string(name));
  return std::move(*pack);
}

RulePack turned_round(const RulePack& pack) {
  RulePack out = pack;
  std::swap(out.from, out.to);
  std::swap(out.from_key, out.to_key);
  std::swap(out.from_prefix, out.to_prefix);
  std::swap(out.from_shape, out.to_shape);
  out.backwards = !pack.backwards;
  out.rules = core::with_context(pack.name, [&] { return reversed(pack.rules); });
  return out;
}

PackFit fits_from(const RulePack& pack, const std::vector<NamedShape>& keys) {
  return fit({pack.from_key, pack.from_prefix, pack.from_shape}, keys);
}

PackFit fits_to(const RulePack& pack, const std::vector<NamedShape>& keys) {
  return fit({pack.to_key, pack.to_prefix, pack.to_shape}, keys);
}

bool knows_names(const RulePack& pack, const std::vector<NamedShape>& keys) {
  return know_any(pack.rules, keys);
}

bool is_made_for(const RulePack& pack, std::string_view model) {
  const std::vector<std::string_view> globs = core::split(pack.models, ' ');
  return std::any_of(globs.begin(), globs.end(),
                     [&](std::string_view glob) { return !glob.empty() && glob_match(glob, model); });
}

Rules rules_for(const RulePack& pack, const std::vector<NamedShape>& keys) {
  PackFit from = fits_from(pack, keys);
  if (!from.fits) {
    std::string subject = "the rules " + core::quote(pack.name) + " take names of " + pack.from + ", such as " +
                          core::quote(pack.from_key) + ", and the file has none";
    if (fits_to(pack, keys).fits) subject += "; its names are those of " + pack.to + " already";
    throw Error(ErrorCode::key, subject);
  }
  if (pack.from_key.empty() && !know_any(pack.rules, keys)) {
    throw Error(ErrorCode::key,
                "no tensor has a name that the rules " + core::quote(pack.name) + " know, those of " + pack.from);
  }
  if (from.prefix.empty() || from.prefix == pack.to_prefix) return pack.rules;
  Rule before;
  before.names = {{"*", escape_pattern(from.prefix) + "*"}};
  Rules out = {std::move(before)};
  out.insert(out.end(), pack.rules.begin(), pack.rules.end());
  return out;
}

std::string origin_text(const RulePack& pack) {
  if (pack.note.empty() || pack.backwards) return "";
  return "from " + pack.from + " by the rules " + pack.name + ": " + pack.note;
}

namespace {

std::string such_as(const std::vector<std::string>& names, const std::string& noun) {
  return core::format_count(names.size()) + " " + noun + (names.size() == 1 ? "" : "s") + ", such as " +
         core::quote(names.front());
}

/// Names that the rules did not know, but for the counters of batches, which only one side of a pack may have.
std::vector<std::string> names_left(const RuleReport& report) {
  std::vector<std::string> left = report.kept;
  std::erase_if(left, [](const std::string& name) { return name.ends_with("num_batches_tracked"); });
  return left;
}

/// What to do first where the names are those of a model inside of the user's own; else "".
std::string nested_advice(const RulePack& pack, const std::vector<std::string>& left) {
  const std::size_t layers = left.front().rfind("layers.");
  if (pack.from != "Keras" || layers == 0 || layers == std::string::npos) return "";
  const std::string prefix = left.front().substr(0, layers);
  const std::string inner = left.front().substr(layers);
  if (!prefix.ends_with('.') || !know_any(pack.rules, {{inner, {}}})) return "";
  return "; where they are those of a model inside of another, 'ckpt strip-prefix --prefix " + prefix + "' first";
}

/// Tensors and modules that the rules know by name and did not find, of how many there are.
std::pair<std::vector<std::string>, std::size_t> names_missed(const RulePack& pack, const RuleReport& report) {
  const std::unordered_set<std::string_view> unmatched(report.unmatched.begin(), report.unmatched.end());
  std::vector<std::string> missed;
  std::size_t known = 0;
  for (const Rule& rule : pack.rules) {
    for (const auto& [from, to] : rule.names) {
      const std::string module = from.ends_with(".*") ? from.substr(0, from.size() - 2) : from;
      if (!Pattern::parse(module).is_name()) continue;
      ++known;
      const std::string text = "rename " + core::quote(from) + " to " + core::quote(to);
      if (unmatched.contains(text)) missed.push_back(from);
    }
  }
  return {missed, known};
}

}  // namespace

std::vector<std::string> doubts(const RulePack& pack, const RuleReport& report) {
  std::vector<std::string> out = report.lost;
  if (!pack.from_key.empty()) return out;
  const std::vector<std::string> left = names_left(report);
  if (!left.empty()) {
    out.push_back(such_as(left, "tensor") + ", " + (left.size() == 1 ? "has a name" : "have names") +
                  " that the rules " + core::quote(pack.name) + " do not know, and " +
                  (left.size() == 1 ? "stays as it is" : "stay as they are") + nested_advice(pack, left));
  }
  const auto [missed, known] = names_missed(pack, report);
  if (!missed.empty()) {
    out.push_back(such_as(missed, "name") + ", of the " + core::format_count(known) + " that the rules " +
                  core::quote(pack.name) + " know " + (missed.size() == 1 ? "is" : "are") + " not in the file");
  }
  return out;
}

}  // namespace ckpt

#include "libckpt/analyze/why/weight_norm.h"

#include <algorithm>
#include <set>

#include "libckpt/analyze/why/key_rule.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kParent = "parametrizations";

/// What a key says of weight norm: "weight" of "conv.weight_g" and of "conv.parametrizations.weight.original0".
struct Normed {
  std::string_view module;     ///< "conv.", "" at the top
  std::string_view parameter;  ///< "weight"
  bool direction = false;      ///< "_v", "original1": what is divided by its norm
};

std::optional<Normed> parse_older(std::string_view key) {
  std::string_view leaf = leaf_of(key);
  const bool direction = leaf.ends_with("_v");
  if (leaf.size() < 3 || (!direction && !leaf.ends_with("_g"))) return std::nullopt;
  return Normed{key.substr(0, key.size() - leaf.size()), leaf.substr(0, leaf.size() - 2), direction};
}

std::optional<Normed> parse_newer(std::string_view key) {
  std::string_view leaf = leaf_of(key);
  if (leaf != "original0" && leaf != "original1") return std::nullopt;
  std::string_view path = parent_of(key);
  std::string_view above = parent_of(path);
  if (leaf_of(above) != kParent) return std::nullopt;
  return Normed{above.substr(0, above.size() - kParent.size()), leaf_of(path), leaf == "original1"};
}

std::string older_leaf(std::string_view parameter, bool direction) {
  return std::string(parameter) + (direction ? "_v" : "_g");
}

std::string newer_leaf(std::string_view parameter, bool direction) {
  return std::string(kParent) + "." + std::string(parameter) + (direction ? ".original1" : ".original0");
}

using Parse = std::optional<Normed> (*)(std::string_view);

/// Parameters that have both halves among the keys without a partner.
template <class Keys>
std::set<std::string> parameters(const Keys& keys, Parse parse) {
  std::set<std::string> found[2];
  for (std::string_view key : keys) {
    if (auto normed = parse(key)) found[normed->direction ? 1 : 0].insert(std::string(normed->parameter));
  }
  std::set<std::string> both;
  std::set_intersection(found[0].begin(), found[0].end(), found[1].begin(), found[1].end(),
                        std::inserter(both, both.begin()));
  return both;
}

FixStep rename_step(std::string from, std::string to) {
  FixStep step{FixStep::Kind::rename, core::quote(from) + " to " + core::quote(to)};
  step.rule.kind = KeyRule::Kind::path;
  step.rule.from = std::move(from);
  step.rule.to = std::move(to);
  return step;
}

std::size_t rename_all(std::vector<FileKey>& file, const KeyRule& rule) {
  std::size_t changed = 0;
  auto rename = key_function(rule);
  for (FileKey& key : file) {
    std::string to = rename(key.name);
    changed += to == key.name ? 0 : 1;
    key.name = std::move(to);
  }
  return changed;
}

}  // namespace

std::optional<std::string> older_weight_norm(std::string_view key) {
  auto normed = parse_newer(key);
  if (!normed) return std::nullopt;
  return std::string(normed->module) + older_leaf(normed->parameter, normed->direction);
}

std::optional<std::string> newer_weight_norm(std::string_view key) {
  auto normed = parse_older(key);
  if (!normed) return std::nullopt;
  return std::string(normed->module) + newer_leaf(normed->parameter, normed->direction);
}

void find_weight_norm(Attempt& attempt) {
  std::vector<std::string_view> have;
  std::vector<std::string_view> want;
  for (std::size_t i : attempt.unmatched_file()) have.push_back(attempt.file()[i].name);
  for (std::size_t t : attempt.unmatched_wanted()) want.push_back(attempt.wanted()[t].key);
  const bool older = !parameters(have, parse_older).empty();
  std::vector<FixStep> steps;
  for (const std::string& name : parameters(have, older ? parse_older : parse_newer)) {
    if (!parameters(want, older ? parse_newer : parse_older).contains(name)) continue;
    for (bool direction : {false, true}) {
      std::string from = older ? older_leaf(name, direction) : newer_leaf(name, direction);
      std::string to = older ? newer_leaf(name, direction) : older_leaf(name, direction);
      steps.push_back(rename_step(std::move(from), std::move(to)));
    }
  }
  if (steps.empty()) return;
  std::vector<FileKey> file = attempt.file();
  std::size_t changed = 0;
  for (const FixStep& step : steps) changed += rename_all(file, step.rule);
  if (attempt.score(file, attempt.pair_up(file)) < attempt.score()) return;
  Cause cause{CauseKind::old_names, core::format_count(changed) + " of " + core::format_count(file.size()) +
                                        " keys have the names of PyTorch's " + (older ? "older" : "newer") +
                                        " weight norm where the model has those of the " + (older ? "newer" : "older")};
  cause.evidence.push_back(steps.front().text + ", " + steps[1].text);
  cause.confidence = 0.98;
  attempt.add(std::move(cause), std::move(steps), std::move(file));
}

}  // namespace ckpt::detail

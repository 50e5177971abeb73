#pragma once
// The rules of rules.h made ready to act on the items of one dict after another. Internal.
// Thread safety: one thread. Use: auto step = compile_rule(rule); step->apply(items, notes);

#include <memory>
#include <string>
#include <vector>

#include "libckpt/transform/rules.h"

namespace ckpt::detail {

struct TextNode;

/// The rules of a file that was read already (toml_node.h). Errors: Error(usage) as parse_rules().
Rules rules_of(const TextNode& root);

/// One item of a dict on its way through the rules.
struct RuleItem {
  static constexpr std::size_t kMade = SIZE_MAX;
  Value key;
  Value value;
  std::size_t origin = kMade;  ///< index in the dict of the file; kMade for what a rule made
  bool is_tensor() const { return key.is(Value::Kind::text) && value.is(Value::Kind::tensor); }
  const std::string& name() const { return key.as_text(); }
};

/// What rules noted apart from the items themselves.
struct RuleNotes {
  std::vector<std::string> dropped;
  std::vector<std::string> made;
  std::uint64_t changed = 0;
  std::vector<std::string> lost = {};  ///< RuleReport::lost
};

class RuleStep {
 public:
  virtual ~RuleStep() = default;
  /// Acts on all items; returns how many matched. Errors as apply_rules(); `items` is then of no use.
  virtual std::uint64_t apply(std::vector<RuleItem>& items, RuleNotes& notes) = 0;
  /// Parts of the rule that matched nothing in any call so far, where it has parts of its own.
  virtual std::vector<std::string> unmatched() const { return {}; }
};

/// Error(usage) for a pattern, a template or a selector that cannot be read.
std::unique_ptr<RuleStep> compile_rule(const Rule& rule);

/// fold and unfold, which rule_folds.cpp has.
std::unique_ptr<RuleStep> compile_fold(const Rule& rule);

/// Error(collision) when two items have the same name; `before` says what they were called.
void require_distinct(const std::vector<RuleItem>& items, const std::vector<std::string>& before);

/// The name of each item; "" where it is no text.
std::vector<std::string> names_of(const std::vector<RuleItem>& items);

}  // namespace ckpt::detail

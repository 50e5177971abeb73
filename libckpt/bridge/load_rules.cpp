#include "libckpt/bridge/load_rules.h"

namespace ckpt {

Value apply_load_rules(const Dict& dict, const Rules& rules, std::vector<std::string>* warnings) {
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(dict);
  if (rules.empty()) return checkpoint.root;
  RuleReport report;
  Value out = apply_rules(checkpoint, rules, {}, &report).root;
  if (warnings != nullptr) {
    for (const std::string& rule : report.unmatched) warnings->push_back("a rule matches nothing: " + rule);
  }
  return out;
}

}  // namespace ckpt

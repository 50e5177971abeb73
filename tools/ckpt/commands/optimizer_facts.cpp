#include "tools/ckpt/commands/optimizer_facts.h"

#include <algorithm>
#include <set>

#include "libckpt/transform/optimizer.h"
#include "libcore/base/error.h"

namespace cli {
namespace {

/// Names of the state of its parameters, and the settings of its first group.
class Traits {
 public:
  explicit Traits(const ckpt::OptimizerState& state) {
    for (const ckpt::OptimizerParam& param : state.params) {
      for (const ckpt::OptimizerSlot& slot : param.slots) slots_.insert(slot.name);
    }
    if (state.groups.empty()) return;
    for (const auto& [name, value] : state.groups.front().settings) settings_.emplace_back(name, &value);
  }

  bool has_slot(std::string_view name) const { return slots_.contains(name); }
  bool has_state() const { return !slots_.empty(); }
  const ckpt::Value* setting(std::string_view name) const {
    auto found = std::find_if(settings_.begin(), settings_.end(), [&](const auto& s) { return s.first == name; });
    return found == settings_.end() ? nullptr : found->second;
  }
  bool is_set(std::string_view name) const { return setting(name) != nullptr; }

 private:
  std::set<std::string, std::less<>> slots_;
  std::vector<std::pair<std::string_view, const ckpt::Value*>> settings_;
};

/// torch.optim.Adam and AdamW write the same state; newer versions say which of the two it was.
std::string adam_kind(const Traits& traits) {
  if (traits.has_slot("mu_product") || traits.is_set("momentum_decay")) return "NAdam";
  std::string end = traits.has_slot("max_exp_avg_sq") ? " with amsgrad" : "";
  const ckpt::Value* decoupled = traits.setting("decoupled_weight_decay");
  bool says = decoupled != nullptr && decoupled->is(ckpt::Value::Kind::boolean);
  if (says && !traits.is_set("amsgrad")) return "RAdam";
  if (says) return (decoupled->as_boolean() ? "AdamW" : "Adam") + end;
  return (traits.is_set("amsgrad") ? "Adam or AdamW" : "of the Adam family") + end;
}

std::string kind_of(const Traits& traits) {
  bool adam = traits.has_slot("exp_avg") && traits.has_slot("exp_avg_sq");
  if (adam) return adam_kind(traits);
  if (traits.has_slot("exp_inf")) return "Adamax";
  if (traits.has_slot("exp_avg_sq_row") || traits.has_slot("row_var") || traits.is_set("beta2_decay")) {
    return "Adafactor";
  }
  if (traits.has_slot("exp_avg") && traits.is_set("betas")) return "Lion, or one with the same state";
  if (traits.has_slot("acc_delta") || traits.is_set("rho")) return "Adadelta";
  if (traits.has_slot("square_avg")) return "RMSprop";
  if (traits.has_slot("sum") && traits.is_set("lr_decay")) return "Adagrad";
  if (traits.has_slot("ax") && traits.has_slot("eta")) return "ASGD";
  if (traits.has_slot("prev") && traits.has_slot("step_size")) return "Rprop";
  if (traits.is_set("dampening") && traits.is_set("nesterov")) return "SGD";
  if (!traits.has_state() && traits.is_set("betas") && traits.is_set("amsgrad")) return adam_kind(traits);
  return "unknown optimizer";
}

}  // namespace

std::vector<OptimizerFact> optimizer_facts(const ckpt::Checkpoint& checkpoint) {
  std::vector<OptimizerFact> facts;
  try {
    for (const ckpt::OptimizerState& state : ckpt::describe_optimizers(checkpoint)) {
      facts.push_back({state.at, kind_of(Traits(state)), state.params.size(), state.bytes});
    }
  } catch (const core::Error& error) {
    // No optimizer, or one that contradicts itself: `ckpt optim` says so, here it is a dict like any other.
    if (error.code() == core::ErrorCode::internal) throw;
  }
  return facts;
}

OptimizerPlaces::OptimizerPlaces(const std::vector<OptimizerFact>& optimizers) {
  for (const OptimizerFact& optimizer : optimizers) places_.insert(optimizer.at);
}

bool OptimizerPlaces::hold(std::string_view name) const {
  if (places_.empty()) return false;
  if (places_.contains("")) return true;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    if (places_.contains(std::string(name.substr(0, dot)))) return true;
  }
  return false;
}

}  // namespace cli

#include "libcore/module/functional_call.h"

#include <algorithm>
#include <string>
#include <typeinfo>
#include <unordered_map>

#include "libcore/base/fail.h"
#include "libcore/module/norm.h"
#include "libcore/ops/join.h"

namespace core::func {
namespace {

using core::detail::fail;
using core::detail::fail_value;
using Given = std::unordered_map<std::string, Tensor>;

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

/// Under any of the names that share a tensor its value counts for all.
void tie(const std::vector<TensorSlot>& slots, Given& given) {
  std::unordered_map<const TensorImpl*, std::vector<std::string>> groups;
  for (const TensorSlot& slot : slots) {
    if (slot.tensor->defined()) groups[slot.tensor->impl()].push_back(slot.name);
  }
  for (const auto& [tensor, names] : groups) {
    std::vector<std::string> named;
    for (const std::string& name : names) {
      if (given.contains(name)) named.push_back(name);
    }
    if (named.empty()) continue;
    const Tensor value = given.at(named[0]);
    for (const std::string& name : named) {
      if (given.at(name).is_same(value)) continue;
      fail_value("functional_call got multiple values for keys [" + quoted(named) +
                 "], which are tied. Consider using tie_weights=False");
    }
    for (const std::string& name : names) given[name] = value;
  }
}

void check_keys(const Module& module, const std::vector<TensorSlot>& slots, const Given& given,
                const NamedTensors& tensors) {
  std::vector<std::string> missing, unexpected;
  for (const TensorSlot& slot : slots) {
    if (slot.tensor->defined() && !given.contains(slot.name)) missing.push_back(slot.name);
  }
  for (const auto& [name, tensor] : tensors) {
    const bool known = std::any_of(slots.begin(), slots.end(), [&](const TensorSlot& s) { return s.name == name; });
    if (!known) unexpected.push_back(name);
  }
  if (missing.empty() && unexpected.empty()) return;
  std::string text = "Error(s) in reparametrizing for " + module.class_name() + ":";
  if (!unexpected.empty()) text += "\n\tUnexpected key(s): " + quoted(unexpected) + ".";
  if (!missing.empty()) text += "\n\tMissing key(s): " + quoted(missing) + ".";
  fail(text);
}

/// The tensors of all models under one name, stacked; a leaf.
Tensor stacked(const std::vector<Tensor>& tensors, const std::string& name) {
  std::vector<Tensor> values;
  for (const Tensor& t : tensors) {
    if (t.requires_grad() != tensors[0].requires_grad()) {
      fail("Expected " + name + " from each model to have the same .requires_grad");
    }
    values.push_back(t.detach());
  }
  Tensor all = stack(values);
  return tensors[0].requires_grad() ? all.requires_grad_() : all;
}

NamedTensors stacked(const std::vector<NamedTensors>& models) {
  NamedTensors result;
  for (std::size_t i = 0; i < models[0].size(); ++i) {
    std::vector<Tensor> same;
    for (const NamedTensors& one : models) same.push_back(one.at(i).second);
    result.emplace_back(models[0][i].first, stacked(same, models[0][i].first));
  }
  return result;
}

}  // namespace

detail::Substituted::Substituted(Module& module, const NamedTensors& tensors, const FunctionalCallOptions& options) {
  const std::vector<TensorSlot> slots = module.tensor_slots();
  Given given(tensors.begin(), tensors.end());
  if (options.tie_weights) tie(slots, given);
  if (options.strict) check_keys(module, slots, given, tensors);
  for (const TensorSlot& slot : slots) {
    const auto value = given.find(slot.name);
    if (value == given.end()) continue;
    own_.emplace_back(slot.tensor, *slot.tensor);
    *slot.tensor = value->second;
  }
}

detail::Substituted::~Substituted() {
  for (auto own = own_.rbegin(); own != own_.rend(); ++own) *own->first = own->second;
}

void replace_all_batch_norm_modules_(Module& root) {
  for (Module* module : root.modules()) {
    const bool plain = dynamic_cast<BatchNorm1d*>(module) || dynamic_cast<BatchNorm2d*>(module) ||
                       dynamic_cast<BatchNorm3d*>(module) || dynamic_cast<SyncBatchNorm*>(module);
    auto* norm = plain ? dynamic_cast<BatchNormState*>(module) : nullptr;
    if (norm == nullptr || !norm->options.track_running_stats) continue;
    norm->running_mean = norm->running_var = norm->num_batches_tracked = Tensor();
    norm->options.track_running_stats = false;
  }
}

ModuleState stack_module_state(const std::vector<Module*>& models) {
  if (models.empty()) fail("stack_module_state: Expected at least one model, got 0.");
  std::vector<NamedTensors> parameters, buffers;
  for (const Module* model : models) {
    if (model->is_training() != models[0]->is_training()) {
      fail("stack_module_state: Expected all models to have the same training/eval mode.");
    }
    const Module &first = *models[0], &other = *model;
    if (typeid(other) != typeid(first)) fail("stack_module_state: Expected all models to be of the same class.");
    parameters.push_back(model->named_parameters());
    buffers.push_back(model->named_buffers());
  }
  return {stacked(parameters), stacked(buffers)};
}

}  // namespace core::func

#include <algorithm>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/module/parametrize_list.h"

namespace core {

void ParametrizationList::members(Members& m) {
  for (std::size_t i = 0; i < originals.size(); ++i) {
    const std::string name = originals.size() == 1 ? "original" : "original" + std::to_string(i);
    if (is_buffer) {
      m.buffer(name, originals[i]);
    } else {
      m.parameter(name, originals[i]);
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) m.child(std::to_string(i), steps[i].module);
}

Tensor ParametrizationList::forward() const {
  std::vector<Tensor> values = originals;
  for (const detail::Parametrization& step : steps) values = {step.forward(*step.module, values)};
  return values[0];
}

namespace detail {

void Parametrizations::members(Members& m) {
  for (auto& [name, list] : lists) m.child(name, list);
}

Reparametrized::Reparametrized(const Reparametrized& other) : lists(other.lists) {
  for (const auto& each : other.own) own.push_back(each->copy());
}

ParametrizationList* Reparametrized::find(const std::string& name) {
  for (auto& [each, list] : lists.lists) {
    if (each == name) return list.get();
  }
  return nullptr;
}

ReparametrizedPtr::ReparametrizedPtr(const ReparametrizedPtr& other)
    : held_(other.held_ != nullptr ? new Reparametrized(*other.held_) : nullptr) {}

Reparametrized& ReparametrizedPtr::make() {
  if (held_ == nullptr) held_ = new Reparametrized;
  return *held_;
}

void ReparametrizedPtr::reset() {
  delete std::exchange(held_, nullptr);
}

Tensor* written_member(Module& module, const std::string& name, bool* is_buffer) {
  const Members written = Members::as_written(module);
  for (const TensorMember& member : written.parameters()) {
    if (member.name == name) return member.tensor;
  }
  for (const TensorMember& member : written.buffers()) {
    if (member.name != name) continue;
    if (is_buffer != nullptr) *is_buffer = true;
    return member.tensor;
  }
  return nullptr;
}

void recompute(Module& module) {
  Reparametrized& all = *module.reparametrized();
  for (const auto& each : all.own) *written_member(module, each->name) = each->compute(module.is_training());
  for (const auto& [name, list] : all.lists.lists) *written_member(module, name) = list->forward();
}

void replace_members(Members& members, Module& module) {
  Reparametrized& all = *module.reparametrized();
  const auto take_out = [&](const std::string& name) {
    const auto named = [&](const TensorMember& member) { return member.name == name; };
    std::erase_if(members.parameters_, named);
    std::erase_if(members.buffers_, named);
  };
  for (const auto& each : all.own) take_out(each->name);
  for (const auto& [name, list] : all.lists.lists) take_out(name);
  for (const auto& each : all.own) each->list(members);
  if (!all.lists.lists.empty()) members.child("parametrizations", all.lists);
}

namespace {

/// What the steps together must leave as it is.
void check_result(const Tensor& before, const Tensor& after) {
  const auto must_not = [](const char* what, const std::string& was, const std::string& is) {
    detail::fail_value(std::string("Registering a parametrization may not change the ") + what +
                       " of the tensor, unless `unsafe` flag is enabled.\nunparametrized " + what + ": " + was +
                       "\nparametrized " + what + ": " + is);
  };
  if (before.dtype() != after.dtype()) {
    const auto text = [](const Tensor& t) { return "torch." + std::string(name(t.dtype())); };
    must_not("dtype", text(before), text(after));
  }
  if (before.sizes() != after.sizes()) {
    const auto text = [](const Tensor& t) { return "torch.Size(" + to_list(t.sizes()) + ")"; };
    must_not("shape", text(before), text(after));
  }
}

/// The handles that the steps start from; one that stands for the member itself keeps its identity.
std::vector<Tensor> originals_of(const Tensor& member, const Parametrization& step) {
  if (!step.right_inverse) return {member};
  const NoGradGuard no_history;
  const std::vector<Tensor> values = step.right_inverse(*step.module, member.detach());
  if (values.size() == 1) {
    member.set_data(values[0].is_same(member) ? values[0] : values[0].clone());
    return {member};
  }
  std::vector<Tensor> handles;
  for (const Tensor& value : values) handles.push_back(Parameter(value.clone(), member.requires_grad()));
  return handles;
}

}  // namespace

void register_parametrization(Module& module, const std::string& name, Parametrization step) {
  bool is_buffer = false;
  Tensor* member = written_member(module, name, &is_buffer);
  if (member == nullptr || !member->defined()) {
    detail::fail_value("Module '" + module.str() +
                       "' does not have a parameter, a buffer, or a parametrized element with name '" + name + "'");
  }
  step.module->set_training(module.is_training());
  Reparametrized& all = module.reparametrized().make();
  try {
    if (ParametrizationList* known = all.find(name)) {
      const Tensor before = known->forward(), after = step.forward(*step.module, {before});
      check_result(before, after);
      known->steps.push_back(std::move(step));
      *member = after;
    } else {
      const Tensor before = member->detach();
      auto list = std::make_shared<ParametrizationList>();
      list->is_buffer = is_buffer;
      list->set_training(module.is_training());
      list->originals = originals_of(*member, step);
      list->steps.push_back(std::move(step));
      const Tensor after = list->forward();
      check_result(before, after);
      all.lists.lists.emplace_back(name, std::move(list));
      *member = after;
    }
  } catch (...) {
    if (all.empty()) module.reparametrized().reset();
    throw;
  }
}

}  // namespace detail

namespace parametrize {

bool is_parametrized(Module& module, std::optional<std::string> name) {
  if (!module.reparametrized()) return false;
  detail::Reparametrized& all = *module.reparametrized();
  return name ? all.find(*name) != nullptr : !all.lists.lists.empty();
}

void remove_parametrizations(Module& module, const std::string& name, bool leave_parametrized) {
  if (!is_parametrized(module, name)) {
    throw Error(ErrorCode::value, "Module " + module.str() + " does not have a parametrization on " + name);
  }
  detail::Reparametrized& all = *module.reparametrized();
  ParametrizationList& list = *all.find(name);
  const NoGradGuard no_history;
  Tensor result = list.originals[0];
  if (list.originals.size() > 1 && !leave_parametrized) {
    throw Error(ErrorCode::value,
                "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
                "sequence of tensors.");
  }
  if (leave_parametrized) {
    const Tensor value = list.forward().detach();
    if (list.originals.size() > 1) {
      result = Parameter(value);
    } else {
      result.set_data(value);  // an optimizer that holds the original goes on
    }
  }
  *detail::written_member(module, name) = result;
  std::erase_if(all.lists.lists, [&](const auto& each) { return each.first == name; });
  if (all.empty()) module.reparametrized().reset();
}

}  // namespace parametrize
}  // namespace core

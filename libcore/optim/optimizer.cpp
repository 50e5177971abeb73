#include "libcore/optim/optimizer.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <set>

#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/cuda_graph.h"
#include "libcore/base/class_name.h"
#include "libcore/base/error.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/op_scope.h"

namespace core {
namespace {

std::vector<OptionMap::Item> sorted_by_name(const OptionMap& options) {
  std::vector<OptionMap::Item> items = options.items();
  std::sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return items;
}

void require(bool ok, const char* message) {
  if (!ok) throw Error(ErrorCode::value, message);
}

/// A loaded tensor as the state of `param`: `step` as it is, the rest where and what the parameter is.
Tensor adopted(const std::string& name, const Tensor& value, const Tensor& param, bool copies) {
  Tensor moved = value;
  if (name != "step") {
    moved = param.is_floating_point() ? value.to(param.device(), param.dtype()) : value.to(param.device());
  }
  return copies && moved.is_same(value) ? value.clone() : moved;
}

}  // namespace

namespace detail {

std::vector<ParamGroup> one_group(const std::vector<Tensor>& params) {
  std::vector<ParamGroup> groups;
  if (!params.empty()) groups.push_back({.params = params});
  return groups;
}

void check_option(bool ok, const char* what, const Scalar& value) {
  if (!ok) throw Error(ErrorCode::value, std::string(what) + ": " + to_string(OptionValue(value)));
}

}  // namespace detail

Optimizer::Optimizer(std::string name, std::vector<ParamGroup> groups, OptionMap defaults)
    : name_(std::move(name)), defaults_(std::move(defaults)) {
  require(!groups.empty(), "optimizer got an empty parameter list");
  for (ParamGroup& group : groups) add_param_group(std::move(group));
}

void Optimizer::check_params(const ParamGroup& group) const {
  std::set<const TensorImpl*> known;
  for (const ParamGroup& other : param_groups()) {
    for (const Tensor& param : other.params) known.insert(param.impl());
  }
  for (const Tensor& param : group.params) {
    require(param.is_leaf(), "can't optimize a non-leaf Tensor");
    require(!is_complex(param.dtype()),
            "can't optimize a complex Tensor: optimize the pairs of its parts, and use view_as_complex() of them");
    require(!known.contains(param.impl()), "some parameters appear in more than one parameter group");
  }
}

void Optimizer::add_param_group(ParamGroup group) {
  check_params(group);
  for (const auto& [name, value] : defaults_.items()) {
    if (!group.options.contains(name)) group.options.set(name, value);
  }
  param_groups().push_back(std::move(group));
}

const Tensor& Optimizer::gradient_of(const Tensor& param) {
  static const Tensor kNone;
  const AutogradMeta* meta = try_meta(param);
  if (meta == nullptr) return kNone;
  return meta->retained ? *meta->retained : meta->grad;
}

void Optimizer::check_dense(const Tensor& grad) const {
  if (!detail::any_sparse(grad)) return;
  const bool is_adam = name_ == "Adam" || name_ == "AdamW";
  throw Error(ErrorCode::runtime, is_adam ? "Adam does not support sparse gradients, please consider SparseAdam instead"
                                          : name_ + " does not support sparse gradients");
}

/// A graph keeps the numbers of its capture, so that an optimizer that counts its steps has to do so on the device.
void Optimizer::check_capture() const {
  for (const ParamGroup& group : param_groups()) {
    if (!group.options.contains("capturable") || group.options.flag("capturable")) continue;
    throw Error(ErrorCode::runtime, "Attempting CUDA graph capture of step() for an instance of " + name_ +
                                        " but param_groups' capturable is False.");
  }
}

std::string Optimizer::event_name(const char* call) const {
  return std::string("Optimizer.") + call + "#" + short_class_name(typeid(*this)) + "." + call;
}

void Optimizer::step() {
  const detail::AnnotationScope event([this] { return event_name("step"); });
  if (cuda::is_current_stream_capturing()) check_capture();
  if (watches_steps_) was_stepped_ = true;
  if (before_step_.empty() && after_step_.empty()) {
    const NoGradGuard no_grad;
    for (const ParamGroup& group : param_groups()) update(group);
    return;
  }
  run_step([this] {
    for (const ParamGroup& group : param_groups()) update(group);
  });
}

void Optimizer::zero_grad(bool set_to_none) {
  const detail::AnnotationScope event([this] { return event_name("zero_grad"); });
  NoGradGuard no_grad;
  for (const ParamGroup& group : param_groups()) {
    for (const Tensor& param : group.params) {
      if (set_to_none) {
        param.set_grad({});
      } else if (Tensor grad = param.grad(); grad.defined()) {
        grad.detach().zero_();
      }
    }
  }
}

const ParamState& Optimizer::state_of(const Tensor& param) const {
  static const ParamState kNone;
  auto found = state_.find(param.impl());
  return found == state_.end() ? kNone : found->second;
}

OptimizerState Optimizer::state_dict() const {
  auto& self = const_cast<Optimizer&>(*this);  // hooks are given the optimizer they were registered on
  for (const auto& [hook_id, hook] : before_state_) hook(self);
  OptimizerState result;
  std::int64_t id = 0;
  for (const ParamGroup& group : param_groups()) {
    OptimizerState::Group& saved = result.param_groups.emplace_back(OptimizerState::Group{group.options, {}});
    for (const Tensor& param : group.params) {
      const ParamState& state = state_of(param);
      if (!state.empty()) result.state.emplace_back(id, state);
      saved.params.push_back(id++);
    }
  }
  save_values(result);
  for (const auto& [hook_id, hook] : after_state_) hook(self, result);
  return result;
}

void Optimizer::load_state_dict(const OptimizerState& state) {
  if (before_load_.empty()) {
    take_state(state, true);
  } else {
    OptimizerState changed = state;
    for (const auto& [id, hook] : before_load_) hook(*this, changed);
    take_state(changed, true);
  }
  for (const auto& [id, hook] : after_load_) hook(*this);
}

void Optimizer::take_state_dict(OptimizerState state) {
  for (const auto& [id, hook] : before_load_) hook(*this, state);
  take_state(state, false);
  for (const auto& [id, hook] : after_load_) hook(*this);
}

void Optimizer::take_state(const OptimizerState& state, bool copies) {
  require(state.param_groups.size() == param_groups().size(),
          "loaded state dict has a different number of parameter groups");
  std::map<std::int64_t, Tensor> param_of;
  for (std::size_t i = 0; i < param_groups().size(); ++i) {
    const std::vector<std::int64_t>& ids = state.param_groups[i].params;
    require(ids.size() == param_groups()[i].params.size(),
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group");
    for (std::size_t k = 0; k < ids.size(); ++k) param_of.emplace(ids[k], param_groups()[i].params[k]);
  }
  std::unordered_map<const TensorImpl*, ParamState> loaded;
  for (const auto& [id, values] : state.state) {
    auto param = param_of.find(id);
    if (param == param_of.end()) continue;  // state of nobody: a parameter that is gone
    for (const auto& [name, value] : values) {
      loaded[param->second.impl()].emplace_back(name, adopted(name, value, param->second, copies));
    }
  }
  state_ = std::move(loaded);
  for (std::size_t i = 0; i < param_groups().size(); ++i) param_groups()[i].options = state.param_groups[i].options;
  load_values(state);
}

std::string Optimizer::str() const {
  std::string text = name_ + " (";
  for (std::size_t i = 0; i < param_groups().size(); ++i) {
    text += "\nParameter Group " + std::to_string(i) + "\n";
    for (const auto& [name, value] : sorted_by_name(param_groups()[i].options)) {
      text += "    " + name + ": " + to_string(value) + "\n";
    }
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Optimizer& optimizer) {
  return out << optimizer.str();
}

}  // namespace core

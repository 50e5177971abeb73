#include <algorithm>
#include <unordered_map>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/load_rules.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"
#include "libcore/module/hooks.h"
#include "libcore/module/module_base.h"
#include "libcore/module/print.h"
#include "libcore/module/walk.h"
#include "libcore/tensor/uninitialized.h"

namespace core {
namespace {

constexpr const char* kExtraState = "_extra_state";

struct Collector {
  bool keep_vars;
  StateDict state;

  void add(const std::vector<TensorMember>& members, const std::string& prefix) {
    for (const TensorMember& member : members) {
      if (!member.persistent || !member.tensor->defined()) continue;
      const bool as_is = keep_vars || is_uninitialized(*member.tensor);
      state.set(prefix + member.name, as_is ? *member.tensor : member.tensor->detach());
    }
  }

  void visit(Module& module, const std::string& prefix) {
    detail::each_hook(module, &detail::ModuleHooks::state_pre,
                      [&](const StatePreHook& hook) { hook(module, prefix, keep_vars); });
    state.add_version(prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1), module.version());
    const Members own(module);
    add(own.parameters(), prefix);
    add(own.buffers(), prefix);
    if (Tensor extra = module.extra_state(); extra.defined()) state.set(prefix + kExtraState, extra);
    for (const ChildMember& child : own.children()) {
      if (child.module) visit(*child.module, prefix + child.name + ".");
    }
    detail::each_hook(module, &detail::ModuleHooks::state, [&](const StateHook& hook) { hook(module, state, prefix); });
  }
};

/// One call of load_state_dict: walks the module with the keys that begin with its prefix, and gathers what does not
/// fit.
class Loader {
 public:
  Loader(const StateDict& state, bool assign) : state_(state), assign_(assign) {
    for (const auto& [prefix, version] : state.versions()) versions_.emplace(prefix, version);
  }

  void load(Module& module, const std::string& prefix, std::vector<std::string> keys);
  /// PyTorch's text, or nothing when all is well.
  std::string problems(const std::string& class_name, bool strict) const;
  IncompatibleKeys incompatible() && { return std::move(incompatible_); }

 private:
  void load_tensors(const std::vector<TensorMember>& members, const std::string& prefix, bool are_parameters);
  void load_tensor(const TensorMember& member, const std::string& key, const Tensor& given, bool is_parameter);
  void load_extra_state(Module& module, const std::string& key);
  /// The module's keys after its load pre-hooks ran, when it has any.
  std::vector<std::string> keys_after_hooks(Module& module, const std::string& prefix, std::vector<std::string> keys);
  void find_unexpected(const Members& own, const std::string& prefix, const std::vector<std::string>& keys);

  StateDict state_;
  bool assign_;
  std::unordered_map<std::string, int> versions_;
  IncompatibleKeys incompatible_;
  std::vector<std::string> errors_;
};

bool begins_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

void warn_meta(const std::string& key) {
  warn("for " + key +
       ": copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, which is a "
       "no-op. "
       "(Did you mean to pass `assign=True` to assign items in the state dictionary to their corresponding key in the "
       "module instead of copying them in place?)");
}

std::vector<std::string> Loader::keys_after_hooks(Module& module, const std::string& prefix,
                                                  std::vector<std::string> keys) {
  const auto& hooks = detail::hooks_of(module);
  if (!hooks || hooks->load_pre.empty()) return keys;
  detail::each_hook(module, &detail::ModuleHooks::load_pre,
                    [&](const LoadPreHook& hook) { hook(module, state_, prefix); });
  keys.clear();
  for (const auto& [key, value] : state_) {
    if (begins_with(key, prefix)) keys.push_back(key);
  }
  return keys;
}

void Loader::load_extra_state(Module& module, const std::string& key) {
  const Tensor* given = state_.find(key);
  if (!module.extra_state().defined()) {
    if (given) incompatible_.unexpected_keys.push_back(key);
  } else if (given) {
    module.set_extra_state(*given);
  } else {
    incompatible_.missing_keys.push_back(key);
  }
}

void Loader::load(Module& module, const std::string& prefix, std::vector<std::string> keys) {
  keys = keys_after_hooks(module, prefix, std::move(keys));
  const auto version = versions_.find(prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1));
  module.before_load(state_, prefix, version == versions_.end() ? std::nullopt : std::optional<int>(version->second));
  const Members own(module);
  load_tensors(own.parameters(), prefix, true);
  load_tensors(own.buffers(), prefix, false);
  load_extra_state(module, prefix + kExtraState);
  find_unexpected(own, prefix, keys);
  for (const ChildMember& child : own.children()) {
    if (!child.module) continue;
    const std::string child_prefix = prefix + child.name + ".";
    std::vector<std::string> below;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(below),
                 [&](const std::string& key) { return begins_with(key, child_prefix); });
    load(*child.module, child_prefix, std::move(below));
  }
  detail::each_hook(module, &detail::ModuleHooks::load, [&](const LoadHook& hook) { hook(module, incompatible_); });
}

void Loader::load_tensors(const std::vector<TensorMember>& members, const std::string& prefix, bool are_parameters) {
  for (const TensorMember& member : members) {
    if (!member.persistent || !member.tensor->defined()) continue;
    const std::string key = prefix + member.name;
    const Tensor* given = state_.find(key);
    if (given) {
      load_tensor(member, key, *given, are_parameters);
    } else {
      incompatible_.missing_keys.push_back(key);
    }
  }
}

void Loader::load_tensor(const TensorMember& member, const std::string& key, const Tensor& given, bool is_parameter) {
  Tensor& target = *member.tensor;
  if (!given.defined()) {
    errors_.push_back("While copying the parameter named \"" + key +
                      "\", expected torch.Tensor or Tensor-like object from checkpoint but received "
                      "<class 'NoneType'>");
    return;
  }
  if (is_uninitialized(given) && !is_uninitialized(target)) {
    throw Error(ErrorCode::runtime,
                "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
                "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
                "`forward` to initialize the parameters before accessing their attributes.");
  }
  if (!load_takes_shape(target.sizes(), given.sizes())) {
    errors_.push_back(size_mismatch_text(key, given.sizes(), target.sizes()));
    return;
  }
  const Tensor value = given.dim() == target.dim() ? given.detach() : given.detach().reshape({});
  if (target.is_meta() && !given.is_meta() && !assign_) warn_meta(key);
  try {
    const NoGradGuard no_grad;
    if (!assign_) {
      target.copy_(value);
    } else if (is_parameter) {
      target = Parameter(value, target.requires_grad());
    } else {
      target = value;
    }
  } catch (const Error& error) {
    errors_.push_back("While copying the parameter named \"" + key +
                      "\", whose dimensions in the model are torch.Size(" + to_list(target.sizes()) +
                      ") and whose dimensions in the checkpoint are torch.Size(" + to_list(value.sizes()) +
                      "), an exception occurred : ('" + error.message() + "',).");
  }
}

void Loader::find_unexpected(const Members& own, const std::string& prefix, const std::vector<std::string>& keys) {
  const auto holds = [](const auto& members, const std::string& name) {
    return std::any_of(members.begin(), members.end(), [&](const auto& member) { return member.name == name; });
  };
  const auto is_state = [&](const std::string& name) {
    const auto matches = [&](const TensorMember& member) {
      return member.persistent && member.tensor->defined() && member.name == name;
    };
    return std::any_of(own.parameters().begin(), own.parameters().end(), matches) ||
           std::any_of(own.buffers().begin(), own.buffers().end(), matches);
  };
  for (const std::string& key : keys) {
    const std::string rest = key.substr(prefix.size());
    if (rest == kExtraState) continue;
    const std::size_t dot = rest.find('.');
    const bool expected = dot == std::string::npos ? is_state(rest) : holds(own.children(), rest.substr(0, dot));
    if (!expected) incompatible_.unexpected_keys.push_back(key);
  }
}

std::string Loader::problems(const std::string& class_name, bool strict) const {
  LoadProblems problems;
  if (strict) problems = {incompatible_.missing_keys, incompatible_.unexpected_keys};
  problems.errors = errors_;
  if (problems.none()) return "";
  return "Error(s) in loading state_dict for " + class_name + ":\n\t" + join(load_problem_lines(problems), "\n\t");
}

}  // namespace

StateDict Module::state_dict(const std::string& prefix, bool keep_vars) const {
  Collector collector{keep_vars, {}};
  collector.state.set_versions({});
  collector.visit(detail::walkable(*this), prefix);
  return std::move(collector.state);
}

IncompatibleKeys Module::load_state_dict(const StateDict& state, bool strict, bool assign) {
  Loader loader(state, assign);
  loader.load(*this, "", state.keys());
  const std::string problems = loader.problems(detail::shown_class_name(*this), strict);
  if (!problems.empty()) throw Error(ErrorCode::runtime, problems);
  return std::move(loader).incompatible();
}

}  // namespace core

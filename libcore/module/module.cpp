#include "libcore/module/module.h"

#include <algorithm>
#include <unordered_set>

#include "libcore/base/class_name.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/base/warning.h"
#include "libcore/module/walk.h"

namespace core {
namespace {

/// Finds each distinct module below `module` once.
void collect_modules(Module& module, const std::string& name, std::unordered_set<Module*>& seen, NamedModules& out) {
  if (!seen.insert(&module).second) return;
  out.emplace_back(name, &module);
  const Members own(module);
  for (const ChildMember& child : own.children()) {
    if (child.module) collect_modules(*child.module, detail::join_name(name, child.name), seen, out);
  }
}

/// Finds every registration of every module.
void collect_all_modules(Module& module, const std::string& name, NamedModules& out) {
  out.emplace_back(name, &module);
  const Members own(module);
  for (const ChildMember& child : own.children()) {
    if (child.module) collect_all_modules(*child.module, detail::join_name(name, child.name), out);
  }
}

void collect_slots(Module& module, const std::string& name, std::vector<TensorSlot>& out) {
  const Members own(module);
  for (const TensorMember& member : own.parameters()) {
    out.push_back({detail::join_name(name, member.name), member.tensor, TensorSlot::Kind::parameter});
  }
  for (const TensorMember& member : own.buffers()) {
    const auto kind = member.persistent ? TensorSlot::Kind::buffer : TensorSlot::Kind::transient_buffer;
    out.push_back({detail::join_name(name, member.name), member.tensor, kind});
  }
  for (const ChildMember& child : own.children()) {
    if (child.module) collect_slots(*child.module, detail::join_name(name, child.name), out);
  }
}

using MembersOf = const std::vector<TensorMember>& (Members::*)() const&;

NamedTensors named_tensors(Module& module, const std::string& prefix, bool recurse, bool remove_duplicate,
                           MembersOf members_of) {
  const NamedModules modules =
      recurse ? module.named_modules(prefix, remove_duplicate) : NamedModules{{prefix, &module}};
  NamedTensors result;
  std::unordered_set<const TensorImpl*> seen;
  for (const auto& [name, owner] : modules) {
    const Members own(*owner);
    for (const TensorMember& member : (own.*members_of)()) {
      const bool is_there = member.tensor->defined();
      if (!is_there || (remove_duplicate && !seen.insert(member.tensor->impl()).second)) continue;
      result.emplace_back(detail::join_name(name, member.name), *member.tensor);
    }
  }
  return result;
}

bool has_member(const Members& own, std::string_view name) {
  const auto named = [&](const auto& member) { return member.name == name; };
  return std::any_of(own.parameters().begin(), own.parameters().end(), named) ||
         std::any_of(own.buffers().begin(), own.buffers().end(), named) ||
         std::any_of(own.children().begin(), own.children().end(), named);
}

/// The tensor at "layer1.weight", of one kind.
Tensor& find_tensor(Module& module, std::string_view path, MembersOf members_of, const char* wrong_kind) {
  const std::size_t dot = path.rfind('.');
  const std::string name(dot == std::string_view::npos ? path : path.substr(dot + 1));
  Module& owner = module.submodule(dot == std::string_view::npos ? "" : path.substr(0, dot));
  const Members own(owner);
  for (const TensorMember& member : (own.*members_of)()) {
    if (member.name == name) return *member.tensor;
  }
  throw Error(ErrorCode::attribute, has_member(own, name) ? "`" + name + wrong_kind
                                                          : owner.class_name() + " has no attribute `" + name + "`");
}

/// Calls visit for every registered parameter below `module`, as often as it is registered; no names are made.
template <class Visit>
void each_parameter(Module& module, const Visit& visit) {
  const Members own = Members::for_walk(module);
  for (const TensorMember& member : own.parameters()) {
    if (member.tensor->defined()) visit(*member.tensor);
  }
  for (const ChildMember& child : own.children()) {
    if (child.module) each_parameter(*child.module, visit);
  }
}

template <class Value>
std::vector<Value> without_names(std::vector<std::pair<std::string, Value>> named) {
  std::vector<Value> result;
  result.reserve(named.size());
  for (auto& [name, value] : named) result.push_back(std::move(value));
  return result;
}

}  // namespace

std::string Module::class_name() const {
  return short_class_name(typeid(*this));
}

Tensor Module::call(const Tensor&) {
  detail::throw_no_forward(*this);
}

void Module::before_load(StateDict&, std::string_view, std::optional<int>) {}

void Module::set_extra_state(const Tensor&) {
  throw Error(ErrorCode::not_implemented,
              "module " + quote(class_name()) + ": it has extra_state() but does not override set_extra_state()");
}

void Module::set_training(bool mode) {
  training_ = mode;
  for (const auto& [name, child] : named_children()) child->set_training(mode);
}

NamedTensors Module::named_parameters(const std::string& prefix, bool recurse, bool remove_duplicate) const {
  return named_tensors(detail::walkable(*this), prefix, recurse, remove_duplicate, &Members::parameters);
}

NamedTensors Module::named_buffers(const std::string& prefix, bool recurse, bool remove_duplicate) const {
  return named_tensors(detail::walkable(*this), prefix, recurse, remove_duplicate, &Members::buffers);
}

std::vector<Tensor> Module::parameters(bool recurse) const {
  return without_names(named_parameters("", recurse));
}

std::vector<Tensor> Module::buffers(bool recurse) const {
  return without_names(named_buffers("", recurse));
}

NamedModules Module::named_modules(const std::string& prefix, bool remove_duplicate) {
  NamedModules result;
  if (!remove_duplicate) return collect_all_modules(*this, prefix, result), result;
  std::unordered_set<Module*> seen;
  collect_modules(*this, prefix, seen, result);
  return result;
}

NamedModules Module::named_children() {
  NamedModules result;
  std::unordered_set<Module*> seen;
  const Members own(*this);
  for (const ChildMember& child : own.children()) {
    if (child.module && seen.insert(child.module).second) result.emplace_back(child.name, child.module);
  }
  return result;
}

std::vector<Module*> Module::modules() {
  return without_names(named_modules());
}

std::vector<Module*> Module::children() {
  return without_names(named_children());
}

std::vector<TensorSlot> Module::tensor_slots() {
  std::vector<TensorSlot> result;
  collect_slots(*this, "", result);
  return result;
}

Module& Module::submodule(std::string_view path) {
  Module* module = this;
  if (path.empty()) return *module;
  for (const std::string_view name : split(path, '.')) {
    Module* next = nullptr;
    for (const auto& [child_name, child] : module->named_children()) {
      if (child_name == name) next = child;
    }
    if (!next) {
      throw Error(ErrorCode::attribute, module->class_name() + " has no attribute `" + std::string(name) + "`");
    }
    module = next;
  }
  return *module;
}

Tensor& Module::parameter(std::string_view path) {
  return find_tensor(*this, path, &Members::parameters, "` is not an nn.Parameter");
}

Tensor& Module::buffer(std::string_view path) {
  return find_tensor(*this, path, &Members::buffers, "` is not a buffer");
}

Module& Module::apply(const std::function<void(Module&)>& visit) {
  for (const auto& [name, child] : named_children()) child->apply(visit);
  visit(*this);
  return *this;
}

Module* Module::module_at(const void* place) {
  if (!detail::ModuleMark::stands_at(place)) return nullptr;
  static const auto kOffset = [] {
    struct Any final : Module {
      void members(Members&) override {}
      std::shared_ptr<Module> copy() const override { return nullptr; }
    } any;
    const auto* module = static_cast<const Module*>(&any);
    return reinterpret_cast<const char*>(&module->mark_) - reinterpret_cast<const char*>(module);
  }();
  return reinterpret_cast<Module*>(const_cast<char*>(static_cast<const char*>(place)) - kOffset);
}

namespace {

/// Leaves out what was just added where its name cannot be.
template <class List>
auto& checked_name(Module& module, List& list) {
  try {
    static_cast<void>(Members(module));
  } catch (...) {
    list.pop_back();
    throw;
  }
  return list.back();
}

}  // namespace

Tensor& Module::register_parameter(const std::string& name, const Parameter& parameter) {
  auto& list = registered_.make().parameters;
  list.emplace_back(name, parameter);
  return checked_name(*this, list).second;
}

Tensor& Module::register_buffer(const std::string& name, const Tensor& tensor, bool persistent) {
  auto& list = registered_.make().buffers;
  list.push_back({name, tensor, persistent});
  return checked_name(*this, list).tensor;
}

Module& Module::register_module(const std::string& name, std::shared_ptr<Module> module) {
  if (!module) throw Error(ErrorCode::type, "None is not a Module subclass");
  auto& list = registered_.make().children;
  list.emplace_back(name, std::move(module));
  return *checked_name(*this, list).second;
}

void Module::set_submodule(std::string_view path, const std::shared_ptr<Module>& module) {
  if (path.empty()) throw Error(ErrorCode::value, "Cannot set the submodule without a target name!");
  if (!module) throw Error(ErrorCode::value, "`module` is not an nn.Module, found <class 'NoneType'>");
  const std::size_t dot = path.rfind('.');
  Module& parent = submodule(dot == std::string_view::npos ? "" : path.substr(0, dot));
  const std::string name(dot == std::string_view::npos ? path : path.substr(dot + 1));
  const Members own(parent);
  for (const ChildMember& child : own.children()) {
    if (child.name != name) continue;
    if (!child.rebind) {
      throw Error(ErrorCode::type, "module " + quote(parent.class_name()) + ": its member " + quote(name) +
                                       " is part of the struct and stays what it is; hold it as "
                                       "std::shared_ptr<core::Module> to put another in its place");
    }
    return child.rebind(module);
  }
  parent.register_module(name, module);
}

void Module::requires_grad_(bool requires_grad) {
  for (Tensor parameter : parameters()) parameter.requires_grad_(requires_grad);
}

void Module::zero_grad(bool set_to_none) {
  if (is_replica()) {
    return warn(
        "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The parameters are copied "
        "(in a differentiable manner) from the original module. This means they are not leaf nodes in autograd and so "
        "don't accumulate gradients. If you need gradients in your forward method, consider using autograd.grad "
        "instead.");
  }
  each_parameter(*this, [&](const Tensor& parameter) {
    if (set_to_none || !parameter.grad().defined()) {
      parameter.set_grad({});
    } else {
      parameter.set_grad(parameter.grad().detach());
      parameter.grad().zero_();
    }
  });
}

namespace detail {

void throw_no_forward(const Module& module) {
  throw Error(ErrorCode::not_implemented,
              "Module [" + module.class_name() + "] is missing the required \"forward\" function");
}

void throw_other_class(const Module& module, const std::type_info& known) {
  const std::string base = short_class_name(known), own = short_class_name(typeid(module));
  throw Error(ErrorCode::usage, "module " + quote(own) + " derives from " + base +
                                    ", whose forward this call would run in place of its own: derive it from "
                                    "core::ModuleOf<" +
                                    own + ", " + base + ">");
}

void throw_wrong_child(const Module& module) {
  throw Error(ErrorCode::type, "a " + quote(module.class_name()) +
                                   " cannot stand there: the struct holds it by a pointer to another class; hold it as "
                                   "std::shared_ptr<core::Module>");
}

void throw_not_copyable(const Module& module) {
  throw Error(ErrorCode::type, "module " + quote(module.class_name()) +
                                   ": it cannot be copied; give the class a copy constructor and derive it from " +
                                   "core::ModuleOf of itself");
}

}  // namespace detail
}  // namespace core

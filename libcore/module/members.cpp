#include "libcore/module/members.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/module.h"
#include "libcore/tensor/inline_vector.h"

namespace core {
namespace {

constexpr std::size_t kFew = 4;  // members that one allocation is made for, as zero_grad() of every step walks lists

void check_name(const char* what, const std::string& name) {
  if (name.find('.') != std::string::npos) {
    const std::string found = std::string_view(what) == "module" ? ", got: " + name : "";
    throw Error(ErrorCode::key, std::string(what) + " name can't contain \".\"" + found);
  }
  if (name.empty()) throw Error(ErrorCode::key, std::string(what) + " name can't be empty string \"\"");
}

}  // namespace

Members::Members(Module& module) {
  module.members(*this);
  if (!module.members_checked()) {
    check_kinds(module);
    check_complete(module);
    module.set_members_checked();
  }
  list_registered(module);
  if (module.reparametrized()) detail::replace_members(*this, module);
  check_unique();
}

Members Members::as_written(Module& module) {
  Members list;
  module.members(list);
  list.list_registered(module);
  return list;
}

Members Members::for_walk(Module& module) {
  if (!module.members_checked() || module.reparametrized()) return Members(module);
  Members list;
  list.checks_names_ = false;
  module.members(list);
  list.list_registered(module);
  return list;
}

Members& Members::parameter(std::string name, Tensor& tensor) {
  if (checks_names_) check_name("parameter", name);
  if (parameters_.empty()) parameters_.reserve(kFew);
  parameters_.push_back({std::move(name), &tensor, true});
  return *this;
}

Members& Members::buffer(std::string name, Tensor& tensor, bool persistent) {
  if (checks_names_) check_name("buffer", name);
  buffers_.push_back({std::move(name), &tensor, persistent});
  return *this;
}

Members& Members::add_child(ChildMember child) {
  if (checks_names_) check_name("module", child.name);
  if (children_.empty()) children_.reserve(kFew);
  children_.push_back(std::move(child));
  return *this;
}

void Members::check_unique() const {
  InlineVector<std::string_view, 16> names;
  for (const TensorMember& member : parameters_) names.push_back(member.name);
  for (const TensorMember& member : buffers_) names.push_back(member.name);
  for (const ChildMember& member : children_) names.push_back(member.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw Error(ErrorCode::key, "attribute '" + std::string(*twice) + "' already exists");
}

void Members::list_registered(Module& module) {
  detail::RegisteredMembers* own = module.registered();
  if (own == nullptr) return;
  for (auto& [name, tensor] : own->parameters) parameter(name, tensor);
  for (auto& entry : own->buffers) buffer(entry.name, entry.tensor, entry.persistent);
  for (auto& [name, held] : own->children) child(name, held);
}

namespace {

/// "Linear(in_features=4, out_features=2, bias=True)"
std::string in_words(const Module& module) {
  return module.class_name() + "(" + module.extra_repr() + ")";
}

[[noreturn]] void fail_incomplete(const Module& module, const std::string& what) {
  throw Error(ErrorCode::usage, "module " + quote(module.class_name()) + " " + what);
}

}  // namespace

/// Whether this list names the module, or what it has under names of its own, as lazy modules list what their layer
/// has.
bool Members::covers(Module& found) const {
  for (const ChildMember& child : children_) {
    if (child.module == &found) return true;
  }
  Members its;
  found.members(its);
  const auto is_child = [&](const ChildMember& its_own) {
    return std::any_of(children_.begin(), children_.end(),
                       [&](const ChildMember& own) { return own.module != nullptr && own.module == its_own.module; });
  };
  const auto is_parameter = [&](const TensorMember& its_own) {
    return std::any_of(parameters_.begin(), parameters_.end(),
                       [&](const TensorMember& own) { return own.tensor == its_own.tensor; });
  };
  if (its.parameters_.empty()) return std::any_of(its.children_.begin(), its.children_.end(), is_child);
  return std::all_of(its.parameters_.begin(), its.parameters_.end(), is_parameter);
}

void Members::check_complete(Module& module) const {
  const std::span<const char> bytes = module.own_bytes();
  std::size_t modules = 0;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t)) {
    const char* place = bytes.data() + at;
    if (Module* found = Module::module_at(place); found != nullptr && found != &module) {
      ++modules;
      if (!covers(*found)) {
        fail_incomplete(module, "holds a " + in_words(*found) + " (number " + std::to_string(modules) +
                                    " of its modules) that its members() does not list: add m.child(\"name\", member)");
      }
      // What lies inside it, it lists itself.
      const std::span<const char> inner = found->own_bytes();
      if (!inner.empty())
        at = static_cast<std::size_t>(inner.data() + inner.size() - bytes.data()) - sizeof(std::uint64_t);
      continue;
    }
    const Parameter* parameter = Parameter::parameter_at(place);
    if (parameter == nullptr || !parameter->defined()) continue;
    const auto is_it = [&](const TensorMember& member) { return member.tensor == parameter; };
    if (std::any_of(parameters_.begin(), parameters_.end(), is_it)) continue;
    fail_incomplete(module, "holds a Parameter of size " + to_list(parameter->sizes()) +
                                " that its members() does not list: add m.parameter(\"name\", member)");
  }
}

void Members::check_kinds(Module& module) const {
  const std::span<const char> bytes = module.own_bytes();
  const auto bytes_behind = [&](const Tensor* tensor) -> std::size_t {
    const char* place = reinterpret_cast<const char*>(tensor);
    const bool inside = !bytes.empty() && place >= bytes.data() && place < bytes.data() + bytes.size();
    return inside ? static_cast<std::size_t>(bytes.data() + bytes.size() - place) : 0;
  };
  for (const TensorMember& member : buffers_) {
    if (!Parameter::holds(*member.tensor, bytes_behind(member.tensor))) continue;
    fail_incomplete(module, "lists the Parameter " + quote(member.name) + " as a buffer: write m.parameter(\"" +
                                member.name + "\", member), or make it a core::Tensor");
  }
  for (const TensorMember& member : parameters_) {
    const Tensor& tensor = *member.tensor;
    const std::size_t known = bytes_behind(member.tensor);
    if (known == 0 || !tensor.defined() || tensor.requires_grad() || Parameter::holds(tensor, known)) continue;
    fail_incomplete(module, "lists " + quote(member.name) +
                                " as a parameter, but it is a plain tensor that wants no "
                                "gradient: make it a core::Parameter, or write m.buffer(\"" +
                                member.name + "\", member)");
  }
}

}  // namespace core

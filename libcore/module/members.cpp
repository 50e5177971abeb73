#include "libcore/module/members.h"

#include <algorithm>
#include <string_view>

#include "libcore/base/error.h"
#include "libcore/module/module.h"

namespace core {
namespace {

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
  if (module.reparametrized()) detail::replace_members(*this, module);
  check_unique();
}

Members Members::as_written(Module& module) {
  Members list;
  module.members(list);
  return list;
}

Members& Members::child(std::string name, Module& module) {
  return add_child({std::move(name), &module, {}});
}

Members& Members::parameter(std::string name, Tensor& tensor) {
  check_name("parameter", name);
  parameters_.push_back({std::move(name), &tensor, true});
  return *this;
}

Members& Members::buffer(std::string name, Tensor& tensor, bool persistent) {
  check_name("buffer", name);
  buffers_.push_back({std::move(name), &tensor, persistent});
  return *this;
}

Members& Members::add_child(ChildMember child) {
  check_name("module", child.name);
  children_.push_back(std::move(child));
  return *this;
}

void Members::check_unique() const {
  std::vector<std::string_view> names;
  names.reserve(parameters_.size() + buffers_.size() + children_.size());
  for (const TensorMember& member : parameters_) names.push_back(member.name);
  for (const TensorMember& member : buffers_) names.push_back(member.name);
  for (const ChildMember& member : children_) names.push_back(member.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw Error(ErrorCode::key, "attribute '" + std::string(*twice) + "' already exists");
}

}  // namespace core

#pragma once
// Members: the list of what a module is made of. A module fills it in members(); names, order, state_dict, to, printing
// and replication are all read from it. Thread safety: none; a list is built, read and dropped in one place. Use:
// struct Net : core::ModuleOf<Net> { core::Tensor w; void members(core::Members& m) override { m.buffer("w", w); } };

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/tensor/tensor.h"

namespace core {

class Module;
class Members;
namespace detail {
void replace_members(Members& list, Module& module);
/// Error(type): the struct holds children of another class there.
[[noreturn]] void throw_wrong_child(const Module& module);

/// A class that derives from another module has to say so, or the other one's forward would be called.
template <class M>
constexpr void check_module_type() {
  if constexpr (requires { typename M::ModuleType; }) {
    static_assert(std::is_same_v<typename M::ModuleType, M>,
                  "a class that derives from a module says so: struct Mine : core::ModuleOf<Mine, core::Linear>; as it "
                  "stands, its own forward and copies would be those of the class it derives from");
  }
}
}  // namespace detail

/// One registered parameter or buffer. `tensor` is the module's own handle: assigning to it rebinds the member. An
/// undefined tensor is a registered None.
struct TensorMember {
  std::string name;
  Tensor* tensor = nullptr;
  bool persistent = true;
};

/// One registered child; `module` is null for a registered None. `rebind` is set when the child is held by shared
/// pointer: it puts another module in its place. Error(type) for one of a class that the pointer cannot hold.
struct ChildMember {
  std::string name;
  Module* module = nullptr;
  std::function<void(const std::shared_ptr<Module>&)> rebind;
};

class Members {
 public:
  /// Asks `module` for its members. Errors (ErrorCode::key): PyTorch's texts for a name that is empty, holds a dot or
  /// stands for two members. The first time a module is asked, its own memory (sizeof of the struct, a comparison every
  /// eight bytes: less than a microsecond for most) is looked through for what members() left out, and what is a part
  /// of the struct itself is found: Error(usage) for a module or a parameter that it holds and does not list, for a
  /// Parameter listed as a buffer, and for a plain tensor without gradient listed as a parameter.
  explicit Members(Module& module);
  /// What its members() says, whatever was put in the place of some (parametrize.h). REQUIRES: asked for before.
  static Members as_written(Module& module);

  /// For walks that ask for no names: these are not looked at again where the constructor has done so.
  static Members for_walk(Module& module);

  /// A child that is part of the struct.
  template <class M>
  requires std::is_base_of_v<Module, M> Members& child(std::string name, M& module) {
    detail::check_module_type<M>();
    return add_child({std::move(name), &module, {}});
  }
  /// A child chosen at run time, shared, or absent (a null pointer prints as `(name): None`).
  template <class M>
  Members& child(std::string name, std::shared_ptr<M>& module) {
    static_assert(std::is_base_of_v<Module, M>, "a child is a core::Module");
    detail::check_module_type<M>();
    return add_child({std::move(name), module.get(), [&module](const std::shared_ptr<Module>& replacement) {
                        auto fitting = std::dynamic_pointer_cast<M>(replacement);
                        if (replacement && !fitting) detail::throw_wrong_child(*replacement);
                        module = std::move(fitting);
                      }});
  }
  Members& child(std::string name, std::nullptr_t) { return add_child({std::move(name), nullptr, {}}); }
  Members& parameter(std::string name, Tensor& tensor);
  /// A tensor that is state but not learnt; one that is not persistent stays out of state_dict.
  Members& buffer(std::string name, Tensor& tensor, bool persistent = true);

  // Of a temporary list these give the vector itself: `for (... : Members(module).children())` is safe.
  const std::vector<TensorMember>& parameters() const& { return parameters_; }
  const std::vector<TensorMember>& buffers() const& { return buffers_; }
  const std::vector<ChildMember>& children() const& { return children_; }
  std::vector<TensorMember> parameters() && { return std::move(parameters_); }
  std::vector<TensorMember> buffers() && { return std::move(buffers_); }
  std::vector<ChildMember> children() && { return std::move(children_); }

 private:
  friend void detail::replace_members(Members& list, Module& module);
  Members() = default;
  Members& add_child(ChildMember child);
  void check_unique() const;
  void check_complete(Module& module) const;
  void check_kinds(Module& module) const;
  bool covers(Module& found) const;
  void list_registered(Module& module);

  std::vector<TensorMember> parameters_;
  std::vector<TensorMember> buffers_;
  std::vector<ChildMember> children_;
  bool checks_names_ = true;
};

}  // namespace core

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
}

/// One registered parameter or buffer. `tensor` is the module's own handle: assigning to it rebinds the member. An
/// undefined tensor is a registered None.
struct TensorMember {
  std::string name;
  Tensor* tensor = nullptr;
  bool persistent = true;
};

/// One registered child; `module` is null for a registered None. `rebind` is set when the child is held by shared
/// pointer: it puts another module of the same type in its place.
struct ChildMember {
  std::string name;
  Module* module = nullptr;
  std::function<void(std::shared_ptr<Module>)> rebind;
};

class Members {
 public:
  /// Asks `module` for its members. Errors (ErrorCode::key): PyTorch's texts for a name that is empty, holds a dot or
  /// stands for two members.
  explicit Members(Module& module);
  /// What its members() says, whatever was put in the place of some (parametrize.h). REQUIRES: asked for before.
  static Members as_written(Module& module);

  /// A child that is part of the struct.
  Members& child(std::string name, Module& module);
  /// A child chosen at run time, shared, or absent (a null pointer prints as `(name): None`).
  template <class M>
  Members& child(std::string name, std::shared_ptr<M>& module) {
    static_assert(std::is_base_of_v<Module, M>, "a child is a core::Module");
    return add_child({std::move(name), module.get(), [&module](std::shared_ptr<Module> replacement) {
                        module = std::static_pointer_cast<M>(std::move(replacement));
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

  std::vector<TensorMember> parameters_;
  std::vector<TensorMember> buffers_;
  std::vector<ChildMember> children_;
};

}  // namespace core

#pragma once
// Module: what every module can do, whatever its type. A class of one's own derives from ModuleOf (module.h), which
// adds the call, copies and chaining. Thread safety: as the tensors'. Use: for (auto& [name, p] :
// model.named_parameters()) ...

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/base/dtype.h"
#include "libcore/module/detail/address_mark.h"
#include "libcore/module/detail/copied_ptr.h"
#include "libcore/module/detail/reparametrized.h"
#include "libcore/module/hook.h"
#include "libcore/module/members.h"
#include "libcore/module/parameter.h"
#include "libcore/module/state_dict.h"
#include "libcore/tensor/tensor.h"

namespace core {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using NamedModules = std::vector<std::pair<std::string, Module*>>;

/// One handle to a parameter or buffer somewhere below a module, with its full name. Valid while the module lives where
/// it is.
struct TensorSlot {
  enum class Kind { parameter, buffer, transient_buffer };
  std::string name;
  Tensor* tensor = nullptr;
  Kind kind = Kind::parameter;
};

namespace detail {
struct ModuleHooks;
/// Null when nothing was registered.
const std::shared_ptr<ModuleHooks>& hooks_of(const Module& module);
/// The tensors in the result of one call with all hooks around it; `forward` is given the inputs to work on.
using Forward = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
std::vector<Tensor> hooked_call(Module& module, std::vector<Tensor> inputs, const Forward& forward);
}  // namespace detail

namespace detail {
/// What a module was given at run time.
struct RegisteredMembers {
  struct Buffer {
    std::string name;
    Tensor tensor;
    bool persistent = true;
  };
  std::list<std::pair<std::string, Parameter>> parameters;  // lists: handles to them are given out
  std::list<Buffer> buffers;
  std::list<std::pair<std::string, std::shared_ptr<Module>>> children;
};
}  // namespace detail

class Module {
 public:
  virtual ~Module() = default;

  // What a module says of itself.

  /// Lists parameters, buffers and children, each in the order in which PyTorch's class would register them.
  virtual void members(Members& m) = 0;
  /// The text between the brackets of the printed form.
  virtual std::string extra_repr() const { return {}; }
  /// The printed class name: that of the type, without namespaces and template arguments.
  virtual std::string class_name() const;
  /// The version that state_dict records for this module.
  virtual int version() const { return 1; }
  /// forward of one tensor, where there is one. Error(not_implemented) otherwise.
  virtual Tensor call(const Tensor& input);
  /// The same struct over the same tensors, on the heap. Error(type) when the type cannot be copied.
  virtual std::shared_ptr<Module> copy() const = 0;
  /// Called before this module's own tensors are loaded, to bring an older state up to date: `prefix` ends in a dot
  /// unless empty, `saved_version` is none when the state has no versions.
  virtual void before_load(StateDict& state, std::string_view prefix, std::optional<int> saved_version);
  /// Sets the mode of this module and of everything below it.
  virtual void set_training(bool mode);
  /// A tensor that goes with the state under the key "_extra_state", and comes back in set_extra_state(). Undefined:
  /// there is none. Error(not_implemented) when a class overrides the first alone.
  virtual Tensor extra_state() const { return {}; }
  virtual void set_extra_state(const Tensor& state);

  // Walks. Depth first; a module's own members before its children; what is shared appears once, under its first name,
  // unless `remove_duplicate` is false.

  std::vector<Tensor> parameters(bool recurse = true) const;
  NamedTensors named_parameters(const std::string& prefix = "", bool recurse = true,
                                bool remove_duplicate = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  NamedTensors named_buffers(const std::string& prefix = "", bool recurse = true, bool remove_duplicate = true) const;
  /// Begins with this module, named ''.
  NamedModules named_modules(const std::string& prefix = "", bool remove_duplicate = true);
  NamedModules named_children();
  std::vector<Module*> modules();
  std::vector<Module*> children();
  /// Every registration of every tensor (what is shared appears under each name): own parameters, own buffers,
  /// children.
  std::vector<TensorSlot> tensor_slots();
  /// The module at "layer1.0.conv", the parameter at "fc.weight", the buffer at "bn.running_mean". Errors (attribute):
  /// PyTorch's texts.
  Module& submodule(std::string_view path);
  Tensor& parameter(std::string_view path);
  Tensor& buffer(std::string_view path);
  /// Children first, then this module.
  Module& apply(const std::function<void(Module&)>& visit);

  // Members that are only known at run time; they come behind those of members(). Each gives the member back, which the
  // module keeps: ask for it by name (parameter("w"), submodule("head")). Error(key): PyTorch's texts for a name that
  // is taken, empty or holds a dot.

  Tensor& register_parameter(const std::string& name, const Parameter& parameter);
  Tensor& register_buffer(const std::string& name, const Tensor& tensor, bool persistent = true);
  Module& register_module(const std::string& name, std::shared_ptr<Module> module);
  template <class M>
  requires std::is_base_of_v<Module, M> M& register_module(const std::string& name, M module) {
    detail::check_module_type<M>();
    return static_cast<M&>(register_module(name, std::make_shared<M>(std::move(module))));
  }
  template <class M>
  Module& add_module(const std::string& name, M module) {
    return register_module(name, std::move(module));
  }
  /// Puts another module at "layer1.0.conv": in the place of a child that is held by std::shared_ptr or by a container,
  /// or as a new one. Error(type) for a child that is part of a struct, and for one of another class than the
  /// pointer's.
  void set_submodule(std::string_view path, const std::shared_ptr<Module>& module);
  template <class M>
  requires std::is_base_of_v<Module, M>
  void set_submodule(std::string_view path, M module) {
    detail::check_module_type<M>();
    set_submodule(path, std::static_pointer_cast<Module>(std::make_shared<M>(std::move(module))));
  }

  // State.

  /// Own parameters, own persistent buffers, then children; values share storage with the live tensors and are detached
  /// unless `keep_vars`.
  StateDict state_dict(const std::string& prefix = "", bool keep_vars = false) const;
  /// Copies values in (with `assign`, takes the given tensors). Tensors that fit are loaded even when the call throws.
  /// Error(runtime) with PyTorch's text for missing and unexpected keys (when `strict`) and for shapes (always).
  IncompatibleKeys load_state_dict(const StateDict& state, bool strict = true, bool assign = false);

  // Mode, place and type. All act on this module and everything below it, in place.

  bool is_training() const { return training_; }
  void train(bool mode = true) { set_training(mode); }
  void eval() { set_training(false); }
  /// Parameters keep their identity, so that an optimizer made before still holds them.
  void to(Device device) { convert(device, std::nullopt); }
  /// Casts floating parameters and buffers alone. Error(type) for a dtype that is neither floating nor complex.
  void to(DType dtype) { convert(std::nullopt, dtype); }
  void to(Device device, DType dtype) { convert(device, dtype); }
  /// Parameters and buffers of four (five) dimensions.
  void to(MemoryFormat format);
  void to_float() { to(DType::f32); }
  void to_double() { to(DType::f64); }
  void to_half() { to(DType::f16); }
  void to_bfloat16() { to(DType::bf16); }
  /// Parameters and buffers become new, uninitialised tensors on `device`: the way off the meta device.
  void to_empty(Device device, bool recurse = true);
  void cpu() { to(Device("cpu")); }
  void cuda(int index = 0) { to(Device(DeviceType::cuda, index)); }
  void requires_grad_(bool requires_grad = true);
  /// Forgets the gradients of all parameters, or sets them to zero. A replica warns, with PyTorch's text.
  void zero_grad(bool set_to_none = true);

  // Hooks, in the order of registration; each gives a number for remove_hook. Copies of the module share them.

  std::int64_t register_forward_pre_hook(ForwardPreHook hook);
  std::int64_t register_forward_hook(ForwardHook hook);
  std::int64_t register_full_backward_pre_hook(BackwardPreHook hook);
  std::int64_t register_full_backward_hook(BackwardHook hook);
  std::int64_t register_state_dict_pre_hook(StatePreHook hook);
  std::int64_t register_state_dict_post_hook(StateHook hook);
  std::int64_t register_load_state_dict_pre_hook(LoadPreHook hook);
  std::int64_t register_load_state_dict_post_hook(LoadHook hook);
  void remove_hook(std::int64_t id);

  // Copies.

  /// A copy() in which every child held by pointer is a copy too, so that any handle in it can be rebound without the
  /// original noticing. Tensors are shared; what was one module in two places still is.
  std::shared_ptr<Module> replicate() const;
  /// A replicate() whose tensors are copies too; what was shared inside stays shared.
  std::shared_ptr<Module> deep_copy() const;
  /// Says of this module, and of everything below it, that they are copies of `original` which DataParallel runs for
  /// one call: their parameters are no leaves, zero_grad() only warns, and backward hooks, which outlive them, see the
  /// originals. REQUIRES: this is original.replicate().
  void mark_replica_of(Module& original);
  bool is_replica() const { return original_ != nullptr; }

  /// The printed form, as PyTorch's repr.
  virtual std::string str() const;

  // For members.cpp.

  /// The bytes of the struct; none where its class is not known.
  virtual std::span<const char> own_bytes() const { return {}; }
  /// The module whose mark stands there, or null.
  static Module* module_at(const void* place);
  bool members_checked() const { return members_checked_; }
  void set_members_checked() { members_checked_ = true; }
  detail::RegisteredMembers* registered() const { return registered_ ? &*registered_ : nullptr; }

  /// For parametrize.h.
  detail::ReparametrizedPtr& reparametrized() { return reparametrized_; }

 protected:
  Module() = default;
  Module(const Module&) = default;
  Module(Module&&) = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) = default;

  bool has_hooks() const { return hooks_ != nullptr; }
  /// Before a call.
  void prepare() {
    if (reparametrized_) detail::recompute(*this);
  }

 private:
  friend std::vector<Tensor> detail::hooked_call(Module& module, std::vector<Tensor> inputs,
                                                 const detail::Forward& forward);
  friend const std::shared_ptr<detail::ModuleHooks>& detail::hooks_of(const Module& module);
  detail::ModuleHooks& make_hooks();
  void convert(std::optional<Device> device, std::optional<DType> dtype);

  std::shared_ptr<detail::ModuleHooks> hooks_;
  detail::ReparametrizedPtr reparametrized_;
  detail::CopiedPtr<detail::RegisteredMembers> registered_;
  detail::ModuleMark mark_;
  bool training_ = true;
  bool members_checked_ = false;
  Module* original_ = nullptr;  // of a replica
};

std::ostream& operator<<(std::ostream& out, const Module& module);

namespace detail {
/// Puts copies in the place of all children held by pointer, all the way down.
void own_children(Module& module);
/// Puts deep copies in the place of all tensors.
void own_tensors(Module& module);
[[noreturn]] void throw_not_copyable(const Module& module);
[[noreturn]] void throw_no_forward(const Module& module);
/// Error(usage): a class that derives from a module of class `known`.
[[noreturn]] void throw_other_class(const Module& module, const std::type_info& known);
}  // namespace detail

}  // namespace core

#pragma once
// Module: the base of everything that has a forward. A module is a plain struct of members that lists them once.
// Use:
//   struct Model : core::ModuleOf<Model> {
//     core::Linear fc;
//     Model(std::int64_t in, std::int64_t out) : fc(in, out) {}
//     void members(core::Members& m) override { m.child("fc", fc); }
//     core::Tensor forward(const core::Tensor& x) { return fc(x); }     // any signature
//   };
//
// Copying a module shares its tensors (and its children held by shared pointer), as copying a Tensor does; clone() is
// deep. Thread safety: as the tensors'; forward of one module from two threads is safe when its members are only read.

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "libcore/module/detail/tensors_in.h"
#include "libcore/module/module_base.h"

namespace core {

/// What gives the module back as Derived, where Module gives nothing. A base of its own, so that
/// `template class ModuleOf<Linear>;` compiles none of it: few modules are converted in one expression.
template <class Derived, class Base>
class ChainedModule : public Base {
 public:
  using Base::Base;
  // Each gives this module back; a temporary as a value, so that DataParallel(Net().to(device)) owns what it wraps.

  Derived& train(bool mode = true) & { return this->set_training(mode), derived(); }
  Derived train(bool mode = true) && { return this->set_training(mode), moved(); }
  Derived& eval() & { return this->set_training(false), derived(); }
  Derived eval() && { return this->set_training(false), moved(); }
  template <class... Args>
  Derived& to(Args&&... args) & {
    return Module::to(std::forward<Args>(args)...), derived();
  }
  template <class... Args>
  Derived to(Args&&... args) && {
    return Module::to(std::forward<Args>(args)...), moved();
  }
  Derived& to_float() & { return Module::to_float(), derived(); }
  Derived to_float() && { return Module::to_float(), moved(); }
  Derived& to_double() & { return Module::to_double(), derived(); }
  Derived to_double() && { return Module::to_double(), moved(); }
  Derived& to_half() & { return Module::to_half(), derived(); }
  Derived to_half() && { return Module::to_half(), moved(); }
  Derived& to_bfloat16() & { return Module::to_bfloat16(), derived(); }
  Derived to_bfloat16() && { return Module::to_bfloat16(), moved(); }
  Derived& to_empty(Device device, bool recurse = true) & { return Module::to_empty(device, recurse), derived(); }
  Derived to_empty(Device device, bool recurse = true) && { return Module::to_empty(device, recurse), moved(); }
  Derived& cpu() & { return Module::cpu(), derived(); }
  Derived cpu() && { return Module::cpu(), moved(); }
  Derived& cuda(int index = 0) & { return Module::cuda(index), derived(); }
  Derived cuda(int index = 0) && { return Module::cuda(index), moved(); }
  Derived& requires_grad_(bool requires_grad = true) & { return Module::requires_grad_(requires_grad), derived(); }
  Derived requires_grad_(bool requires_grad = true) && { return Module::requires_grad_(requires_grad), moved(); }

 private:
  Derived& derived() { return static_cast<Derived&>(*this); }
  Derived&& moved() { return std::move(derived()); }
};

/// For a template between ModuleOf and the modules that derive from it, which makes ModuleOf<Derived> for them.
struct OnBehalf {};

/// Base of a module of type Derived: calls forward and copies. A class that derives from a module of its own kind names
/// that one too, and everything (the call, Sequential, copies) is its own then:
///
///   struct LoRALinear : core::ModuleOf<LoRALinear, core::Linear> {
///     using ModuleOf::ModuleOf;                                     // the constructors of Linear
///     core::Tensor forward(const core::Tensor& x) { return Linear::forward(x) + delta(x); }
///   };
///
/// Without it Error(usage) at the first call, or a compile error where it is listed in members() or put into a
/// container.
template <class Derived, class Base = Module>
class ModuleOf : public ChainedModule<Derived, Base> {
 public:
  using ModuleType = Derived;
  using ChainedModule<Derived, Base>::ChainedModule;

  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    if (typeid(*this) != typeid(Derived)) [[unlikely]]
      detail::throw_other_class(*this, typeid(Derived));
    this->prepare();
    using Result = decltype(derived().forward(std::forward<Args>(args)...));
    if constexpr (std::is_object_v<Result>) {
      if (this->has_hooks()) return with_hooks<Result>(std::forward<Args>(args)...);
    }
    return derived().forward(std::forward<Args>(args)...);
  }
  /// As in Python, where nothing is constant: a call may change what forward changes (a mode's statistics, hooks).
  template <class... Args>
  decltype(auto) operator()(Args&&... args) const {
    return const_cast<ModuleOf&>(*this)(std::forward<Args>(args)...);
  }

  Tensor call(const Tensor& input) override;
  std::shared_ptr<Module> copy() const override;
  std::span<const char> own_bytes() const override;

  /// A deep copy: new tensors, new children.
  Derived clone() const {
    Derived result(static_cast<const Derived&>(*this));
    detail::own_children(result);
    detail::own_tensors(result);
    return result;
  }

 protected:
  explicit ModuleOf(OnBehalf) {}

 private:
  friend Derived;
  ModuleOf() = default;  // private: write struct Net : core::ModuleOf<Net>, with the name of the struct itself

  Derived& derived() { return static_cast<Derived&>(*this); }

  template <class Result, class... Args>
  Result with_hooks(Args&&... args) {
    std::vector<Tensor> inputs;
    [[maybe_unused]] const auto keep = [&](const auto& argument) {
      if constexpr (std::is_base_of_v<Tensor, std::remove_cvref_t<decltype(argument)>>) inputs.push_back(argument);
    };
    (keep(args), ...);
    std::optional<Result> result;
    std::vector<Tensor> outputs = detail::hooked_call(*this, std::move(inputs), [&](const std::vector<Tensor>& given) {
      [[maybe_unused]] std::size_t next = 0;
      [[maybe_unused]] const auto pick = [&]<class Arg>(Arg& argument) -> decltype(auto) {
        if constexpr (std::is_base_of_v<Tensor, std::remove_cvref_t<Arg>>) {
          return static_cast<const Tensor&>(given[next++]);
        } else {
          return (argument);
        }
      };
      std::tuple<decltype(pick(args))...> all{pick(args)...};  // braces keep the order
      result.emplace(std::apply([&](auto&&... each) -> Result { return derived().forward(each...); }, all));
      std::vector<Tensor> found;
      detail::each_tensor(*result, [&](Tensor& tensor) { found.push_back(tensor); });
      return found;
    });
    std::size_t next = 0;
    detail::each_tensor(*result, [&](Tensor& tensor) { tensor = std::move(outputs[next++]); });
    return std::move(*result);
  }
};

// Not inline, so that `extern template class ModuleOf<Linear>;` keeps them out of every file that includes a module.

template <class Derived, class Base>
std::span<const char> ModuleOf<Derived, Base>::own_bytes() const {
  return {reinterpret_cast<const char*>(static_cast<const Derived*>(this)), sizeof(Derived)};
}

template <class Derived, class Base>
Tensor ModuleOf<Derived, Base>::call(const Tensor& input) {
  if constexpr (requires(Derived & d) {
                  { d.forward(input) } -> std::convertible_to<Tensor>;
                }) {
    return (*this)(input);
  } else {
    detail::throw_no_forward(*this);
  }
}

template <class Derived, class Base>
std::shared_ptr<Module> ModuleOf<Derived, Base>::copy() const {
  if constexpr (std::is_copy_constructible_v<Derived>) {
    if (typeid(*this) == typeid(Derived)) return std::make_shared<Derived>(static_cast<const Derived&>(*this));
  }
  detail::throw_not_copyable(*this);
}

}  // namespace core

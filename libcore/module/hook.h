#pragma once
// The functions that a module calls around forward, around backward and around its state. Registered by
// Module::register_...; see module.h. Thread safety: as the functions. Use: net.register_forward_hook([](core::Module&
// m, const std::vector<core::Tensor>& in, const core::Tensor& out) { ... });

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libcore/module/state_dict.h"
#include "libcore/tensor/tensor.h"

namespace core {

class Module;

/// A function called around something. One that returns nothing changes nothing: an empty Result stands for that.
template <class Result, class... Args>
class Hook {
 public:
  template <class F>
  requires std::invocable<F&, Args...> Hook(F function) {  // NOLINT(google-explicit-constructor): any callable
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Args...>>) {
      call_ = [function = std::move(function)](Args... args) mutable { return function(args...), Result(); };
    } else {
      call_ = std::move(function);
    }
  }
  Result operator()(Args... args) const { return call_(args...); }

 private:
  std::function<Result(Args...)> call_;
};

// Hooks see the tensors among the arguments of a call whose result is one tensor.

/// May give other inputs, as many as there are.
using ForwardPreHook = Hook<std::vector<Tensor>, Module&, const std::vector<Tensor>&>;  // module, inputs
/// May give another result.
using ForwardHook = Hook<Tensor, Module&, const std::vector<Tensor>&, const Tensor&>;  // module, inputs, output
/// May give another gradient of the output.
using BackwardPreHook = Hook<Tensor, Module&, const Tensor&>;  // module, output_grad
/// May give other gradients of the inputs. A gradient is undefined for an input that wants none.
using BackwardHook = Hook<std::vector<Tensor>, Module&, const std::vector<Tensor>&, const Tensor&>;

// Hooks around a module's state. `prefix` is that of its keys: "" or ending in a dot.

using StatePreHook = std::function<void(Module& module, const std::string& prefix, bool keep_vars)>;
/// May change what the module and everything below it gave.
using StateHook = std::function<void(Module& module, StateDict& state, const std::string& prefix)>;
/// May change what the module is given, before it is looked at.
using LoadPreHook = StateHook;
/// May take keys off the lists (or add some) once everything below the module is loaded.
using LoadHook = std::function<void(Module& module, IncompatibleKeys& keys)>;

}  // namespace core

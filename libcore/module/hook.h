#pragma once
// The functions that a module calls around forward, around backward and around its state. Registered by
// Module::register_...; see module.h. Thread safety: as the functions. Use: net.register_forward_hook([](core::Module&
// m, const std::vector<core::Tensor>& in, const core::Tensor& out) { ... });

#include <concepts>
#include <functional>
#include <optional>
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

// Hooks see the tensors among the arguments of a call and in its result. A hook takes the one output of most modules as
// const Tensor&, or all outputs as const std::vector<Tensor>&, and gives others in the same form; the first form on a
// module that gives several is Error(type).

/// May give other inputs, as many as there are.
using ForwardPreHook = Hook<std::vector<Tensor>, Module&, const std::vector<Tensor>&>;  // module, inputs

/// A hook in one of the two forms. First: the arguments before the outputs (or their gradients).
template <class One, class Many, class... First>
class OutputHook {
 public:
  template <class F>
  requires std::invocable<F&, First..., const Tensor&> OutputHook(F function)
      : one_(std::move(function)) {}  // NOLINT(google-explicit-constructor): any callable
  template <class F>
  requires(!std::invocable<F&, First..., const Tensor&> && std::invocable<F&, First..., const std::vector<Tensor>&>)
      OutputHook(F function)  // NOLINT(google-explicit-constructor): any callable
      : many_(std::move(function)) {}

  using TakesOne = Hook<One, First..., const Tensor&>;
  using TakesMany = Hook<Many, First..., const std::vector<Tensor>&>;
  const std::optional<TakesOne>& one() const { return one_; }
  const std::optional<TakesMany>& many() const { return many_; }

 private:
  std::optional<TakesOne> one_;
  std::optional<TakesMany> many_;
};

/// May give another result: module, inputs, output.
using ForwardHook = OutputHook<Tensor, std::vector<Tensor>, Module&, const std::vector<Tensor>&>;
/// May give another gradient of the output: module, output_grad.
using BackwardPreHook = OutputHook<Tensor, std::vector<Tensor>, Module&>;
/// May give other gradients of the inputs: module, input_grads, output_grad. A gradient is undefined for an input that
/// wants none.
using BackwardHook = OutputHook<std::vector<Tensor>, std::vector<Tensor>, Module&, const std::vector<Tensor>&>;

// Hooks around a module's state. `prefix` is that of its keys: "" or ending in a dot.

using StatePreHook = std::function<void(Module& module, const std::string& prefix, bool keep_vars)>;
/// May change what the module and everything below it gave.
using StateHook = std::function<void(Module& module, StateDict& state, const std::string& prefix)>;
/// May change what the module is given, before it is looked at.
using LoadPreHook = StateHook;
/// May take keys off the lists (or add some) once everything below the module is loaded.
using LoadHook = std::function<void(Module& module, IncompatibleKeys& keys)>;

}  // namespace core

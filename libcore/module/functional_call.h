#pragma once
// Modules as functions of their parameters, as torch.func: functional_call() and stack_module_state().
// Thread safety: the module is changed while its forward runs: one call at a time. Errors(runtime): with strict
// "Error(s) in reparametrizing for Linear:\n\tMissing key(s): 'bias'."; Error(value) "functional_call got multiple
// values for keys ['0.weight', '1.weight'], which are tied. Consider using tie_weights=False".
// Use: core::Tensor y = core::func::functional_call(model, model.named_parameters(), x);

#include <string>
#include <utility>
#include <vector>

#include "libcore/module/module_base.h"
#include "libcore/tensor/tensor.h"

namespace core::func {

struct FunctionalCallOptions {
  bool tie_weights = true;  ///< what is shared inside the module is given once, under any of its names
  bool strict = false;      ///< every parameter and buffer is given, and nothing else
};

namespace detail {

/// Tensors in the place of a module's own while the object lives.
class Substituted {
 public:
  Substituted(Module& module, const NamedTensors& tensors, const FunctionalCallOptions& options);
  ~Substituted();
  Substituted(const Substituted&) = delete;
  Substituted& operator=(const Substituted&) = delete;

 private:
  std::vector<std::pair<Tensor*, Tensor>> own_;
};

}  // namespace detail

/// module(inputs...) with `tensors` (by their full names) in the place of its parameters and buffers, which it has
/// again afterwards. What changes a buffer in place changes the given one.
template <class M, class... Inputs>
auto functional_call(M& module, const NamedTensors& tensors, const FunctionalCallOptions& options,
                     const Inputs&... inputs) {
  const detail::Substituted given(module, tensors, options);
  if constexpr (std::is_same_v<M, Module>) {
    return module.call(inputs...);
  } else {
    return module(inputs...);
  }
}
template <class M, class... Inputs>
auto functional_call(M& module, const NamedTensors& tensors, const Tensor& input, const Inputs&... inputs) {
  return functional_call(module, tensors, FunctionalCallOptions{}, input, inputs...);
}

/// Takes the running statistics out of all batch normalisations in a module, itself included, which then normalise each
/// batch by itself in evaluation too: what vmap() over samples needs.
void replace_all_batch_norm_modules_(Module& root);

struct ModuleState {
  NamedTensors parameters;  ///< leaves that ask for gradients where those of the models do
  NamedTensors buffers;
};
/// The parameters and buffers of models of one class, stacked along a new dimension 0: the arguments for vmap() over an
/// ensemble. Errors(runtime): "stack_module_state: Expected at least one model, got 0.", "... Expected all models to be
/// of the same class.", "... Expected all models to have the same training/eval mode.".
ModuleState stack_module_state(const std::vector<Module*>& models);

}  // namespace core::func

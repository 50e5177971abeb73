// Hooks of modules: around forward, and around backward by two nodes that stand on the inputs and on the output.
#include <algorithm>
#include <utility>

#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/module/hooks.h"

namespace core {

namespace {

using detail::HookList;
using detail::ModuleHooks;

/// What the two nodes of one call share.
struct BackwardCall {
  Module* module;
  std::shared_ptr<ModuleHooks> hooks;
  Tensor output_grad;
  bool has_input_node = false;

  /// The gradients of the inputs after the hooks.
  std::vector<Tensor> finish(std::vector<Tensor> input_grads) {
    for (const auto& [id, hook] : hooks->backward) {
      std::vector<Tensor> others = hook(*module, input_grads, output_grad);
      if (others.empty()) continue;
      if (others.size() != input_grads.size()) {
        throw Error(ErrorCode::runtime, "Backward hook returned an invalid number of grad_input, got " +
                                            std::to_string(others.size()) + ", but expected " +
                                            std::to_string(input_grads.size()));
      }
      input_grads = std::move(others);
    }
    output_grad = {};
    return input_grads;
  }
};

struct BackwardHookFunction : Node {
  std::shared_ptr<BackwardCall> call;
  std::string_view name() const override { return "BackwardHookFunctionBackward"; }
};

struct OutputNode final : BackwardHookFunction {
  TensorList apply(TensorList grads) override {
    for (const auto& [id, hook] : call->hooks->backward_pre) {
      if (Tensor other = hook(*call->module, grads[0]); other.defined()) grads[0] = other;
    }
    call->output_grad = grads[0];
    if (!call->has_input_node) call->finish({Tensor()});
    return grads;
  }
};

struct InputNode final : BackwardHookFunction {
  TensorList apply(TensorList grads) override {
    const std::vector<Tensor> after = call->finish({grads.begin(), grads.end()});
    for (std::size_t i = 0; i < after.size(); ++i) grads[i] = after[i];
    return grads;
  }
};

/// The inputs with the node behind them.
std::vector<Tensor> with_input_node(const std::vector<Tensor>& inputs, const std::shared_ptr<BackwardCall>& call) {
  const bool any = std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return needs_grad(x); });
  if (!any) return inputs;
  auto node = make_intrusive<InputNode>();
  node->call = call;
  call->has_input_node = true;
  std::vector<Tensor> result;
  for (const Tensor& x : inputs) {
    Tensor handle = x.defined() ? x.detach() : x;
    node->add_edge(x);
    if (handle.defined() && handle.is_floating_point()) record(handle, node);
    result.push_back(handle);
  }
  return result;
}

template <class Hook>
bool erase(HookList<Hook>& list, std::int64_t id) {
  return std::erase_if(list, [id](const auto& entry) { return entry.first == id; }) > 0;
}

template <class Hook>
std::int64_t add(ModuleHooks& hooks, HookList<Hook>& list, Hook hook) {
  list.emplace_back(hooks.next_id, std::move(hook));
  return hooks.next_id++;
}

}  // namespace

Tensor detail::hooked_call(Module& module, std::vector<Tensor> inputs,
                           const std::function<Tensor(const std::vector<Tensor>&)>& forward) {
  const std::shared_ptr<ModuleHooks> hooks = module.hooks_;
  for (const auto& [id, hook] : hooks->forward_pre) {
    std::vector<Tensor> others = hook(module, inputs);
    if (others.empty()) continue;
    if (others.size() != inputs.size()) {
      throw Error(ErrorCode::value, "a forward pre-hook of " + module.class_name() + " gave " +
                                        std::to_string(others.size()) + " inputs where the call has " +
                                        std::to_string(inputs.size()));
    }
    inputs = std::move(others);
  }
  const auto call =
      std::make_shared<BackwardCall>(BackwardCall{module.is_replica() ? module.original_ : &module, hooks, {}});
  if (hooks->around_backward()) inputs = with_input_node(inputs, call);
  Tensor output = forward(inputs);
  for (const auto& [id, hook] : hooks->forward) {
    if (Tensor other = hook(module, inputs, output); other.defined()) output = other;
  }
  if (!hooks->around_backward() || !needs_grad(output)) return output;
  auto node = make_node<OutputNode>(output);
  node->call = call;
  Tensor result = output.detach();
  record(result, node);
  return result;
}

const std::shared_ptr<detail::ModuleHooks>& detail::hooks_of(const Module& module) {
  return module.hooks_;
}

detail::ModuleHooks& Module::make_hooks() {
  if (!hooks_) hooks_ = std::make_shared<ModuleHooks>();
  return *hooks_;
}

std::int64_t Module::register_forward_pre_hook(ForwardPreHook hook) {
  ModuleHooks& hooks = make_hooks();
  return add(hooks, hooks.forward_pre, std::move(hook));
}

std::int64_t Module::register_forward_hook(ForwardHook hook) {
  ModuleHooks& hooks = make_hooks();
  return add(hooks, hooks.forward, std::move(hook));
}

std::int64_t Module::register_full_backward_pre_hook(BackwardPreHook hook) {
  ModuleHooks& hooks = make_hooks();
  return add(hooks, hooks.backward_pre, std::move(hook));
}

std::int64_t Module::register_full_backward_hook(BackwardHook hook) {
  ModuleHooks& hooks = make_hooks();
  return add(hooks, hooks.backward, std::move(hook));
}

std::int64_t Module::register_state_dict_pre_hook(StatePreHook hook) {
  ModuleHooks& hooks = make_hooks();
  return add(hooks, hooks.state_pre, std::move(hook));
}

std::int64_t Module::register_state_dict_post_hook(StateHook hook) {
  ModuleHooks& hooks = make_hooks();
  return add(hooks, hooks.state, std::move(hook));
}

std::int64_t Module::register_load_state_dict_pre_hook(LoadPreHook hook) {
  ModuleHooks& hooks = make_hooks();
  return add(hooks, hooks.load_pre, std::move(hook));
}

std::int64_t Module::register_load_state_dict_post_hook(LoadHook hook) {
  ModuleHooks& hooks = make_hooks();
  return add(hooks, hooks.load, std::move(hook));
}

void Module::remove_hook(std::int64_t id) {
  if (!hooks_) return;
  ModuleHooks& h = *hooks_;
  static_cast<void>(erase(h.forward_pre, id) || erase(h.forward, id) || erase(h.backward_pre, id) ||
                    erase(h.backward, id) || erase(h.state_pre, id) || erase(h.state, id) || erase(h.load_pre, id) ||
                    erase(h.load, id));
}

}  // namespace core

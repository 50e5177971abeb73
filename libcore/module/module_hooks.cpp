// Hooks of modules: around forward, and around backward by two nodes that stand on the inputs and on the output.
#include <algorithm>
#include <utility>

#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/hooks.h"

namespace core {

namespace {

using detail::HookList;
using detail::ModuleHooks;

/// For a hook in the form for one output.
const Tensor& only_one(const Module& module, const std::vector<Tensor>& outputs) {
  if (outputs.size() == 1) return outputs.front();
  throw Error(ErrorCode::type, "a hook of module " + quote(module.class_name()) +
                                   " takes one tensor, and the module gives " + std::to_string(outputs.size()) +
                                   ": let it take const std::vector<core::Tensor>& in place of const core::Tensor&");
}

void check_count(const char* what, std::size_t given, std::size_t expected) {
  if (given == expected) return;
  throw Error(ErrorCode::runtime, std::string("Backward hook returned an invalid number of ") + what + ", got " +
                                      std::to_string(given) + ", but expected " + std::to_string(expected));
}

/// What the two nodes of one call share.
struct BackwardCall {
  Module* module;
  std::shared_ptr<ModuleHooks> hooks;
  std::vector<Tensor> output_grads;
  bool has_input_node = false;

  /// The gradients of the outputs after the hooks before backward.
  void begin(std::vector<Tensor> grads) {
    for (const auto& [id, hook] : hooks->backward_pre) {
      if (hook.many()) {
        std::vector<Tensor> others = (*hook.many())(*module, grads);
        if (others.empty()) continue;
        check_count("grad_output", others.size(), grads.size());
        grads = std::move(others);
      } else if (Tensor other = (*hook.one())(*module, only_one(*module, grads)); other.defined()) {
        grads[0] = other;
      }
    }
    output_grads = std::move(grads);
  }

  /// The gradients of the inputs after the hooks.
  std::vector<Tensor> finish(std::vector<Tensor> input_grads) {
    for (const auto& [id, hook] : hooks->backward) {
      std::vector<Tensor> others = hook.many() ? (*hook.many())(*module, input_grads, output_grads)
                                               : (*hook.one())(*module, input_grads, only_one(*module, output_grads));
      if (others.empty()) continue;
      check_count("grad_input", others.size(), input_grads.size());
      input_grads = std::move(others);
    }
    output_grads.clear();
    return input_grads;
  }
};

struct BackwardHookFunction : Node, detail::FollowsConvention {
  std::shared_ptr<BackwardCall> call;
  std::string_view name() const override { return "BackwardHookFunctionBackward"; }
};

struct OutputNode final : BackwardHookFunction {
  TensorList apply(TensorList grads) override {
    call->begin({grads.begin(), grads.end()});
    for (std::size_t i = 0; i < grads.size(); ++i) grads[i] = call->output_grads[i];
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

void run_forward_hooks(Module& module, const ModuleHooks& hooks, const std::vector<Tensor>& inputs,
                       std::vector<Tensor>& outputs) {
  for (const auto& [id, hook] : hooks.forward) {
    if (hook.many()) {
      std::vector<Tensor> others = (*hook.many())(module, inputs, outputs);
      if (others.empty()) continue;
      if (others.size() != outputs.size()) {
        throw Error(ErrorCode::value, "a forward hook of " + module.class_name() + " gave " +
                                          std::to_string(others.size()) + " outputs where the module gives " +
                                          std::to_string(outputs.size()));
      }
      outputs = std::move(others);
    } else if (Tensor other = (*hook.one())(module, inputs, only_one(module, outputs)); other.defined()) {
      outputs[0] = other;
    }
  }
}

/// The outputs in front of one node, that all of their gradients meet in.
std::vector<Tensor> with_output_node(const std::vector<Tensor>& outputs, const std::shared_ptr<BackwardCall>& call) {
  const bool any = std::any_of(outputs.begin(), outputs.end(), [](const Tensor& x) { return needs_grad(x); });
  if (!any) return outputs;
  auto node = make_intrusive<OutputNode>();
  node->call = call;
  std::vector<Tensor> result;
  for (const Tensor& output : outputs) {
    Tensor handle = output.defined() ? output.detach() : output;
    node->add_edge(output);
    if (handle.defined() && handle.is_floating_point()) {
      record(handle, node);
    } else {
      node->add_output(OutputMeta());
    }
    result.push_back(handle);
  }
  return result;
}

}  // namespace

std::vector<Tensor> detail::hooked_call(Module& module, std::vector<Tensor> inputs, const Forward& forward) {
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
  std::vector<Tensor> outputs = forward(inputs);
  run_forward_hooks(module, *hooks, inputs, outputs);
  return hooks->around_backward() ? with_output_node(outputs, call) : outputs;
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

#include "libcore/module/forward_trace.h"

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"

namespace core {
namespace {

/// Hooks on every submodule that tell the trace where it is.
class ModuleScopes {
 public:
  ModuleScopes(Module& module, detail::OpTrace& trace) {
    for (const auto& [name, child] : module.named_modules()) {
      const std::int64_t before = child->register_forward_pre_hook(
          [&trace, name = name](Module&, const std::vector<Tensor>&) { trace.enter(name); });
      const std::int64_t after = child->register_forward_hook(
          [&trace](Module&, const std::vector<Tensor>&, const std::vector<Tensor>&) { trace.leave(); });
      hooks_.push_back({child, before, after});
    }
  }
  ~ModuleScopes() {
    for (const Hooked& one : hooks_) {
      one.module->remove_hook(one.before);
      one.module->remove_hook(one.after);
    }
  }
  ModuleScopes(const ModuleScopes&) = delete;
  ModuleScopes& operator=(const ModuleScopes&) = delete;

 private:
  struct Hooked {
    Module* module;
    std::int64_t before, after;
  };
  std::vector<Hooked> hooks_;
};

std::vector<Tensor> plain_call(Module& module, const std::vector<Tensor>& inputs) {
  if (inputs.size() != 1) {
    throw Error(ErrorCode::usage, "a module with " + std::to_string(inputs.size()) +
                                      " inputs is called through a function: give one that says how");
  }
  return {module.call(inputs[0])};
}

}  // namespace

ForwardTrace trace_forward(Module& module, const NamedTensors& inputs, const TracedForward& forward) {
  const NoGradGuard no_history;
  ForwardTrace result{.trace = std::make_unique<detail::OpTrace>(inputs), .outputs = {}};
  detail::OpTrace& trace = *result.trace;
  for (const TensorSlot& slot : module.tensor_slots()) trace.add_state(slot.name, *slot.tensor);
  std::vector<Tensor> given;
  for (const auto& [name, tensor] : inputs) given.push_back(tensor);
  std::vector<Tensor> outputs;
  {
    const ModuleScopes scopes(module, trace);
    outputs = forward ? forward(module, given) : plain_call(module, given);
  }
  for (const Tensor& output : outputs) result.outputs.push_back(trace.value_of(output));
  trace.stop();
  return result;
}

}  // namespace core

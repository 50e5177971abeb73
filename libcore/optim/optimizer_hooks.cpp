// Hooks of optimizers, and steps that take a closure.
#include <utility>

#include "libcore/autograd/grad_mode.h"
#include "libcore/optim/detail/step_copies.h"
#include "libcore/optim/optimizer.h"
#include "libcore/tensor/op_scope.h"

namespace core {

template <class F>
std::int64_t Optimizer::add_hook(Hooks<F>& hooks, F hook) {
  hooks.emplace_back(next_hook_, std::move(hook));
  return next_hook_++;
}

std::int64_t Optimizer::register_step_pre_hook(Hook hook) {
  return add_hook(before_step_, std::move(hook));
}
std::int64_t Optimizer::register_step_post_hook(Hook hook) {
  return add_hook(after_step_, std::move(hook));
}
std::int64_t Optimizer::register_state_dict_pre_hook(Hook hook) {
  return add_hook(before_state_, std::move(hook));
}
std::int64_t Optimizer::register_state_dict_post_hook(StateHook hook) {
  return add_hook(after_state_, std::move(hook));
}
std::int64_t Optimizer::register_load_state_dict_pre_hook(StateHook hook) {
  return add_hook(before_load_, std::move(hook));
}
std::int64_t Optimizer::register_load_state_dict_post_hook(Hook hook) {
  return add_hook(after_load_, std::move(hook));
}

void Optimizer::remove_hook(std::int64_t id) {
  const auto remove = [id](auto& hooks) {
    std::erase_if(hooks, [id](const auto& entry) { return entry.first == id; });
  };
  for (Hooks<Hook>* hooks : {&before_step_, &after_step_, &before_state_, &after_load_}) remove(*hooks);
  for (Hooks<StateHook>* hooks : {&after_state_, &before_load_}) remove(*hooks);
}

void Optimizer::watch_steps() {
  watches_steps_ = true;
}

void Optimizer::run_step(const std::function<void()>& body) {
  if (watches_steps_) was_stepped_ = true;
  for (const auto& [id, hook] : before_step_) hook(*this);
  {
    const NoGradGuard no_grad;
    body();
  }
  for (const auto& [id, hook] : after_step_) hook(*this);
  if (detail::StepCopies* copies = detail::StepCopies::current(); copies != nullptr && !after_step_.empty()) {
    copies->forget();  // hooks may have changed parameters
  }
}

Tensor Optimizer::step(const Closure& closure) {
  const detail::AnnotationScope event([this] { return event_name("step"); });
  Tensor loss;
  run_step([&] {
    {
      const GradModeGuard grad(true);
      loss = closure();
    }
    for (const ParamGroup& group : param_groups()) update(group);
  });
  return loss;
}

void Optimizer::save_values(OptimizerState&) const {}
void Optimizer::load_values(const OptimizerState&) {}

}  // namespace core

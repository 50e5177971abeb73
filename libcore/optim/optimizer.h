#pragma once
// Optimizer: the base of SGD, Adam and their kin: parameter groups, state, printing. As torch.optim.Optimizer.
// Thread safety: none; step() must not run beside forward or backward.
// Use: core::SGD optimizer(model.parameters(), {.lr = 0.1}); optimizer.zero_grad(); loss.backward(); optimizer.step();

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libcore/optim/options.h"
#include "libcore/tensor/tensor.h"

namespace core {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  /// A schedule refers to its optimizer where that stands: move it before the schedule is made. Of what was moved from,
  /// nothing may be asked any more.
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  /// Computes the loss and its gradients: zero_grad(), forward, backward().
  using Closure = std::function<Tensor()>;

  /// One update of all parameters that have a gradient.
  void step();
  /// The same after a closure, whose loss is returned. LBFGS calls it several times.
  virtual Tensor step(const Closure& closure);
  /// Forgets the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);

  /// May be changed between steps (a schedule does).
  std::vector<ParamGroup>& param_groups() { return *groups_; }
  const std::vector<ParamGroup>& param_groups() const { return *groups_; }
  /// Errors: Error(value) for a parameter that is no leaf or stands in another group.
  void add_param_group(ParamGroup group);
  /// The options that a group gets unless it has its own.
  const OptionMap& defaults() const { return defaults_; }
  /// Whether a step of this group that was recorded as a CUDA graph reads its learning rate at each replay. Without, a
  /// changed rate needs a new recording.
  virtual bool follows_rate(const ParamGroup& /*group*/) const { return false; }
  /// State of a parameter; empty before its first update.
  const ParamState& state_of(const Tensor& param) const;

  /// Tensors are shared, not copied.
  OptimizerState state_dict() const;
  /// Takes over options and state; floating state gets the dtype and device of its parameter, except `step`.
  /// Errors: Error(value) "loaded state dict has a different number of parameter groups" and its like.
  void load_state_dict(const OptimizerState& state);
  /// The same, but tensors that are already where and what they should be become the optimizer's own, uncopied.
  /// REQUIRES: nobody else goes on using them.
  void take_state_dict(OptimizerState state);

  // Hooks, in the order of registration; each gives a number for remove_hook.

  using Hook = std::function<void(Optimizer&)>;
  using StateHook = std::function<void(Optimizer&, OptimizerState&)>;
  std::int64_t register_step_pre_hook(Hook hook);
  std::int64_t register_step_post_hook(Hook hook);
  std::int64_t register_state_dict_pre_hook(Hook hook);
  /// May change what state_dict() gives.
  std::int64_t register_state_dict_post_hook(StateHook hook);
  /// May change what load_state_dict() takes; it works on a copy.
  std::int64_t register_load_state_dict_pre_hook(StateHook hook);
  std::int64_t register_load_state_dict_post_hook(Hook hook);
  void remove_hook(std::int64_t id);

  /// For schedules, which warn when they go first: from the first call on, steps are noticed.
  void watch_steps();
  /// Whether step() was called since the first watch_steps().
  bool was_stepped() const { return was_stepped_; }

  /// "SGD (\nParameter Group 0\n    lr: 0.1\n ...)".
  std::string str() const;
  const std::string& name() const { return name_; }

 protected:
  /// `defaults` in the order in which state_dict lists them. Error(value) "optimizer got an empty parameter list".
  Optimizer(std::string name, std::vector<ParamGroup> groups, OptionMap defaults);

  /// Updates the parameters of one group; each_gradient() gives them.
  virtual void update(const ParamGroup& group) = 0;
  /// Calls body(param, grad, state) for every parameter that has a gradient; `state` is empty the first time.
  template <class Body>
  void each_gradient(const ParamGroup& group, Body body) {
    for (const Tensor& param : group.params) {
      const Tensor& grad = gradient_of(param);
      if (!grad.defined()) continue;
      if (!takes_sparse_) check_dense(grad);
      body(param, grad, state_[param.impl()]);
    }
  }
  /// For optimizers that know sparse gradients; others refuse them: Error(runtime) "RMSprop does not support sparse
  /// gradients".
  void take_sparse() { takes_sparse_ = true; }
  ParamState& mutable_state_of(const Tensor& param) { return state_[param.impl()]; }
  /// For optimizers that keep more than tensors: adds OptimizerState::values, takes them back.
  virtual void save_values(OptimizerState& state) const;
  virtual void load_values(const OptimizerState& state);
  /// Runs `body` as one step: without history, between the hooks of steps.
  void run_step(const std::function<void()>& body);
  /// "Optimizer.step#SGD.step": what profiles call it.
  std::string event_name(const char* call) const;

 private:
  void check_params(const ParamGroup& group) const;
  /// param.grad() without a handle of its own.
  static const Tensor& gradient_of(const Tensor& param);
  void take_state(const OptimizerState& state, bool copies);
  void check_capture() const;
  void check_dense(const Tensor& grad) const;

  std::unordered_map<const TensorImpl*, ParamState> state_;  // looked up only: order comes from the groups

  template <class F>
  using Hooks = std::vector<std::pair<std::int64_t, F>>;
  template <class F>
  std::int64_t add_hook(Hooks<F>& hooks, F hook);
  Hooks<Hook> before_step_, after_step_, before_state_, after_load_;
  Hooks<StateHook> after_state_, before_load_;
  std::int64_t next_hook_ = 0;
  bool watches_steps_ = false, was_stepped_ = false;
  bool takes_sparse_ = false;

  std::string name_;
  OptionMap defaults_;
  std::unique_ptr<std::vector<ParamGroup>> groups_ = std::make_unique<std::vector<ParamGroup>>();  // stays where it is
};

std::ostream& operator<<(std::ostream& out, const Optimizer& optimizer);

namespace detail {
/// One group that holds everything.
std::vector<ParamGroup> one_group(const std::vector<Tensor>& params);
/// Error(value) "Invalid learning rate: -1" unless `ok`.
void check_option(bool ok, const char* what, const Scalar& value);
}  // namespace detail

}  // namespace core

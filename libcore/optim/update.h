#pragma once
// The arithmetic of the optimizers over plain arrays: one pass per parameter that updates it and its state together,
// with the roundings of PyTorch's sequence of operations (each result rounded once, products added with fused
// multiply-add). Thread safety: pure functions of their arrays, which must not overlap. Use: update_sgd<float>({.p = p,
// .g = g, ...});

#include <cstdint>

namespace core::detail {

/// What every optimizer works on: n elements of a parameter and its gradient.
template <class T>
struct UpdateArrays {
  T* p;
  const T* g;
  std::int64_t n;
};

struct CommonUpdate {
  double lr;
  double weight_decay;  ///< added to the gradient as weight_decay * p
  bool maximize;
};

struct SgdUpdate {
  CommonUpdate common;
  double momentum;
  double dampening;
  bool nesterov;
  bool first;  ///< the momentum buffer is new: it becomes the gradient
};
/// `buffer` is null without momentum.
template <class T>
void update_sgd(UpdateArrays<T> arrays, T* buffer, const SgdUpdate& how);

struct AdamUpdate {
  CommonUpdate common;
  double beta1;
  double beta2;
  double eps;
  bool decoupled;          ///< weight decay shrinks the parameter instead (AdamW)
  double step = 0;         ///< 1 for the first; set_step() changes it
  double rate = 0;         ///< -lr over the correction of the first moment
  double correction2 = 0;  ///< of the root of the second moment
};
/// Parameters that were updated as often share the powers that this takes.
void set_step(AdamUpdate& how, double step);
template <class T>
struct AdamState {
  T* exp_avg;
  T* exp_avg_sq;
  T* max_exp_avg_sq;  ///< null without amsgrad
};
template <class T>
void update_adam(UpdateArrays<T> arrays, AdamState<T> state, const AdamUpdate& how);

struct RmspropUpdate {
  CommonUpdate common;
  double alpha;
  double eps;
  double momentum;
};
template <class T>
struct RmspropState {
  T* square_avg;
  T* momentum_buffer;  ///< null without momentum
  T* grad_avg;         ///< null unless centered
};
template <class T>
void update_rmsprop(UpdateArrays<T> arrays, RmspropState<T> state, const RmspropUpdate& how);

struct AdagradUpdate {
  CommonUpdate common;
  double rate;  ///< the learning rate after its decay
  double eps;
};
template <class T>
void update_adagrad(UpdateArrays<T> arrays, T* sum, const AdagradUpdate& how);

struct AdadeltaUpdate {
  CommonUpdate common;
  double rho;
  double eps;
};
template <class T>
struct AdadeltaState {
  T* square_avg;
  T* acc_delta;
};
template <class T>
void update_adadelta(UpdateArrays<T> arrays, AdadeltaState<T> state, const AdadeltaUpdate& how);

}  // namespace core::detail

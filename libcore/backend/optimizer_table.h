#pragma once
// The optimizer family of kernels: one step of an optimizer over a list of tensors at once, so that a model of hundreds
// of small parameters costs a few launches. The CPU fills SGD, Adam, RMSprop, Adagrad and Adadelta for f32 and f64;
// where a slot is null, optim/ takes single operations. Thread safety: parameters are plain values, the table is
// constant after start-up. Use: backend.ops().optimizer->adam[dtype](core::AdamStepParams{...});

#include <array>
#include <cstdint>

#include "libcore/base/dtype.h"

namespace core {

/// What every optimizer does to its gradient, and how far it goes.
struct StepOptions {
  double lr;
  double weight_decay;  ///< added to the gradient as weight_decay * param
  bool maximize;
};

/// A parameter, its gradient and its state: dense arrays of `count` elements of one dtype that do not overlap.
struct SgdTensor {
  std::int64_t count;
  void* param;
  const void* grad;
  void* momentum;    ///< null without momentum
  const double* lr;  ///< read in place of the options', in device memory: for steps that are recorded; or null
  bool first;        ///< the momentum is new: it becomes the gradient
};

struct SgdStepParams {
  StepOptions options;
  double momentum, dampening;
  bool nesterov;
  const SgdTensor* tensors;
  std::int64_t tensor_count;
};

struct AdamTensor {
  std::int64_t count;
  void* param;
  const void* grad;
  void* exp_avg;
  void* exp_avg_sq;
  void* max_exp_avg_sq;  ///< null without amsgrad
  double step;           ///< 1 for the first; not read where there is a counter
  float* step_count;     ///< steps taken so far, in device memory, counted up here: for steps that are recorded once
                         ///< and run again; or null
  const double* lr;      ///< read in place of the options' where there is a counter, in device memory; or null
};

struct AdamStepParams {
  StepOptions options;
  double beta1, beta2, eps;
  bool decoupled;  ///< weight decay shrinks the parameter instead (AdamW)
  const AdamTensor* tensors;
  std::int64_t tensor_count;
};

/// A tensor of the other optimizers. What `state` and `factors` are, each row of the table says; `factors` are what the
/// number of steps makes of the options, and may differ from tensor to tensor.
struct AdaptiveTensor {
  std::int64_t count;
  void* param;
  const void* grad;
  void* state[3];
  double factors[3];
};

struct AdaptiveStepParams {
  StepOptions options;
  bool decoupled;  ///< weight decay shrinks the parameter instead
  double numbers[4];
  const AdaptiveTensor* tensors;
  std::int64_t tensor_count;
};

/// By dtype of the parameters; f16 and bf16 are computed in f32.
struct OptimizerTable {
  std::array<void (*)(const SgdStepParams&), kDTypeCount> sgd{};
  std::array<void (*)(const AdamStepParams&), kDTypeCount> adam{};

  using AdaptiveRow = std::array<void (*)(const AdaptiveStepParams&), kDTypeCount>;
  /// numbers: alpha, eps, momentum; state: square_avg, momentum_buffer or null, grad_avg or null.
  AdaptiveRow rmsprop{};
  /// numbers: eps; state: sum; factors: the learning rate after its decay.
  AdaptiveRow adagrad{};
  /// numbers: rho, eps; state: square_avg, acc_delta.
  AdaptiveRow adadelta{};
  /// numbers: beta1, beta2, eps; state: exp_avg, exp_inf; factors: the learning rate over the correction.
  AdaptiveRow adamax{};
  /// numbers: beta1, beta2, eps; state: exp_avg, exp_avg_sq; factors: what the gradient and what exp_avg is multiplied
  /// by, both negative, and the correction of the second moment.
  AdaptiveRow nadam{};
  /// numbers: beta1, beta2, eps; state: exp_avg, exp_avg_sq; factors: the learning rate over the correction of the
  /// first moment, that times the rectification and the root of the second moment's correction, or 0 as long as the
  /// variance is unknown.
  AdaptiveRow radam{};
  /// numbers: lambda; state: ax; factors: eta, mu.
  AdaptiveRow asgd{};
  /// numbers: the factors of a step that turned and of one that went on, the smallest and the largest step; state:
  /// prev, step_size.
  AdaptiveRow rprop{};
};

}  // namespace core

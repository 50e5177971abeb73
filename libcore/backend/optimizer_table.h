#pragma once
// The optimizer family of kernels: one step of SGD, Adam or AdamW over a list of tensors at once, so that a model of
// hundreds of small parameters costs a few launches. The arithmetic is that of optim/update.h. Only devices whose
// memory the host cannot write fill it. Thread safety: parameters are plain values, the table is constant after
// start-up. Use: backend.ops().optimizer->adam[dtype](core::AdamStepParams{...});

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
  void* momentum;  ///< null without momentum
  bool first;      ///< the momentum is new: it becomes the gradient
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
};

struct AdamStepParams {
  StepOptions options;
  double beta1, beta2, eps;
  bool decoupled;  ///< weight decay shrinks the parameter instead (AdamW)
  const AdamTensor* tensors;
  std::int64_t tensor_count;
};

/// By dtype of the parameters; f16 and bf16 are computed in f32.
struct OptimizerTable {
  std::array<void (*)(const SgdStepParams&), kDTypeCount> sgd{};
  std::array<void (*)(const AdamStepParams&), kDTypeCount> adam{};
};

}  // namespace core

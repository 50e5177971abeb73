// Steps of SGD and Adam. What happens to an element is what the CPU does (cpu/optimizer/optimizer.cpp), with the same
// roundings.
#include <cmath>

#include "libcore/backend/cuda/kernels/optimizer_lists.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

/// Counts up the steps that are counted on the device.
template <class Tensor>
void count_steps(const TensorBatch<Tensor>& batch) {
  bool any = false;
  for (int i = 0; i < batch.count; ++i) any = any || batch.tensors[i].step_count != nullptr;
  if (!any) return;
  for_each(batch.count, [=] CORE_BODY(std::int64_t i) {
    float* count = batch.tensors[i].step_count;
    if (count != nullptr) *count += 1;
  });
}

/// With the learning rate of the options, or of device memory.
struct SgdRun : SgdTensor {
  double rate;
};

template <class T>
struct SgdUpdate {
  using W = Computed<T>;
  StepGradient<W> gradient;
  double rate;
  W momentum, fresh;
  bool nesterov;

  using Stored = T;
  static constexpr int kArrays = 3;
  CORE_HD static const void* array(const SgdTensor& tensor, int k) {
    return k == kParameter ? tensor.param : k == kGradient ? tensor.grad : tensor.momentum;
  }
  SgdRun start(const SgdTensor& tensor, const SgdRun*) const { return {tensor, rate}; }
  CORE_BODY SgdRun ready(SgdRun run) const {
    if (run.lr != nullptr) run.rate = *run.lr;
    return run;
  }
  CORE_BODY void operator()(const SgdRun& tensor, W* element) const {
    const W p = element[kParameter];
    W step = gradient(element[kGradient], p);
    if (tensor.momentum != nullptr) {
      W& velocity = element[2];
      velocity = tensor.first ? step : std::fma(step, fresh, velocity * momentum);
      step = nesterov ? std::fma(velocity, momentum, step) : velocity;
    }
    element[kParameter] = std::fma(step, static_cast<W>(-tensor.rate), p);
  }
};

template <class T>
void sgd(const SgdStepParams& p) {
  using W = Computed<T>;
  const SgdUpdate<T> update{StepGradient<W>(p.options), p.options.lr, static_cast<W>(p.momentum),
                            static_cast<W>(1 - p.dampening), p.nesterov};
  for_each_tensor<SgdRun>(p, update);
}

/// With what its number of steps makes of the options.
struct AdamRun : AdamTensor {
  double rate;         // -lr over the correction of the first moment
  double correction2;  // of the root of the second moment
  double kept;         // of the parameter, where weight decay shrinks it
};

template <class T>
struct AdamUpdate {
  using W = Computed<T>;
  StepGradient<W> gradient;
  W weight1, beta2, weight2, eps;
  double lr, exact_beta1, exact_beta2, shrinking;

  explicit AdamUpdate(const AdamStepParams& p)
      : gradient({p.options.lr, p.decoupled ? 0 : p.options.weight_decay, p.options.maximize}),
        weight1(static_cast<W>(1 - p.beta1)),
        beta2(static_cast<W>(p.beta2)),
        weight2(static_cast<W>(1 - p.beta2)),
        eps(static_cast<W>(p.eps)),
        lr(p.options.lr),
        exact_beta1(p.beta1),
        exact_beta2(p.beta2),
        shrinking(p.decoupled ? p.options.weight_decay : 0) {}

  CORE_HD void set_step(AdamRun& run, double step, double rate) const {
    run.rate = -(rate / (1 - std::pow(exact_beta1, step)));
    run.correction2 = std::sqrt(1 - std::pow(exact_beta2, step));
    run.kept = 1 - rate * shrinking;
  }
  /// Neighbours have mostly taken as many steps: they share the powers.
  AdamRun start(const AdamTensor& tensor, const AdamRun* before) const {
    AdamRun run{tensor, 0, 0, 1};
    if (before != nullptr && before->step == tensor.step) {
      run.rate = before->rate;
      run.correction2 = before->correction2;
      run.kept = before->kept;
    } else {
      set_step(run, tensor.step, lr);
    }
    return run;
  }
  CORE_BODY AdamRun ready(AdamRun run) const {
    if (run.step_count == nullptr) return run;
    set_step(run, static_cast<double>(*run.step_count) + 1, run.lr != nullptr ? *run.lr : lr);
    return run;
  }
  using Stored = T;
  static constexpr int kArrays = 5;
  CORE_HD static const void* array(const AdamTensor& tensor, int k) {
    const void* arrays[] = {tensor.param, tensor.grad, tensor.exp_avg, tensor.exp_avg_sq, tensor.max_exp_avg_sq};
    return arrays[k];
  }
  CORE_BODY void operator()(const AdamRun& run, W* element) const {
    const W old = element[kParameter] * static_cast<W>(run.kept);
    const W grad = gradient(element[kGradient], old);
    W &mean = element[2], &square = element[3], &top = element[4];
    mean = lerp_between<W>(mean, grad, weight1);
    square = std::fma(weight2 * grad, grad, square * beta2);
    W second = square;
    if (run.max_exp_avg_sq != nullptr) second = top = top < second ? second : top;
    const W denominator = std::sqrt(second) / static_cast<W>(run.correction2) + eps;
    element[kParameter] = old + static_cast<W>(run.rate) * mean / denominator;
  }
};

template <class T>
void adam(const AdamStepParams& p) {
  const AdamUpdate<T> update(p);
  for_each_tensor<AdamRun>(p, update, count_steps<AdamRun>);
}

}  // namespace

void fill_optimizers(OptimizerTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.sgd[slot] = sgd<T>;
    table.adam[slot] = adam<T>;
  });
  fill_adaptive_optimizers(table);
}

}  // namespace core::CORE_KERNELS

// Steps of optimizers over lists of tensors: a few dozen tensors a launch, each cut into runs that a team updates. What
// happens to an element is what optim/update.cpp does on the host, with the same roundings.
#include <cmath>

#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tables.h"

namespace core::CORE_KERNELS {
namespace {

constexpr std::int64_t kRun = 16384;  // elements of a team
constexpr std::int64_t kLanes = 512;
constexpr int kTensors = 32;  // of a launch: they travel as its argument, of which 4 KiB are allowed

/// Some tensors of a list, and the runs they are cut into.
template <class Tensor>
struct Batch {
  Tensor tensors[kTensors];
  std::int64_t first_run[kTensors + 1];  // of each tensor; behind them the number of runs
  int count = 0;

  struct Run {
    int tensor;
    std::int64_t begin, end;
  };
  CORE_BODY Run run(std::int64_t index) const {
    int low = 0, high = count;  // the last tensor whose first run is not behind `index`
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first_run[middle] <= index ? low : high) = middle;
    }
    const std::int64_t begin = (index - first_run[low]) * kRun;
    return {low, begin, smaller(tensors[low].count, begin + kRun)};
  }
};

/// Counts up the steps that are counted on the device.
inline void finish(const Batch<SgdTensor>&) {}
template <class Tensor>
void finish(const Batch<Tensor>& batch) {
  bool any = false;
  for (int i = 0; i < batch.count; ++i) any = any || batch.tensors[i].step_count != nullptr;
  if (!any) return;
  for_each(batch.count, [=] CORE_BODY(std::int64_t i) {
    float* count = batch.tensors[i].step_count;
    if (count != nullptr) *count += 1;
  });
}

/// update(update.ready(tensor), element) for every element of every tensor.
template <class Tensor, class Update, class Params>
void for_each_tensor(const Params& p, const Update& update) {
  const std::int64_t count = p.tensor_count;
  for (std::int64_t first = 0; first < count; first += kTensors) {
    Batch<Tensor> batch;
    batch.count = static_cast<int>(smaller<std::int64_t>(kTensors, count - first));
    batch.first_run[0] = 0;
    for (int i = 0; i < batch.count; ++i) {
      batch.tensors[i] = update.start(p.tensors[first + i], i == 0 ? nullptr : &batch.tensors[i - 1]);
      batch.first_run[i + 1] = batch.first_run[i] + divide_up(batch.tensors[i].count, kRun);
    }
    for_each_row(batch.first_run[batch.count], kLanes, [=] CORE_BODY(const Team& team, std::int64_t index) {
      const auto run = batch.run(index);
      const Tensor tensor = update.ready(batch.tensors[run.tensor]);
      for (std::int64_t i = run.begin + team.lane(); i < run.end; i += team.size()) update(tensor, i);
    });
    finish(batch);
  }
}

/// The gradient after maximize and weight decay.
template <class W>
struct Gradient {
  W sign, decay;

  explicit Gradient(const StepOptions& o) : sign(o.maximize ? W(-1) : W(1)), decay(static_cast<W>(o.weight_decay)) {}
  CORE_BODY W operator()(W g, W p) const { return decay == 0 ? g * sign : std::fma(p, decay, g * sign); }
};

template <class T>
struct SgdUpdate {
  using W = Computed<T>;
  Gradient<W> gradient;
  W rate, momentum, fresh;
  bool nesterov;

  SgdTensor start(const SgdTensor& tensor, const SgdTensor*) const { return tensor; }
  CORE_BODY const SgdTensor& ready(const SgdTensor& tensor) const { return tensor; }
  CORE_BODY void operator()(const SgdTensor& tensor, std::int64_t i) const {
    T* param = static_cast<T*>(tensor.param);
    T* momenta = static_cast<T*>(tensor.momentum);
    const W p = widen(param[i]);
    W step = gradient(widen(static_cast<const T*>(tensor.grad)[i]), p);
    if (momenta != nullptr) {
      const W velocity = tensor.first ? step : std::fma(step, fresh, widen(momenta[i]) * momentum);
      momenta[i] = narrow<T>(velocity);
      step = nesterov ? std::fma(velocity, momentum, step) : velocity;
    }
    param[i] = narrow<T>(std::fma(step, rate, p));
  }
};

template <class T>
void sgd(const SgdStepParams& p) {
  using W = Computed<T>;
  const SgdUpdate<T> update{Gradient<W>(p.options), static_cast<W>(-p.options.lr), static_cast<W>(p.momentum),
                            static_cast<W>(1 - p.dampening), p.nesterov};
  for_each_tensor<SgdTensor>(p, update);
}

/// With what its number of steps makes of the options.
struct AdamRun : AdamTensor {
  double rate;         // -lr over the correction of the first moment
  double correction2;  // of the root of the second moment
};

/// start + weight * (end - start), from the nearer end.
template <class W>
CORE_BODY W lerp_between(W start, W end, W weight) {
  return weight < W(0.5) ? std::fma(weight, end - start, start) : std::fma(weight - 1, end - start, end);
}

template <class T>
struct AdamUpdate {
  using W = Computed<T>;
  Gradient<W> gradient;
  W shrink, weight1, beta2, weight2, eps;
  double lr, exact_beta1, exact_beta2;

  explicit AdamUpdate(const AdamStepParams& p)
      : gradient({p.options.lr, p.decoupled ? 0 : p.options.weight_decay, p.options.maximize}),
        shrink(p.decoupled ? static_cast<W>(1 - p.options.lr * p.options.weight_decay) : W(1)),
        weight1(static_cast<W>(1 - p.beta1)),
        beta2(static_cast<W>(p.beta2)),
        weight2(static_cast<W>(1 - p.beta2)),
        eps(static_cast<W>(p.eps)),
        lr(p.options.lr),
        exact_beta1(p.beta1),
        exact_beta2(p.beta2) {}

  CORE_HD void set_step(AdamRun& run, double step) const {
    run.rate = -(lr / (1 - std::pow(exact_beta1, step)));
    run.correction2 = std::sqrt(1 - std::pow(exact_beta2, step));
  }
  /// Neighbours have mostly taken as many steps: they share the powers.
  AdamRun start(const AdamTensor& tensor, const AdamRun* before) const {
    AdamRun run{tensor, 0, 0};
    if (before != nullptr && before->step == tensor.step) {
      run.rate = before->rate;
      run.correction2 = before->correction2;
    } else {
      set_step(run, tensor.step);
    }
    return run;
  }
  CORE_BODY AdamRun ready(AdamRun run) const {
    if (run.step_count != nullptr) set_step(run, static_cast<double>(*run.step_count) + 1);
    return run;
  }
  CORE_BODY void operator()(const AdamRun& run, std::int64_t i) const {
    T *param = static_cast<T*>(run.param), *means = static_cast<T*>(run.exp_avg);
    T *squares = static_cast<T*>(run.exp_avg_sq), *tops = static_cast<T*>(run.max_exp_avg_sq);
    const W old = widen(param[i]) * shrink;
    const W grad = gradient(widen(static_cast<const T*>(run.grad)[i]), old);
    const W mean = lerp_between<W>(widen(means[i]), grad, weight1);
    W second = std::fma(weight2 * grad, grad, widen(squares[i]) * beta2);
    means[i] = narrow<T>(mean);
    squares[i] = narrow<T>(second);
    if (tops != nullptr) {
      const W top = widen(tops[i]);
      second = top < second ? second : top;
      tops[i] = narrow<T>(second);
    }
    const W denominator = std::sqrt(second) / static_cast<W>(run.correction2) + eps;
    param[i] = narrow<T>(old + static_cast<W>(run.rate) * mean / denominator);
  }
};

template <class T>
void adam(const AdamStepParams& p) {
  const AdamUpdate<T> update(p);
  for_each_tensor<AdamRun>(p, update);
}

}  // namespace

void fill_optimizers(OptimizerTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.sgd[slot] = sgd<T>;
    table.adam[slot] = adam<T>;
  });
}

}  // namespace core::CORE_KERNELS

// Steps of optimizers: one pass for each parameter, which updates it and its state together, with the roundings of
// PyTorch's sequence of operations (each result rounded once, products added with fused multiply-add, which the
// baseline calls the C library for). Elements do not see each other, so results do not depend on the number of threads.
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "libcore/backend/cpu/optimizer/denormal_moments.h"
#include "libcore/backend/cpu/optimizer/step_grain.h"
#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"
#include "libcore/backend/optimizer_table.h"

namespace core::cpu {
namespace {

/// The gradient after maximize and weight decay.
template <class T>
struct Gradient {
  T sign;
  T decay;
  Gradient(const StepOptions& options, double weight_decay)
      : sign(options.maximize ? T(-1) : T(1)), decay(static_cast<T>(weight_decay)) {}
  [[gnu::always_inline]] T operator()(T g, T p) const {
    T signed_g = g * sign;
    return decay == 0 ? signed_g : std::fma(p, decay, signed_g);
  }
};

/// start + weight * (end - start), from the nearer end.
template <class T>
[[gnu::always_inline]] inline T lerp_between(T start, T end, T weight) {
  return weight < T(0.5) ? std::fma(weight, end - start, start) : std::fma(weight - 1, end - start, end);
}

template <class T>
void sgd_range(const SgdStepParams& how, const SgdTensor& tensor, std::int64_t begin, std::int64_t end) {
  const Gradient<T> gradient(how.options, how.options.weight_decay);
  const T rate = static_cast<T>(-(tensor.lr != nullptr ? *tensor.lr : how.options.lr));
  const T momentum = static_cast<T>(how.momentum);
  const T fresh = static_cast<T>(1 - how.dampening);
  const bool first = tensor.first, nesterov = how.nesterov;
  T* __restrict p = static_cast<T*>(tensor.param);
  const T* __restrict g = static_cast<const T*>(tensor.grad);
  T* __restrict b = static_cast<T*>(tensor.momentum);
  for (std::int64_t i = begin; i < end; ++i) {
    T step = gradient(g[i], p[i]);
    if (b != nullptr) {
      T velocity = first ? step : std::fma(step, fresh, b[i] * momentum);
      b[i] = velocity;
      step = nesterov ? std::fma(velocity, momentum, step) : velocity;
    }
    p[i] = std::fma(step, rate, p[i]);
  }
}

template <class T>
void sgd(const SgdStepParams& how) {
  for (std::int64_t i = 0; i < how.tensor_count; ++i) {
    const SgdTensor& tensor = how.tensors[i];
    parallel_for(tensor.count, kStepGrain,
                 [&](std::int64_t begin, std::int64_t end) { sgd_range<T>(how, tensor, begin, end); });
  }
}

/// Quotients by one number, each correctly rounded: what a product with its inverse leaves is added, which takes a
/// quarter of a division's time. Twice, as Markstein's theorem asks for a quotient next to the right one.
/// REQUIRES of numerators: 0, or so large that the rest is no denormal number (roots are).
template <class T>
struct Divided {
  T by, inverse;
  explicit Divided(T number) : by(number), inverse(1 / number) {}
  [[gnu::always_inline]] T operator()(T x) const {
#if defined(__FMA__)
    const T near = x * inverse;
    const T next = std::fma(std::fma(-near, by, x), inverse, near);
    const T right = std::fma(std::fma(-next, by, x), inverse, next);
    return x < std::numeric_limits<T>::infinity() ? right : x;
#else
    return x / by;
#endif
  }
};

/// What the number of steps makes of the options.
struct AdamRates {
  double step = 0;
  double lr = 0;
  double rate = 0;         ///< -lr over the correction of the first moment
  double correction2 = 0;  ///< of the root of the second moment

  /// Tensors that were updated as often share the powers that this takes.
  void set(const AdamStepParams& how, double new_step, double new_lr) {
    if (new_step == step && new_lr == lr) return;
    step = new_step;
    lr = new_lr;
    rate = -(lr / (1 - std::pow(how.beta1, step)));
    correction2 = std::sqrt(1 - std::pow(how.beta2, step));
  }
};

template <class T, bool kTop, bool kDecay>
void adam_range(const AdamStepParams& how, const AdamTensor& tensor, const AdamRates& rates, std::int64_t begin,
                std::int64_t end) {
  const Gradient<T> gradient(how.options, how.decoupled ? 0 : how.options.weight_decay);
  const T shrink = how.decoupled ? static_cast<T>(1 - rates.lr * how.options.weight_decay) : T(1);
  const T weight1 = static_cast<T>(1 - how.beta1);
  const T beta2 = static_cast<T>(how.beta2);
  const T weight2 = static_cast<T>(1 - how.beta2);
  const T rate = static_cast<T>(rates.rate);
  const Divided<T> corrected(static_cast<T>(rates.correction2));
  const T eps = static_cast<T>(how.eps);
  T* __restrict p = static_cast<T*>(tensor.param);
  const T* __restrict g = static_cast<const T*>(tensor.grad);
  T* __restrict m = static_cast<T*>(tensor.exp_avg);
  T* __restrict v = static_cast<T*>(tensor.exp_avg_sq);
  T* __restrict top = static_cast<T*>(tensor.max_exp_avg_sq);
  for (std::int64_t i = begin; i < end; ++i) {
    T old = p[i];
    T grad = g[i] * gradient.sign;
    if constexpr (kDecay) {
      old = old * shrink;
      grad = gradient(g[i], old);
    }
    const T mean = lerp_between(m[i], grad, weight1);
    T second = std::fma(weight2 * grad, grad, v[i] * beta2);
    m[i] = mean;
    v[i] = second;
    if constexpr (kTop) {
      second = top[i] < second ? second : top[i];
      top[i] = second;
    }
    T denominator = corrected(std::sqrt(second)) + eps;
    p[i] = old + rate * mean / denominator;
  }
}

/// adam_range() of f32 where denormal numbers among the moments are looked for, block by block.
template <bool kDecay>
void adam_range_of_floats(const AdamStepParams& how, const AdamTensor& tensor, const AdamRates& rates,
                          std::int64_t begin, std::int64_t end) {
  const auto range = adam_range<float, false, kDecay>;
  const bool decays = kDecay && !how.decoupled;
  const DenormalRules rules(how.options.maximize ? -1.0F : 1.0F, decays ? how.options.weight_decay : 0,
                            static_cast<float>(1 - how.beta1), static_cast<float>(how.beta2),
                            kDecay && how.decoupled ? static_cast<float>(1 - rates.lr * how.options.weight_decay) : 1,
                            static_cast<float>(rates.rate), static_cast<float>(rates.correction2),
                            static_cast<float>(how.eps));
  if (!rules.allowed) return range(how, tensor, rates, begin, end);
  const auto *p = static_cast<const float*>(tensor.param), *g = static_cast<const float*>(tensor.grad);
  auto *m = static_cast<float*>(tensor.exp_avg), *v = static_cast<float*>(tensor.exp_avg_sq);
  constexpr int kMost = 32;  // blocks that are kept at once
  ReplacedMoments kept[kMost];
  int count = 0;
  std::int64_t done = begin;
  const auto step_up_to = [&](std::int64_t last) {
    range(how, tensor, rates, done, last);
    for (int i = 0; i < count; ++i) kept[i].put_back(m + kept[i].at, v + kept[i].at);
    count = 0;
    done = last;
  };
  for (std::int64_t i = begin; i + kBlock <= end; i += kBlock) {
    if (!has_denormal(m + i, v + i)) continue;
    kept[count].at = i;
    ReplacedMoments& block = kept[count];
    const bool replaced =
        block.replace_still(rules, p + i, g + i, m + i, v + i) || block.replace(rules, p + i, g + i, m + i, v + i);
    if (replaced && ++count == kMost) step_up_to(i + kBlock);
  }
  step_up_to(end);
}

template <class T>
void adam(const AdamStepParams& how) {
  using Range = void (*)(const AdamStepParams&, const AdamTensor&, const AdamRates&, std::int64_t, std::int64_t);
  Range ranges[2][2] = {{adam_range<T, false, false>, adam_range<T, false, true>},
                        {adam_range<T, true, false>, adam_range<T, true, true>}};
  if constexpr (std::is_same_v<T, float>) {
    ranges[0][0] = adam_range_of_floats<false>;
    ranges[0][1] = adam_range_of_floats<true>;
  }
  AdamRates rates;
  for (std::int64_t i = 0; i < how.tensor_count; ++i) {
    const AdamTensor& tensor = how.tensors[i];
    if (tensor.step_count != nullptr) *tensor.step_count += 1;
    const bool counted = tensor.step_count != nullptr;
    rates.set(how, counted ? static_cast<double>(*tensor.step_count) : tensor.step,
              counted && tensor.lr != nullptr ? *tensor.lr : how.options.lr);
    const Range range = ranges[tensor.max_exp_avg_sq != nullptr][how.options.weight_decay != 0];
    parallel_for(tensor.count, kStepGrain,
                 [&](std::int64_t begin, std::int64_t end) { range(how, tensor, rates, begin, end); });
  }
}

// The others. Their tables' rows (optimizer_table.h) say what numbers, state and factors are.

template <class T>
void rmsprop_tensor(const AdaptiveStepParams& how, const AdaptiveTensor& tensor) {
  const Gradient<T> gradient(how.options, how.options.weight_decay);
  const T alpha = static_cast<T>(how.numbers[0]);
  const T weight = static_cast<T>(1 - how.numbers[0]);
  const T eps = static_cast<T>(how.numbers[1]);
  const T momentum = static_cast<T>(how.numbers[2]);
  const T rate = static_cast<T>(-how.options.lr);
  T* __restrict p = static_cast<T*>(tensor.param);
  const T* __restrict g = static_cast<const T*>(tensor.grad);
  T* __restrict s = static_cast<T*>(tensor.state[0]);
  T* __restrict b = static_cast<T*>(tensor.state[1]);
  T* __restrict a = static_cast<T*>(tensor.state[2]);
  for (std::int64_t i = 0; i < tensor.count; ++i) {
    T grad = gradient(g[i], p[i]);
    s[i] = std::fma(weight * grad, grad, s[i] * alpha);
    T square = s[i];
    if (a != nullptr) {
      a[i] = lerp_between(a[i], grad, weight);
      square = std::fma(-a[i], a[i], square);
    }
    T average = std::sqrt(square) + eps;
    if (b != nullptr) {
      b[i] = b[i] * momentum + grad / average;
      p[i] = std::fma(b[i], rate, p[i]);
    } else {
      p[i] = p[i] + rate * grad / average;
    }
  }
}

template <class T>
void adagrad_tensor(const AdaptiveStepParams& how, const AdaptiveTensor& tensor) {
  const Gradient<T> gradient(how.options, how.options.weight_decay);
  const T rate = static_cast<T>(-tensor.factors[0]);
  const T eps = static_cast<T>(how.numbers[0]);
  T* __restrict p = static_cast<T*>(tensor.param);
  const T* __restrict g = static_cast<const T*>(tensor.grad);
  T* __restrict s = static_cast<T*>(tensor.state[0]);
  for (std::int64_t i = 0; i < tensor.count; ++i) {
    T grad = gradient(g[i], p[i]);
    s[i] = std::fma(grad, grad, s[i]);
    p[i] = p[i] + rate * grad / (std::sqrt(s[i]) + eps);
  }
}

template <class T>
void adadelta_tensor(const AdaptiveStepParams& how, const AdaptiveTensor& tensor) {
  const Gradient<T> gradient(how.options, how.options.weight_decay);
  const T rho = static_cast<T>(how.numbers[0]);
  const T weight = static_cast<T>(1 - how.numbers[0]);
  const T eps = static_cast<T>(how.numbers[1]);
  const T rate = static_cast<T>(-how.options.lr);
  T* __restrict p = static_cast<T*>(tensor.param);
  const T* __restrict g = static_cast<const T*>(tensor.grad);
  T* __restrict s = static_cast<T*>(tensor.state[0]);
  T* __restrict d = static_cast<T*>(tensor.state[1]);
  for (std::int64_t i = 0; i < tensor.count; ++i) {
    T grad = gradient(g[i], p[i]);
    s[i] = std::fma(weight * grad, grad, s[i] * rho);
    T delta = std::sqrt(d[i] + eps) / std::sqrt(s[i] + eps) * grad;
    d[i] = std::fma(weight * delta, delta, d[i] * rho);
    p[i] = std::fma(delta, rate, p[i]);
  }
}

template <void (*kTensor)(const AdaptiveStepParams&, const AdaptiveTensor&)>
void each_tensor(const AdaptiveStepParams& how) {
  for (std::int64_t i = 0; i < how.tensor_count; ++i) kTensor(how, how.tensors[i]);
}

template <class T>
void fill_type(OptimizerTable& table, DType dtype) {
  const auto slot = static_cast<std::size_t>(dtype);
  table.sgd[slot] = sgd<T>;
  table.adam[slot] = adam<T>;
  table.rmsprop[slot] = each_tensor<rmsprop_tensor<T>>;
  table.adagrad[slot] = each_tensor<adagrad_tensor<T>>;
  table.adadelta[slot] = each_tensor<adadelta_tensor<T>>;
}

}  // namespace

void CORE_CPU_VARIANT::fill_optimizers(OptimizerTable& table) {
  fill_type<float>(table, DType::f32);
  fill_type<double>(table, DType::f64);
}

}  // namespace core::cpu

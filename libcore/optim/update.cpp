#include "libcore/optim/update.h"

#include <algorithm>
#include <cmath>

#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/cpu/thread_pool.h"

namespace core::detail {
namespace {

/// The gradient after maximize and weight decay.
template <class T>
struct Gradient {
  T sign;
  T decay;
  explicit Gradient(const CommonUpdate& common)
      : sign(common.maximize ? T(-1) : T(1)), decay(static_cast<T>(common.weight_decay)) {}
  [[gnu::always_inline]] T operator()(T g, T p) const {
    T signed_g = g * sign;
    return decay == 0 ? signed_g : std::fma(p, decay, signed_g);
  }
};

template <class T>
struct SgdLoop {
  UpdateArrays<T> arrays;
  T* buffer;
  SgdUpdate how;

  [[gnu::always_inline]] void operator()() const {
    const Gradient<T> gradient(how.common);
    const T rate = static_cast<T>(-how.common.lr);
    const T momentum = static_cast<T>(how.momentum);
    const T fresh = static_cast<T>(1 - how.dampening);
    T* __restrict p = arrays.p;
    const T* __restrict g = arrays.g;
    T* __restrict b = buffer;
    for (std::int64_t i = 0; i < arrays.n; ++i) {
      T step = gradient(g[i], p[i]);
      if (b != nullptr) {
        T velocity = how.first ? step : std::fma(step, fresh, b[i] * momentum);
        b[i] = velocity;
        step = how.nesterov ? std::fma(velocity, momentum, step) : velocity;
      }
      p[i] = std::fma(step, rate, p[i]);
    }
  }
};

/// start + weight * (end - start), from the nearer end.
template <class T>
[[gnu::always_inline]] inline T lerp_between(T start, T end, T weight) {
  return weight < T(0.5) ? std::fma(weight, end - start, start) : std::fma(weight - 1, end - start, end);
}

template <class T, bool kTop, bool kDecay>
struct AdamLoop {
  UpdateArrays<T> arrays;
  AdamState<T> state;
  AdamUpdate how;

  [[gnu::always_inline]] void operator()() const {
    CommonUpdate coupled = how.common;
    if (how.decoupled) coupled.weight_decay = 0;
    const Gradient<T> gradient(coupled);
    const T shrink = how.decoupled ? static_cast<T>(1 - how.common.lr * how.common.weight_decay) : T(1);
    const T weight1 = static_cast<T>(1 - how.beta1);
    const T beta2 = static_cast<T>(how.beta2);
    const T weight2 = static_cast<T>(1 - how.beta2);
    const T rate = static_cast<T>(how.rate);
    const T correction2 = static_cast<T>(how.correction2);
    const T eps = static_cast<T>(how.eps);
    T* __restrict p = arrays.p;
    const T* __restrict g = arrays.g;
    T* __restrict m = state.exp_avg;
    T* __restrict v = state.exp_avg_sq;
    T* __restrict top = state.max_exp_avg_sq;
    for (std::int64_t i = 0; i < arrays.n; ++i) {
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
      T denominator = std::sqrt(second) / correction2 + eps;
      p[i] = old + rate * mean / denominator;
    }
  }
};

template <class T>
struct RmspropLoop {
  UpdateArrays<T> arrays;
  RmspropState<T> state;
  RmspropUpdate how;

  [[gnu::always_inline]] void operator()() const {
    const Gradient<T> gradient(how.common);
    const T alpha = static_cast<T>(how.alpha);
    const T weight = static_cast<T>(1 - how.alpha);
    const T eps = static_cast<T>(how.eps);
    const T rate = static_cast<T>(-how.common.lr);
    const T momentum = static_cast<T>(how.momentum);
    T* __restrict p = arrays.p;
    const T* __restrict g = arrays.g;
    T* __restrict s = state.square_avg;
    T* __restrict b = state.momentum_buffer;
    T* __restrict a = state.grad_avg;
    for (std::int64_t i = 0; i < arrays.n; ++i) {
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
};

template <class T>
struct AdagradLoop {
  UpdateArrays<T> arrays;
  T* sum;
  AdagradUpdate how;

  [[gnu::always_inline]] void operator()() const {
    const Gradient<T> gradient(how.common);
    const T rate = static_cast<T>(-how.rate);
    const T eps = static_cast<T>(how.eps);
    T* __restrict p = arrays.p;
    const T* __restrict g = arrays.g;
    T* __restrict s = sum;
    for (std::int64_t i = 0; i < arrays.n; ++i) {
      T grad = gradient(g[i], p[i]);
      s[i] = std::fma(grad, grad, s[i]);
      p[i] = p[i] + rate * grad / (std::sqrt(s[i]) + eps);
    }
  }
};

template <class T>
struct AdadeltaLoop {
  UpdateArrays<T> arrays;
  AdadeltaState<T> state;
  AdadeltaUpdate how;

  [[gnu::always_inline]] void operator()() const {
    const Gradient<T> gradient(how.common);
    const T rho = static_cast<T>(how.rho);
    const T weight = static_cast<T>(1 - how.rho);
    const T eps = static_cast<T>(how.eps);
    const T rate = static_cast<T>(-how.common.lr);
    T* __restrict p = arrays.p;
    const T* __restrict g = arrays.g;
    T* __restrict s = state.square_avg;
    T* __restrict d = state.acc_delta;
    for (std::int64_t i = 0; i < arrays.n; ++i) {
      T grad = gradient(g[i], p[i]);
      s[i] = std::fma(weight * grad, grad, s[i] * rho);
      T delta = std::sqrt(d[i] + eps) / std::sqrt(s[i] + eps) * grad;
      d[i] = std::fma(weight * delta, delta, d[i] * rho);
      p[i] = std::fma(delta, rate, p[i]);
    }
  }
};

#if defined(__x86_64__)
template <class Loop>
[[gnu::target("avx2,fma")]] void run_with_fma(const Loop& loop) {
  loop();
}
template <class Loop>
[[gnu::target("avx512f,avx512vl,avx512dq,fma,prefer-vector-width=512")]] void run_with_avx512(const Loop& loop) {
  loop();
}
#endif

/// The same arithmetic, vectorised where the processor has fused multiply-add as an instruction.
template <class Loop>
void run(const Loop& loop) {
#if defined(__x86_64__)
  if (cpu::isa() == cpu::Isa::avx512) return run_with_avx512(loop);
  if (cpu::isa() == cpu::Isa::avx2) return run_with_fma(loop);
#endif
  loop();
}

}  // namespace

void set_step(AdamUpdate& how, double step) {
  how.step = step;
  how.rate = -(how.common.lr / (1 - std::pow(how.beta1, step)));
  how.correction2 = std::sqrt(1 - std::pow(how.beta2, step));
}

namespace {
constexpr std::int64_t kGrain = 65536;  // elements worth a thread's start
template <class T>
T* from(T* array, std::int64_t begin) {
  return array != nullptr ? array + begin : nullptr;
}
}  // namespace

template <class T>
void update_sgd(UpdateArrays<T> arrays, T* buffer, const SgdUpdate& how) {
  parallel_for(arrays.n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    run(SgdLoop<T>{{arrays.p + begin, arrays.g + begin, end - begin}, from(buffer, begin), how});
  });
}
template <class T>
void update_adam(UpdateArrays<T> arrays, AdamState<T> state, const AdamUpdate& how) {
  const auto go = [&]<bool kTop, bool kDecay>() {
    parallel_for(arrays.n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      run(AdamLoop<T, kTop, kDecay>{
          {arrays.p + begin, arrays.g + begin, end - begin},
          {state.exp_avg + begin, state.exp_avg_sq + begin, from(state.max_exp_avg_sq, begin)},
          how});
    });
  };
  const bool decays = how.common.weight_decay != 0;
  if (state.max_exp_avg_sq != nullptr)
    return decays ? go.template operator()<true, true>() : go.template operator()<true, false>();
  decays ? go.template operator()<false, true>() : go.template operator()<false, false>();
}
template <class T>
void update_rmsprop(UpdateArrays<T> arrays, RmspropState<T> state, const RmspropUpdate& how) {
  run(RmspropLoop<T>{arrays, state, how});
}
template <class T>
void update_adagrad(UpdateArrays<T> arrays, T* sum, const AdagradUpdate& how) {
  run(AdagradLoop<T>{arrays, sum, how});
}
template <class T>
void update_adadelta(UpdateArrays<T> arrays, AdadeltaState<T> state, const AdadeltaUpdate& how) {
  run(AdadeltaLoop<T>{arrays, state, how});
}

template void update_sgd(UpdateArrays<float>, float*, const SgdUpdate&);
template void update_sgd(UpdateArrays<double>, double*, const SgdUpdate&);
template void update_adam(UpdateArrays<float>, AdamState<float>, const AdamUpdate&);
template void update_adam(UpdateArrays<double>, AdamState<double>, const AdamUpdate&);
template void update_rmsprop(UpdateArrays<float>, RmspropState<float>, const RmspropUpdate&);
template void update_rmsprop(UpdateArrays<double>, RmspropState<double>, const RmspropUpdate&);
template void update_adagrad(UpdateArrays<float>, float*, const AdagradUpdate&);
template void update_adagrad(UpdateArrays<double>, double*, const AdagradUpdate&);
template void update_adadelta(UpdateArrays<float>, AdadeltaState<float>, const AdadeltaUpdate&);
template void update_adadelta(UpdateArrays<double>, AdadeltaState<double>, const AdadeltaUpdate&);

}  // namespace core::detail

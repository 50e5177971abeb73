// Negative log likelihood. One pass on one thread: it reads a single element of each row.
#include <algorithm>

#include "libcore/backend/cpu/cpu_tables.h"

namespace core::cpu {
namespace {

template <class T>
void nll(NllParams& p) {
  const auto* log_prob = static_cast<const T*>(p.log_prob);
  const auto* weight = static_cast<const T*>(p.weight);
  T total = 0, total_weight = 0;
  for (std::int64_t i = 0; i < p.batch * p.inner; ++i) {
    const std::int64_t target = p.target[i];
    T loss = 0;
    if (target != p.ignore_index) {
      if (target < 0 || target >= p.classes) {
        p.bad_target = target;
        p.failed = true;
        return;
      }
      const T w = weight ? weight[target] : T(1);
      loss = -w * log_prob[(i / p.inner * p.classes + target) * p.inner + i % p.inner];
      total_weight += w;
    }
    total += loss;
    if (p.losses) static_cast<T*>(p.losses)[i] = loss;
  }
  if (p.total) *static_cast<T*>(p.total) = total;
  if (p.total_weight) *static_cast<T*>(p.total_weight) = total_weight;
}

template <class T>
void nll_grad(const NllGradParams& p) {
  const auto* loss_grad = static_cast<const T*>(p.loss_grad);
  const auto* weight = static_cast<const T*>(p.weight);
  auto* grad = static_cast<T*>(p.log_prob_grad);
  std::fill_n(grad, p.batch * p.classes * p.inner, T(0));
  const T divisor = p.divisor ? *static_cast<const T*>(p.divisor) : T(1);
  for (std::int64_t i = 0; i < p.batch * p.inner; ++i) {
    const std::int64_t target = p.target[i];
    if (target == p.ignore_index) continue;
    const T w = weight ? weight[target] : T(1);
    grad[(i / p.inner * p.classes + target) * p.inner + i % p.inner] = -w * loss_grad[p.shared_grad ? 0 : i] / divisor;
  }
}

}  // namespace

void fill_nll_losses(NnTable& table) {
  const auto f32 = static_cast<std::size_t>(DType::f32);
  const auto f64 = static_cast<std::size_t>(DType::f64);
  table.nll[f32] = nll<float>;
  table.nll[f64] = nll<double>;
  table.nll_grad[f32] = nll_grad<float>;
  table.nll_grad[f64] = nll_grad<double>;
}

}  // namespace core::cpu

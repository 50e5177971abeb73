// Negative log likelihood. One pass on one thread: it reads a single element of each row.
#include <algorithm>

#include "libcore/backend/cpu/cpu_tables.h"
#include "libcore/backend/cpu/narrow_numbers.h"

namespace core::cpu {
namespace {

template <class T>
void nll(NllParams& p) {
  const auto* log_prob = static_cast<const T*>(p.log_prob);
  const auto* weight = static_cast<const T*>(p.weight);
  Opmath<T> total = 0, total_weight = 0;
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
  if (p.total) *static_cast<T*>(p.total) = rounded<T>(total);
  if (p.total_weight) *static_cast<T*>(p.total_weight) = rounded<T>(total_weight);
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
    const T each = -(loss_grad[p.shared_grad ? 0 : i] / divisor);  // in PyTorch's order
    grad[(i / p.inner * p.classes + target) * p.inner + i % p.inner] = w * each;
  }
}

template <class T>
void add_for(NnTable& table, DType dtype) {
  table.nll[static_cast<std::size_t>(dtype)] = nll<T>;
  table.nll_grad[static_cast<std::size_t>(dtype)] = nll_grad<T>;
}

}  // namespace

void fill_nll_losses(NnTable& table) {
  add_for<float>(table, DType::f32);
  add_for<double>(table, DType::f64);
  add_for<NarrowHalf>(table, DType::f16);
  add_for<NarrowBFloat16>(table, DType::bf16);
}

}  // namespace core::cpu

// Negative log likelihood. Targets out of range raise the device's flag: nobody waits for them here.
#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/nn_table.h"

namespace core::CORE_KERNELS {
namespace {

/// What a loss function needs to know of position i: its target, that target's weight and where its probability is.
template <class T>
struct Targets {
  std::int64_t classes, inner, ignore_index;
  SizeDivider per_inner;
  const std::int64_t* target;
  const T* weight;
  DeviceFlag flag;

  template <class Params>
  explicit Targets(const Params& p)
      : classes(p.classes),
        inner(p.inner),
        ignore_index(p.ignore_index),
        per_inner(p.inner),
        target(p.target),
        weight(static_cast<const T*>(p.weight)),
        flag(device_assert_flag()) {}

  /// False where the position does not count.
  CORE_BODY bool counts(std::int64_t i) const {
    if (target[i] == ignore_index) return false;
    const bool inside = target[i] >= 0 && target[i] < classes;
    if (!inside) flag.raise();
    return inside;
  }
  CORE_BODY Computed<T> weight_at(std::int64_t i) const { return value_or(weight, target[i], 1); }
  CORE_BODY std::int64_t place(std::int64_t i) const {
    const auto at = per_inner.divide(i);
    return (at.quotient * classes + target[i]) * inner + at.remainder;
  }
};

template <class W>
struct LossSum {
  W loss = 0, weight = 0;
};
struct AddLosses {
  template <class W>
  CORE_BODY LossSum<W> operator()(const LossSum<W>& a, const LossSum<W>& b) const {
    return {a.loss + b.loss, a.weight + b.weight};
  }
};

/// The losses of positions [begin, end) and their sum.
template <class T>
struct Losses {
  Targets<T> targets;
  const T* log_prob;
  T* losses;

  CORE_BODY LossSum<Computed<T>> operator()(const Team& team, std::int64_t begin, std::int64_t end) const {
    LossSum<Computed<T>> mine;
    for (std::int64_t i = begin + team.lane(); i < end; i += team.size()) {
      Computed<T> loss = 0;
      if (targets.counts(i)) {
        const Computed<T> w = targets.weight_at(i);
        loss = -w * widen(log_prob[targets.place(i)]);
        mine.loss += loss;
        mine.weight += w;
      }
      if (losses != nullptr) losses[i] = narrow<T>(loss);
    }
    return team.reduce(mine, AddLosses());
  }
};

template <class T>
void nll(NllParams& p) {
  using W = Computed<T>;
  constexpr std::int64_t kPart = 4096;  // positions that one team sums
  const std::int64_t count = p.batch * p.inner, parts = count == 0 ? 1 : divide_up(count, kPart);
  const Losses<T> body{Targets<T>(p), static_cast<const T*>(p.log_prob), static_cast<T*>(p.losses)};
  auto* total = static_cast<T*>(p.total);
  auto* total_weight = static_cast<T*>(p.total_weight);
  const Scratch scratch(parts == 1 ? 0 : static_cast<std::size_t>(parts) * sizeof(LossSum<W>));
  auto* sums = scratch.as<LossSum<W>>();
  for_each_row(parts, smaller(count, kPart / 8), [=] CORE_BODY(const Team& team, std::int64_t part) {
    const LossSum<W> sum = body(team, part * kPart, smaller(count, (part + 1) * kPart));
    if (team.lane() != 0) return;
    if (parts > 1) {
      sums[part] = sum;
      return;
    }
    if (total != nullptr) *total = narrow<T>(sum.loss);
    if (total_weight != nullptr) *total_weight = narrow<T>(sum.weight);
  });
  if (parts == 1) return;
  for_each_row(1, parts, [=] CORE_BODY(const Team& team, std::int64_t) {
    LossSum<W> mine;
    for (std::int64_t i = team.lane(); i < parts; i += team.size()) mine = AddLosses()(mine, sums[i]);
    const LossSum<W> sum = team.reduce(mine, AddLosses());
    if (team.lane() != 0) return;
    if (total != nullptr) *total = narrow<T>(sum.loss);
    if (total_weight != nullptr) *total_weight = narrow<T>(sum.weight);
  });
}

/// One pass over the whole gradient: every element finds out whether it is its position's target.
template <class T>
void nll_grad(const NllGradParams& p) {
  const Targets<T> targets(p);
  const bool shared = p.shared_grad;
  const auto* loss_grad = static_cast<const T*>(p.loss_grad);
  const auto* divisor = static_cast<const T*>(p.divisor);
  auto* grad = static_cast<T*>(p.log_prob_grad);
  const SizeDivider per_item(p.classes * p.inner), per_class(p.inner);
  for_each(p.batch * p.classes * p.inner, [=] CORE_BODY(std::int64_t at) {
    const auto item = per_item.divide(at);
    const auto place = per_class.divide(item.remainder);
    const std::int64_t i = item.quotient * per_class.divisor() + place.remainder;
    Computed<T> value = 0;
    if (targets.target[i] == place.quotient && targets.target[i] != targets.ignore_index) {
      const Computed<T> scale = divisor != nullptr ? Computed<T>(widen(*divisor)) : Computed<T>(1);
      value = -targets.weight_at(i) * Computed<T>(widen(loss_grad[shared ? 0 : i])) / scale;
    }
    grad[at] = narrow<T>(value);
  });
}

}  // namespace

void fill_losses(NnTable& table) {
  for_floating_types([&]<class T>(std::size_t slot) {
    table.nll[slot] = nll<T>;
    table.nll_grad[slot] = nll_grad<T>;
  });
}

}  // namespace core::CORE_KERNELS

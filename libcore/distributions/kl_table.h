#pragma once
// The divergences that PyTorch has, family by family, for kl.cpp. Thread safety: pure functions.
// Use: KlTable table; add_extreme_values(table);

#include <limits>
#include <vector>

#include "libcore/distributions/kl.h"
#include "libcore/ops/pointwise.h"

namespace core::distributions {

struct KlEntry {
  detail::KlFits fits;
  detail::KlFunction function;
};
using KlTable = std::vector<KlEntry>;

/// function of such a pair, and of what derives from it.
template <class P, class Q>
void add_pair(KlTable& table, Tensor (*function)(const P&, const Q&)) {
  table.push_back({detail::are<P, Q>, [function](const Distribution& p, const Distribution& q) {
                     return function(dynamic_cast<const P&>(p), dynamic_cast<const Q&>(q));
                   }});
}

/// What q cannot give.
Tensor infinite_kl(const Distribution& p, const Distribution& q);

template <class P, class... Q>
void add_infinite(KlTable& table) {
  (table.push_back({detail::are<P, Q>, infinite_kl}), ...);
}

inline Tensor infinite_if(const Tensor& mask, const Tensor& value) {
  return where(mask, std::numeric_limits<double>::infinity(), value);
}
inline Tensor x_log_x(const Tensor& x) {
  return xlogy(x, x);
}

/// Gumbel, Pareto and Cauchy.
void add_extreme_values(KlTable& table);
/// Normal vectors of covariances of low rank.
void add_low_rank(KlTable& table);
/// ContinuousBernoulli.
void add_unit_interval(KlTable& table);

}  // namespace core::distributions

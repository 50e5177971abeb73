#pragma once
// kl_divergence of two distributions, as torch.distributions: the pairs that PyTorch has for the distributions that are
// here, and those that a program registers. Thread safety: all functions.
// Use: core::Tensor kl = core::distributions::kl_divergence(core::distributions::Normal(0.0, 1.0),
//                                                           core::distributions::Laplace(0.0, 1.0));

#include <functional>

#include "libcore/distributions/distribution.h"

namespace core::distributions {

/// KL(p || q), of the batch's shape. Error(not_implemented) "No KL(p || q) is implemented for p type Beta and q type
/// Laplace".
Tensor kl_divergence(const Distribution& p, const Distribution& q);

namespace detail {
using KlFunction = std::function<Tensor(const Distribution&, const Distribution&)>;
using KlFits = bool (*)(const Distribution&, const Distribution&);
void register_kl(KlFits fits, KlFunction function);

template <class P, class Q>
bool are(const Distribution& p, const Distribution& q) {
  return dynamic_cast<const P*>(&p) != nullptr && dynamic_cast<const Q*>(&q) != nullptr;
}
}  // namespace detail

/// function(const P&, const Q&) for such a pair and what derives from it; the last one registered that fits is used,
/// and before those that are here.
template <class P, class Q, class F>
void register_kl(F function) {
  detail::register_kl(detail::are<P, Q>, [function](const Distribution& p, const Distribution& q) {
    return function(static_cast<const P&>(p), static_cast<const Q&>(q));
  });
}

}  // namespace core::distributions

// Divergences of normal vectors of which one has a covariance of low rank.
#include "libcore/base/error.h"
#include "libcore/distributions/kl_table.h"
#include "libcore/distributions/low_rank_multivariate_normal.h"
#include "libcore/distributions/multivariate_normal.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/type_promotion.h"

namespace core::distributions {
namespace {

using LowRank = LowRankMultivariateNormal;

void check_events(const Distribution& p, const Distribution& q, const std::string& kind) {
  if (p.event_shape() == q.event_shape()) return;
  throw Error(ErrorCode::value, "KL-divergence between two " + kind +
                                    " Multivariate Normals with                          different event shapes cannot "
                                    "be computed");
}

/// The trace of x @ x^T.
Tensor squares(const Tensor& x) {
  return x.pow(2).sum(-1).sum(-1);
}

Tensor halved(const Tensor& sum, const Distribution& p) {
  return (sum - p.event_shape()[0]) * 0.5;
}

Tensor low_rank_kl(const LowRank& p, const LowRank& q) {
  check_events(p, q, "Low Rank");
  const Tensor &p_factor = p.unbroadcasted_cov_factor(), &p_diag = p.unbroadcasted_cov_diag();
  const Tensor &q_diag = q.unbroadcasted_cov_diag(), a = q.precision_factor();
  const Tensor trace = (p_diag / q_diag).sum(-1) + squares(p_factor * q_diag.rsqrt().unsqueeze(-1)) -
                       squares(a * p_diag.sqrt().unsqueeze(-2)) - squares(matmul(a, p_factor));
  return halved(q.log_det() - p.log_det() + trace + q.mahalanobis(q.loc() - p.loc()), p);
}

Tensor full_to_low_rank_kl(const MultivariateNormal& p, const LowRank& q) {
  check_events(p, q, "(Low Rank)");
  const Tensor& factor = p.unbroadcasted_scale_tril();
  const Tensor trace = squares(factor * q.unbroadcasted_cov_diag().rsqrt().unsqueeze(-1)) -
                       squares(matmul(q.precision_factor(), factor));
  return halved(q.log_det() - half_log_det(factor) * 2 + trace + q.mahalanobis(q.loc() - p.loc()), p);
}

Tensor low_rank_to_full_kl(const LowRank& p, const MultivariateNormal& q) {
  check_events(p, q, "(Low Rank)");
  const Tensor& factor = q.unbroadcasted_scale_tril();
  const auto solved = [&](const Tensor& of_p) {
    const Shape batch = broadcast_shapes(first_dims(factor.sizes(), factor.sizes().size() - 2),
                                         first_dims(of_p.sizes(), of_p.sizes().size() - 2));
    const Shape any = joined(batch, {-1, -1});
    return linalg::solve_triangular(factor.expand(any), of_p.expand(any), {.upper = false});
  };
  const Tensor trace =
      squares(solved(p.unbroadcasted_cov_factor())) + squares(solved(diag_embed(p.unbroadcasted_cov_diag().sqrt())));
  return halved(half_log_det(factor) * 2 - p.log_det() + trace + batch_mahalanobis(factor, q.loc() - p.loc()), p);
}

}  // namespace

void add_low_rank(KlTable& table) {
  add_pair(table, low_rank_kl);
  add_pair(table, full_to_low_rank_kl);
  add_pair(table, low_rank_to_full_kl);
}

}  // namespace core::distributions

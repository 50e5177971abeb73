#include "libcore/ops/distance.h"

#include <string>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/index.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;

}  // namespace

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&a, &b}); to) return cosine_similarity(to(a), to(b), o);
  const auto unit = [&](const Tensor& x) {
    return x / clamp(norm(x, {.p = 2, .dims = {o.dim}, .keepdim = true}), o.eps);
  };
  return sum(unit(a) * unit(b), {.dims = {o.dim}});
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseOptions& o) {
  return composed("NormBackward1", {a - b + o.eps},
                  [o](const TensorList& in) { return norm(in[0], {.p = o.p, .dims = {-1}, .keepdim = o.keepdim}); });
}

Tensor cdist(const Tensor& a, const Tensor& b, double p) {
  if (const Casts to(CastRule::f32, CastOn::any, {&a, &b}); to) return cdist(to(a), to(b), p);
  return composed("CdistBackward0", {a, b}, [p](const TensorList& in) {
    return norm(in[0].unsqueeze(-2) - in[1].unsqueeze(-3), {.p = p, .dims = {-1}});
  });
}

Tensor pdist(const Tensor& x, double p) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&x}); to) return pdist(to(x), p);
  if (x.dim() != 2) fail("pdist only supports 2D tensors, got: " + std::to_string(x.dim()) + "D");
  if (p < 0) fail("pdist only supports non-negative p values");
  const Tensor pairs = triu_indices(x.size(0), x.size(0), 1).to(x.device());
  return composed("PdistBackward0", {x}, [p, pairs](const TensorList& in) {
    return norm(index_select(in[0], 0, pairs[0]) - index_select(in[0], 0, pairs[1]), {.p = p, .dims = {-1}});
  });
}

}  // namespace core

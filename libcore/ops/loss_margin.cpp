// Losses with margins, of pairs, triplets and classes.
#include "libcore/ops/loss.h"

#include <string>
#include <vector>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/detail/loss_reduction.h"
#include "libcore/ops/distance.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using detail::reduced;

Tensor positive_part(const Tensor& x) {
  return clamp(x, 0);
}

/// Row i of x without the class target[i].
Tensor other_classes(const Tensor& x, const Tensor& target) {
  const Tensor mine = eq(arange(x.size(-1), {.device = x.device()}), target.unsqueeze(-1));
  return logical_not(mine).to(x.dtype());
}

Tensor multi_margin(const Tensor& x, const Tensor& target, const MultiMarginOptions& o) {
  const Tensor own = gather(x, 1, target.unsqueeze(-1));
  Tensor excess = positive_part(o.margin - own + x);
  if (o.p == 2) excess = square(excess);
  if (o.weight.defined()) excess = excess * index_select(o.weight, 0, target).unsqueeze(-1);
  return sum(excess * other_classes(x, target), {.dims = {1}}) / x.size(1);
}

/// One row of multilabel_margin_loss.
Tensor label_margin(const Tensor& x, const Tensor& target) {
  const std::int64_t classes = x.numel();
  std::vector<std::int64_t> labels;
  for (const std::int64_t label : target.to_vector<std::int64_t>()) {
    if (label < 0) break;
    labels.push_back(label);
  }
  if (labels.empty()) return sum(x) * 0;
  std::vector<double> others(static_cast<std::size_t>(classes), 1);
  for (const std::int64_t label : labels) others[static_cast<std::size_t>(label)] = 0;
  const Tensor is_other = from_values(others, {.dtype = x.dtype(), .device = x.device()});
  const Tensor mine = index_select(x, 0, from_values(labels, {.device = x.device()}));
  return sum(positive_part(1 - (mine.unsqueeze(-1) - x)) * is_other) / classes;
}

}  // namespace

Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to)
    return soft_margin_loss(to(x), to(target), reduction);
  return composed("SoftMarginLossBackward0", {x, target},
                  [reduction](const TensorList& in) { return reduced(log1p(exp(-in[1] * in[0])), reduction); });
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, const MarginOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to) return hinge_embedding_loss(to(x), to(target), o);
  const Tensor zero = zeros_like(x.detach());
  const Tensor far = where(ne(target, Scalar(1)), positive_part(o.margin - x), zero);
  const Tensor near = where(ne(target, Scalar(-1)), x, zero);
  return reduced(far + near, o.reduction);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, const MarginOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&a, &b, &target}); to)
    return margin_ranking_loss(to(a), to(b), to(target), o);
  if (a.dim() != b.dim() || a.dim() != target.dim()) {
    const auto size = [](const Tensor& x) { return to_list(x.sizes()); };
    throw Error(ErrorCode::runtime,
                "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
                "input1: torch.Size(" +
                    size(a) + "), input2: torch.Size(" + size(b) + "), target: torch.Size(" + size(target) + ") ");
  }
  return reduced(positive_part(-target * (a - b) + o.margin), o.reduction);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, const MarginOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&a, &b, &target}); to)
    return cosine_embedding_loss(to(a), to(b), to(target), o);
  constexpr double kEps = 1e-12;
  const auto dot = [](const Tensor& x, const Tensor& y) { return sum(x * y, {.dims = {-1}}); };
  const Tensor cosine = dot(a, b) / sqrt((dot(a, a) + kEps) * (dot(b, b) + kEps));
  const Tensor zero = zeros_like(cosine.detach());
  const Tensor same = where(eq(target, Scalar(1)), 1 - cosine, zero);
  const Tensor different = where(eq(target, Scalar(-1)), positive_part(cosine - o.margin), zero);
  return reduced(same + different, o.reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& near, const Tensor& far, const TripletOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&anchor, &near, &far}); to)
    return triplet_margin_loss(to(anchor), to(near), to(far), o);
  const auto distance = [&](const Tensor& x, const Tensor& y) {
    return pairwise_distance(x, y, {.p = o.p, .eps = o.eps});
  };
  const Tensor to_near = distance(anchor, near);
  Tensor to_far = distance(anchor, far);
  if (o.swap) to_far = minimum(to_far, distance(near, far));
  return reduced(positive_part(o.margin + to_near - to_far), o.reduction);
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const DistanceFunction& distance, const TripletDistanceOptions& o) {
  if (o.margin <= 0) throw Error(ErrorCode::value, "margin must be greater than 0, got " + python_float(o.margin));
  if (anchor.dim() != positive.dim() || positive.dim() != negative.dim()) {
    const auto rank = [](const Tensor& t) { return std::to_string(t.dim()) + "D"; };
    throw Error(
        ErrorCode::runtime,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
        "anchor " +
            rank(anchor) + ", positive " + rank(positive) + ", and negative " + rank(negative) + " inputs");
  }
  const auto apart = [&](const Tensor& a, const Tensor& b) {
    return distance ? distance(a, b) : pairwise_distance(a, b);
  };
  const Tensor to_near = apart(anchor, positive);
  Tensor to_far = apart(anchor, negative);
  if (o.swap) to_far = minimum(to_far, apart(positive, negative));
  return reduced(core::clamp(o.margin + to_near - to_far, 0), o.reduction);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginOptions& o) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to) return multi_margin_loss(to(x), to(target), o);
  if (o.p != 1 && o.p != 2) throw Error(ErrorCode::runtime, "only p == 1 and p == 2 supported");
  return composed("MultiMarginLossBackward0", {x}, [o, target](const TensorList& in) {
    const bool single = in[0].dim() < 2;
    const Tensor rows = single ? in[0].reshape({1, -1}) : in[0];
    const Tensor loss = multi_margin(rows, target.reshape({-1}), o);
    return reduced(single ? loss.squeeze(0) : loss, o.reduction);
  });
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const BceOptions& o) {
  Tensor loss = -(target * log_sigmoid(x) + (1 - target) * log_sigmoid(-x));
  if (o.weight.defined()) loss = loss * o.weight;
  return reduced(sum(loss, {.dims = {-1}}) / x.size(-1), o.reduction);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  if (const Casts to(CastRule::f32, CastOn::any, {&x, &target}); to)
    return multilabel_margin_loss(to(x), to(target), reduction);
  return composed("MultilabelMarginLossBackward0", {x}, [target, reduction](const TensorList& in) {
    if (in[0].dim() < 2) return label_margin(in[0].reshape({-1}), target.reshape({-1}));
    std::vector<Tensor> losses;
    for (std::int64_t i = 0; i < in[0].size(0); ++i) losses.push_back(label_margin(in[0][i], target[i]));
    return reduced(stack(losses), reduction);
  });
}

}  // namespace core

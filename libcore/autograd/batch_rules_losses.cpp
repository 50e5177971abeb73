// Losses, on all samples at once: those of the elements first, then one number a sample as it was asked.
#include <algorithm>
#include <vector>

#include "libcore/autograd/batch_rules.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/index.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"

namespace core::func::detail {
namespace {

Reduction reduction_of(const BatchedCall& c) {
  return static_cast<Reduction>(c.integer("reduction"));
}
Tensor totals(const BatchedCall& c, const Tensor& each) {
  return sum(each.reshape({c.size, -1}), {.dims = {1}});
}
/// The losses of the elements of each sample, brought to one number as it was asked.
Tensor reduced(const BatchedCall& c, const Tensor& each) {
  if (reduction_of(c) == Reduction::none) return each;
  return reduction_of(c) == Reduction::mean ? mean(each.reshape({c.size, -1}), {.dims = {1}}) : totals(c, each);
}

Results mse_rule(const BatchedCall& c) {
  const std::int64_t rank = std::max(c.rank(0), c.rank(1));
  return {reduced(c, square(c.aligned(0, rank) - c.aligned(1, rank)))};
}
/// Its weight has no gradient.
Results bce_rule(const BatchedCall& c) {
  const Tensor each = binary_cross_entropy(c.each(0), c.each(1), {.reduction = Reduction::none});
  return {reduced(c, c.has(2) ? each * c.aligned(2, c.rank()).detach() : each)};
}
/// Samples would broadcast otherwise with their number in front.
Results gaussian_nll_rule(const BatchedCall& c) {
  if (c.rank(1) != c.rank(0)) no_batch_rule();
  return {
      reduced(c, gaussian_nll_loss(c.each(0), c.each(1), c.each(2),
                                   {.full = c.flag("full"), .eps = c.number("eps"), .reduction = Reduction::none}))};
}

/// Scores with all samples as images of one batch.
Tensor side_by_side(const BatchedCall& c, std::size_t i) {
  return c.rank(0) == 1 ? c.each(i) : c.each(i).flatten(0, 1);
}
/// What the mean divides by: how many elements count, or their weights.
Tensor counted(const BatchedCall& c, const Tensor& target, DType dtype) {
  const Tensor counts = ne(target, c.integer("ignore_index")).to(dtype);
  if (!c.has(2)) return totals(c, counts);
  const Tensor classes = where(counts > 0, target, zeros_like(target)).flatten();
  return totals(c, index_select(c.shared(2), 0, classes) * counts.flatten());
}
/// Of classes by their number. What is ignored counts for nothing in a mean.
template <class Loss>
Results class_loss(const BatchedCall& c, Loss loss) {
  if (c.rank(1) != std::max<std::int64_t>(c.rank(0) - 1, 0)) no_batch_rule();
  const Tensor target = side_by_side(c, 1), each = loss(side_by_side(c, 0), target, c.shared(2));
  if (reduction_of(c) == Reduction::none) return {each.reshape(c.output_sizes())};
  const Tensor total = totals(c, each);
  return {reduction_of(c) == Reduction::sum ? total : total / counted(c, target, total.dtype())};
}
Results cross_entropy_rule(const BatchedCall& c) {
  const auto loss = [&](const Tensor& scores, const Tensor& target, const Tensor& weight) {
    return cross_entropy(scores, target,
                         {.weight = weight,
                          .ignore_index = c.integer("ignore_index"),
                          .reduction = Reduction::none,
                          .label_smoothing = c.number("label_smoothing")});
  };
  if (c.given(0).sizes() != c.given(1).sizes()) return class_loss(c, loss);
  // Probabilities of the classes: a mean is over the elements, whatever they weigh.
  const Tensor each = loss(side_by_side(c, 0), side_by_side(c, 1), c.shared(2));
  return {reduced(c, each.reshape({c.size, -1})).reshape(c.output_sizes())};
}
Results nll_rule(const BatchedCall& c) {
  return class_loss(c, [&](const Tensor& scores, const Tensor& target, const Tensor& weight) {
    return nll_loss(scores, target,
                    {.weight = weight, .ignore_index = c.integer("ignore_index"), .reduction = Reduction::none});
  });
}

}  // namespace

std::vector<NamedBatchRule> loss_batch_rules() {
  return {{"mse_loss", mse_rule},
          {"binary_cross_entropy", bce_rule},
          {"gaussian_nll_loss", gaussian_nll_rule},
          {"cross_entropy", cross_entropy_rule},
          {"nll_loss", nll_rule}};
}

}  // namespace core::func::detail

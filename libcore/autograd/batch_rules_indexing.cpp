// Elements read and written by index, on all samples at once.
#include <algorithm>

#include "libcore/autograd/batch_rules.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/index.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/scatter.h"
#include "libcore/tensor/factory.h"

namespace core::func::detail {
namespace {

std::int64_t index_dim(const BatchedCall& c) {
  return c.behind(c.integer("dim"), c.rank());
}

/// An index of rows as one of elements: along `dim`, of these sizes.
Tensor of_elements(const Tensor& index, std::int64_t dim, const Shape& sizes) {
  Shape beside(sizes.size(), 1);
  beside[0] = sizes[0];
  beside[static_cast<std::size_t>(dim)] = -1;
  return index.reshape(beside).expand(sizes);
}

Results index_select_rule(const BatchedCall& c) {
  const std::int64_t dim = index_dim(c);
  if (!c.is_batch(1)) return {index_select(c.batches[0], dim, c.given(1))};
  return {gather(c.each(0), dim, of_elements(c.batches[1], dim, c.output_sizes()))};
}
Results gather_rule(const BatchedCall& c) {
  return {gather(c.each(0), index_dim(c), c.each(1))};
}
Results scatter_rule(const BatchedCall& c) {
  return {scatter(c.each(0), index_dim(c), c.each(1), c.each(2))};
}
Results scatter_add_rule(const BatchedCall& c) {
  return {scatter_add(c.each(0), index_dim(c), c.each(1), c.each(2))};
}
Results scatter_value_rule(const BatchedCall& c) {
  return {scatter(c.each(0), index_dim(c), c.each(1), c.scalar("value"))};
}
Results index_add_rule(const BatchedCall& c) {
  const std::int64_t dim = index_dim(c);
  const Tensor from = c.each(2);
  if (!c.is_batch(1)) return {index_add(c.each(0), dim, c.given(1), from)};
  return {scatter_add(c.each(0), dim, of_elements(c.batches[1], dim, from.sizes()), from)};
}
Results index_copy_rule(const BatchedCall& c) {
  return {index_copy(c.each(0), index_dim(c), c.shared(1), c.each(2))};
}
Results index_fill_rule(const BatchedCall& c) {
  return {index_fill(c.batches[0], index_dim(c), c.shared(1), c.scalar("value"))};
}
Results take_rule(const BatchedCall& c) {
  return {take(c.shared(0), c.batches[1])};
}
Results one_hot_rule(const BatchedCall& c) {
  return {one_hot(c.batches[0], c.integer("classes"))};
}

/// Rows of one table, or of each sample's own.
Results embedding_rule(const BatchedCall& c) {
  if (c.given(1).requires_grad() && !c.flag("plain")) no_batch_rule();
  if (!c.is_batch(1)) return {embedding(c.batches[0], c.given(1))};
  // By an index of elements, which is checked against the rows of one table.
  const std::int64_t width = c.given(1).size(1);
  const Tensor rows = c.each(0).reshape({c.size, c.given(0).numel(), 1}).to(DType::i64);
  const Tensor elements = rows.expand({c.size, c.given(0).numel(), width});
  return {gather(c.batches[1], 1, elements).reshape(c.output_sizes())};
}

/// x[..., i, j, ...]. Where x differs, the number of the sample is one more index in front.
Results index_rule(const BatchedCall& c) {
  std::int64_t common = 0;
  std::vector<std::int64_t> at;
  for (std::int64_t d = 0; d < c.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d) + 1;
    if (!c.has(i)) continue;
    at.push_back(d);
    common = std::max(common, c.rank(i));
  }
  const bool together = at.back() - at.front() == static_cast<std::int64_t>(at.size()) - 1;
  const std::int64_t place = together ? at.front() : 0;
  std::vector<TensorIndex> items;
  if (c.is_batch(0)) {
    Shape beside(static_cast<std::size_t>(common) + 1, 1);
    beside[0] = c.size;
    items.emplace_back(arange(c.size, {.device = c.given(0).device()}).reshape(beside));
  }
  for (std::int64_t d = 0; d < c.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d) + 1;
    if (!c.has(i)) {
      items.emplace_back(Slice());
    } else {
      items.emplace_back(c.aligned(i, common));
    }
  }
  const Tensor y = index(c.is_batch(0) ? c.batches[0] : c.given(0), items);
  if (!c.is_batch(0)) return {y.movedim(place, 0)};
  // (samples, common..., all others): those in front of the place go back there.
  Shape order{0};
  for (std::int64_t d = 0; d < place; ++d) order.push_back(1 + common + d);
  for (std::int64_t d = 0; d < common; ++d) order.push_back(1 + d);
  for (std::int64_t d = 1 + common + place; d < y.dim(); ++d) order.push_back(d);
  return {y.permute(order)};
}

}  // namespace

std::vector<NamedBatchRule> indexing_batch_rules() {
  return {{"index_select", index_select_rule},
          {"gather", gather_rule},
          {"scatter", scatter_rule},
          {"scatter_add", scatter_add_rule},
          {"scatter_value", scatter_value_rule},
          {"index_add", index_add_rule},
          {"index_copy", index_copy_rule},
          {"index_fill", index_fill_rule},
          {"take", take_rule},
          {"one_hot", one_hot_rule},
          {"embedding", embedding_rule},
          {"index", index_rule}};
}

}  // namespace core::func::detail

// Reductions, order and running sums, on all samples at once.
#include "libcore/autograd/batch_rules.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/softmax.h"
#include "libcore/ops/sort.h"

namespace core::func::detail {
namespace {

/// Samples that are numbers have a dimension here, as it is that of the samples that must stay.
Tensor samples(const BatchedCall& c) {
  return c.rank() == 0 ? c.batches[0].unsqueeze(1) : c.batches[0];
}
/// The dimensions of a sample that go; all of them where none is named.
Shape reduced_dims(const BatchedCall& c) {
  if (c.rank() == 0) return {1};
  Shape dims;
  for (const std::int64_t d : c.shape("dims")) dims.push_back(c.behind(d, c.rank()));
  if (!dims.empty()) return dims;
  for (std::int64_t d = 1; d <= c.rank(); ++d) dims.push_back(d);
  return dims;
}

bool keeps_dims(const BatchedCall& c) {
  return c.rank() > 0 && c.flag("keepdim");
}
ReduceOptions options_of(const BatchedCall& c) {
  return {.dims = reduced_dims(c), .keepdim = keeps_dims(c)};
}
ReduceOptions summing(const BatchedCall& c) {
  ReduceOptions options = options_of(c);
  if (c.output().dtype() != c.given(0).dtype()) options.dtype = c.output().dtype();
  return options;
}

Results sum_rule(const BatchedCall& c) {
  return {sum(samples(c), summing(c))};
}
Results mean_rule(const BatchedCall& c) {
  return {mean(samples(c), summing(c))};
}
Results amax_rule(const BatchedCall& c) {
  return {amax(samples(c), options_of(c))};
}
Results amin_rule(const BatchedCall& c) {
  return {amin(samples(c), options_of(c))};
}
Results all_rule(const BatchedCall& c) {
  return {all(samples(c), options_of(c))};
}
Results any_rule(const BatchedCall& c) {
  return {any(samples(c), options_of(c))};
}
/// Of several dimensions as one, at the end.
Results prod_rule(const BatchedCall& c) {
  if (!c.shape("dims").empty() || c.rank() == 0) return {prod(samples(c), summing(c))};
  ReduceOptions options = summing(c);
  options.dims = {1};
  options.keepdim = false;
  return {prod(c.batches[0].flatten(1), options).reshape(c.output_sizes())};
}

VarOptions var_options(const BatchedCall& c) {
  return {.dims = reduced_dims(c), .correction = c.number("correction"), .keepdim = keeps_dims(c)};
}
Results var_rule(const BatchedCall& c) {
  return {var(samples(c), var_options(c))};
}
Results std_rule(const BatchedCall& c) {
  return {std(samples(c), var_options(c))};
}
Results norm_rule(const BatchedCall& c) {
  return {norm(samples(c), {.p = c.number("p"), .dims = reduced_dims(c), .keepdim = keeps_dims(c)})};
}
Results logsumexp_rule(const BatchedCall& c) {
  return {logsumexp(samples(c), reduced_dims(c), keeps_dims(c))};
}

std::int64_t dim_of(const BatchedCall& c) {
  return c.behind(c.integer("dim"), c.rank());
}
Results pair(const ValuesIndices& both) {
  return {both.values, both.indices};
}
Results max_rule(const BatchedCall& c) {
  return pair(max(c.batches[0], dim_of(c), c.flag("keepdim")));
}
Results min_rule(const BatchedCall& c) {
  return pair(min(c.batches[0], dim_of(c), c.flag("keepdim")));
}
template <class Place>
Results placed(const BatchedCall& c, Place place) {
  if (!c.flag("whole")) return {place(c.batches[0], dim_of(c), c.flag("keepdim"))};
  return {place(samples(c).flatten(1), 1, false).reshape(c.output_sizes())};
}
Results argmax_rule(const BatchedCall& c) {
  return placed(c, [](const Tensor& x, std::int64_t dim, bool keepdim) { return argmax(x, dim, keepdim); });
}
Results argmin_rule(const BatchedCall& c) {
  return placed(c, [](const Tensor& x, std::int64_t dim, bool keepdim) { return argmin(x, dim, keepdim); });
}

Results sort_rule(const BatchedCall& c) {
  return pair(sort(c.batches[0], dim_of(c), c.flag("descending")));
}
Results argsort_rule(const BatchedCall& c) {
  return {argsort(c.batches[0], dim_of(c), c.flag("descending"))};
}
Results topk_rule(const BatchedCall& c) {
  return pair(topk(c.batches[0], c.integer("k"), dim_of(c), c.flag("largest")));
}

Results softmax_rule(const BatchedCall& c) {
  return {softmax(c.batches[0], dim_of(c))};
}
Results log_softmax_rule(const BatchedCall& c) {
  return {log_softmax(c.batches[0], dim_of(c))};
}
Results cumsum_rule(const BatchedCall& c) {
  return {cumsum(c.batches[0], dim_of(c), c.output().dtype())};
}
Results cumprod_rule(const BatchedCall& c) {
  return {cumprod(c.batches[0], dim_of(c), c.output().dtype())};
}
Results logcumsumexp_rule(const BatchedCall& c) {
  return {logcumsumexp(c.batches[0], dim_of(c))};
}

}  // namespace

std::vector<NamedBatchRule> reduction_batch_rules() {
  return {{"sum", sum_rule},
          {"mean", mean_rule},
          {"prod", prod_rule},
          {"amax", amax_rule},
          {"amin", amin_rule},
          {"all", all_rule},
          {"any", any_rule},
          {"var", var_rule},
          {"std", std_rule},
          {"norm", norm_rule},
          {"logsumexp", logsumexp_rule},
          {"max", max_rule},
          {"min", min_rule},
          {"argmax", argmax_rule},
          {"argmin", argmin_rule},
          {"sort", sort_rule},
          {"argsort", argsort_rule},
          {"topk", topk_rule},
          {"softmax", softmax_rule},
          {"log_softmax", log_softmax_rule},
          {"cumsum", cumsum_rule},
          {"cumprod", cumprod_rule},
          {"logcumsumexp", logcumsumexp_rule}};
}

}  // namespace core::func::detail

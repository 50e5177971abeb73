#include "libcore/distributions/mixture.h"

#include <algorithm>
#include <sstream>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/ops/index.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"

namespace core::distributions {
namespace {

void check_batches(const Shape& mixture, const Shape& components) {
  for (std::size_t i = 1; i <= std::min(mixture.size(), components.size()); ++i) {
    const std::int64_t a = mixture[mixture.size() - i], b = components[components.size() - i];
    if (a == 1 || b == 1 || a == b) continue;
    std::ostringstream text;
    text << "`mixture_distribution.batch_shape` (" << mixture
         << ") is not compatible with `component_distribution.batch_shape`(" << components << ")";
    throw Error(ErrorCode::value, text.str());
  }
}

void check_count(std::int64_t mixture, std::int64_t components) {
  if (mixture == components) return;
  throw Error(ErrorCode::value, "`mixture_distribution component` (" + std::to_string(mixture) +
                                    ") does not equal `component_distribution.batch_shape[-1]` (" +
                                    std::to_string(components) + ")");
}

}  // namespace

MixtureSameFamily::MixtureSameFamily(const Categorical& mixture, const Distribution& components, const Options& options)
    : DistributionOf(Shape(), components.event_shape(), options.validate_args),
      mixture_(mixture),
      components_(components.copy()) {
  Shape batch = components.batch_shape();
  if (batch.empty()) throw Error(ErrorCode::index, "tuple index out of range");
  const std::int64_t count = batch.back();
  batch.pop_back();
  check_batches(mixture.batch_shape(), batch);
  check_count(mixture.param_shape().back(), count);
  set_batch_shape(batch);
  validate();
}

MixtureSameFamily MixtureSameFamily::expand(const Shape& batch_shape) const {
  MixtureSameFamily result(*this);
  result.components_ = components_->expanded(joined(batch_shape, {components_->batch_shape().back()}));
  result.mixture_ = mixture_.expand(batch_shape);
  result.set_batch_shape(batch_shape);
  return result;
}

/// As PyTorch, whose mixture has computed its logits by then, and keeps and prints them.
std::string MixtureSameFamily::str() const {
  std::string mixture = mixture_.str();
  if (mixture.find("logits: ") == std::string::npos)
    mixture.insert(mixture.size() - 1, ", logits: " + shown(mixture_.logits()));
  return "MixtureSameFamily(\n  " + mixture + ",\n  " + components_->str() + ")";
}

/// The mean over the components.
Tensor MixtureSameFamily::weighted(const Tensor& of_components) const {
  const Tensor p = mixture_.probs();
  const std::size_t dims = mixture_.batch_shape().size();
  const Shape between(dims == 1 ? 0 : batch_shape().size() - dims, 1);
  const Shape sizes = joined(joined(mixture_.batch_shape(), between), {p.size(-1)});
  return (p.reshape(joined(sizes, Shape(event_shape().size(), 1))) * of_components).sum(component_dim());
}

Tensor MixtureSameFamily::mean() const {
  return weighted(components_->mean());
}

Tensor MixtureSameFamily::variance() const {
  return weighted(components_->variance()) + weighted((components_->mean() - padded(mean())).pow(2.0));
}

Tensor MixtureSameFamily::sample(const Shape& sample_shape) const {
  const NoGradGuard no_history;
  const Tensor chosen = mixture_.sample(sample_shape), all = components_->sample(sample_shape);
  const auto dim = static_cast<std::int64_t>(sample_shape.size() + batch_shape().size());
  const Tensor column = chosen.reshape(joined(chosen.sizes(), Shape(event_shape().size() + 1, 1)));
  const Tensor index = column.repeat(joined(Shape(static_cast<std::size_t>(chosen.dim()) + 1, 1), event_shape()));
  return gather(all, dim, index).squeeze(dim);
}

Tensor MixtureSameFamily::log_prob(const Tensor& value) const {
  check_sample(value);
  return (components_->log_prob(padded(value)) + log_softmax(mixture_.logits(), -1)).logsumexp(-1);
}

Tensor MixtureSameFamily::cdf(const Tensor& value) const {
  return (components_->cdf(padded(value)) * mixture_.probs()).sum(-1);
}

}  // namespace core::distributions

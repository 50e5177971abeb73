#include "libcore/distributions/exponential_family.h"

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/distributions/distribution.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"

namespace core::distributions {

double ExponentialFamily::mean_carrier_measure() const {
  throw Error(ErrorCode::not_implemented, "the mean of the carrier measure of this family is not implemented");
}

Tensor ExponentialFamily::entropy_by_gradient(const Shape& batch_shape) const {
  const double carrier = mean_carrier_measure();
  const NormalizerGradient at = normalizer_gradient(*this);
  Tensor result = at.log_normalizer - carrier;
  for (std::size_t i = 0; i < at.params.size(); ++i) {
    result = result - (at.params[i] * at.gradients[i]).reshape(joined(batch_shape, {-1})).sum(-1);
  }
  return result;
}

NormalizerGradient normalizer_gradient(const ExponentialFamily& family) {
  const EnableGradGuard with_history;
  NormalizerGradient result;
  for (const Tensor& param : family.natural_params()) result.params.push_back(param.detach().requires_grad_());
  result.log_normalizer = family.log_normalizer(result.params);
  result.gradients = grad({result.log_normalizer.sum()}, result.params, {.create_graph = true});
  return result;
}

}  // namespace core::distributions

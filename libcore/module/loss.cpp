#include "libcore/module/loss.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/python_tuple.h"

namespace core {
namespace {

const LinearCrossEntropyLayerOptions& checked(std::int64_t classes, const LinearCrossEntropyLayerOptions& o) {
  if (o.loss.weight.defined() && o.loss.weight.sizes() != Shape{classes}) {
    throw Error(ErrorCode::runtime, "expected weight shape to be " + detail::python_tuple({classes}) + ", got " +
                                        detail::python_tuple(o.loss.weight.sizes().to_vector()));
  }
  if (o.loss.label_smoothing < 0 || o.loss.label_smoothing > 1) {
    throw Error(ErrorCode::runtime,
                "expected label_smoothing to be in range [0, 1], got " + python_float(o.loss.label_smoothing));
  }
  return o;
}

}  // namespace

void TripletMarginWithDistanceLoss::check() const {
  if (options.margin > 0) return;
  throw Error(ErrorCode::value, "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got " +
                                    python_float(options.margin) + " instead");
}

LinearCrossEntropyLoss::LinearCrossEntropyLoss(std::int64_t in, std::int64_t classes,
                                               const LinearCrossEntropyLayerOptions& given)
    : num_classes(classes),
      options(checked(classes, given)),
      linear(in, classes * given.out_features.numel(),
             {.bias = given.bias, .dtype = given.dtype, .device = given.device}) {}

std::string LinearCrossEntropyLoss::extra_repr() const {
  const std::int64_t ignored = options.loss.ignore_index;
  return "in_features=" + std::to_string(linear.in_features) + ", num_classes=" + std::to_string(num_classes) +
         ", out_features=" + detail::python_tuple(options.out_features.to_vector()) +
         ", bias=" + (options.bias ? "True" : "False") + ", reduction=" + std::string(name(options.loss.reduction)) +
         ", ignore_index=" + (ignored == CrossEntropyOptions().ignore_index ? "None" : std::to_string(ignored)) +
         ", label_smoothing=" + python_float(options.loss.label_smoothing) + ", options=None";
}

Tensor LinearCrossEntropyLoss::forward(const Tensor& x, const Tensor& target) const {
  Shape classes{num_classes};
  for (const std::int64_t size : options.out_features) classes.push_back(size);
  Shape weight = classes;
  weight.push_back(linear.in_features);
  return linear_cross_entropy(x, linear.weight.reshape(weight), target,
                              options.bias ? linear.bias.reshape(classes) : Tensor(), options.loss);
}

template class ModuleOf<CrossEntropyLoss>;
template class ModuleOf<NLLLoss>;
template class ModuleOf<LinearCrossEntropyLoss>;
template class ModuleOf<MSELoss>;
template class ModuleOf<L1Loss>;
template class ModuleOf<SmoothL1Loss>;
template class ModuleOf<HuberLoss>;
template class ModuleOf<BCELoss>;
template class ModuleOf<BCEWithLogitsLoss>;
template class ModuleOf<KLDivLoss>;
template class ModuleOf<PoissonNLLLoss>;
template class ModuleOf<GaussianNLLLoss>;
template class ModuleOf<SoftMarginLoss>;
template class ModuleOf<MultiLabelMarginLoss>;
template class ModuleOf<HingeEmbeddingLoss>;
template class ModuleOf<MarginRankingLoss>;
template class ModuleOf<CosineEmbeddingLoss>;
template class ModuleOf<TripletMarginLoss>;
template class ModuleOf<TripletMarginWithDistanceLoss>;
template class ModuleOf<MultiMarginLoss>;
template class ModuleOf<MultiLabelSoftMarginLoss>;
template class ModuleOf<CTCLoss>;

}  // namespace core

#include "libcore/module/dropout.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/print.h"
#include "libcore/ops/dropout.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

Tensor settle(const Tensor& x, const Tensor& y, bool inplace) {
  return inplace && !x.is_same(y) ? x.copy_(y) : y;
}

}  // namespace

DropoutState::DropoutState(double probability, const DropoutOptions& options)
    : p(probability), inplace(options.inplace) {
  check_dropout_probability(p);
}

std::string DropoutState::describe() const {
  return "p=" + python_float(p) + ", inplace=" + detail::python_bool(inplace);
}

Tensor Dropout::forward(const Tensor& x) const {
  return inplace ? dropout_(x, p, is_training()) : dropout(x, p, is_training());
}

Tensor Dropout1d::forward(const Tensor& x) const {
  return settle(x, dropout1d(x, p, is_training()), inplace);
}

Tensor Dropout2d::forward(const Tensor& x) const {
  return settle(x, dropout2d(x, p, is_training()), inplace);
}

Tensor Dropout3d::forward(const Tensor& x) const {
  return settle(x, dropout3d(x, p, is_training()), inplace);
}

Tensor AlphaDropout::forward(const Tensor& x) const {
  return settle(x, alpha_dropout(x, p, is_training()), inplace);
}

Tensor FeatureAlphaDropout::forward(const Tensor& x) const {
  return settle(x, feature_alpha_dropout(x, p, is_training()), inplace);
}

template class ModuleOf<Dropout>;
template class ModuleOf<Dropout1d>;
template class ModuleOf<Dropout2d>;
template class ModuleOf<Dropout3d>;
template class ModuleOf<AlphaDropout>;
template class ModuleOf<FeatureAlphaDropout>;

}  // namespace core

#include "libcore/module/linear.h"

#include <cmath>

#include "libcore/base/error.h"
#include "libcore/module/init.h"
#include "libcore/module/print.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options) : in_features(in), out_features(out) {
  const TensorOptions made{.dtype = options.dtype, .device = options.device};
  weight = Parameter(empty({out, in}, made));
  if (options.bias) bias = Parameter(empty({out}, made));
  reset_parameters();
}

void Linear::reset_parameters() {
  init::default_weight_and_bias_(weight, bias);
}

void Linear::members(Members& m) {
  m.parameter("weight", weight).parameter("bias", bias);
}

std::string Linear::extra_repr() const {
  return "in_features=" + std::to_string(in_features) + ", out_features=" + std::to_string(out_features) +
         ", bias=" + detail::python_bool(bias.defined());
}

Tensor Linear::forward(const Tensor& x) const {
  return linear(x, weight, bias);
}

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, const LinearOptions& options)
    : in1_features(in1), in2_features(in2), out_features(out) {
  if (in1 <= 0) throw Error(ErrorCode::value, "in1_features must be > 0, but got " + std::to_string(in1));
  const TensorOptions made{.dtype = options.dtype, .device = options.device};
  weight = Parameter(empty({out, in1, in2}, made));
  if (options.bias) bias = Parameter(empty({out}, made));
  reset_parameters();
}

void Bilinear::reset_parameters() {
  const double bound = 1 / std::sqrt(static_cast<double>(in1_features));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

void Bilinear::members(Members& m) {
  m.parameter("weight", weight).parameter("bias", bias);
}

std::string Bilinear::extra_repr() const {
  return "in1_features=" + std::to_string(in1_features) + ", in2_features=" + std::to_string(in2_features) +
         ", out_features=" + std::to_string(out_features) + ", bias=" + detail::python_bool(bias.defined());
}

Tensor Bilinear::forward(const Tensor& a, const Tensor& b) const {
  return bilinear(a, b, weight, bias);
}

std::string Flatten::extra_repr() const {
  return "start_dim=" + std::to_string(start_dim) + ", end_dim=" + std::to_string(end_dim);
}

template class ModuleOf<Linear>;
template class ModuleOf<Bilinear>;
template class ModuleOf<Identity>;
template class ModuleOf<Flatten>;
template class ModuleOf<CosineSimilarity>;
template class ModuleOf<PairwiseDistance>;

}  // namespace core

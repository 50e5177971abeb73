#include "libcore/module/linear.h"

#include "libcore/module/init.h"
#include "libcore/module/print.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"

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

std::string Flatten::extra_repr() const {
  return "start_dim=" + std::to_string(start_dim) + ", end_dim=" + std::to_string(end_dim);
}

}  // namespace core

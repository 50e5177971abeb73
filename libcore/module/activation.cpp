#include "libcore/module/activation.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/print.h"
#include "libcore/tensor/factory.h"

namespace core {

using detail::inplace_text;
using detail::python_number;

namespace detail {

std::string inplace_text(std::string text, bool inplace) {
  if (!inplace) return text;
  return text.empty() ? "inplace=True" : text + ", inplace=True";
}

}  // namespace detail

Tensor ReLU::forward(const Tensor& x) const {
  if (!inplace) return relu(x);
  return x.relu_();
}

std::string LeakyReLU::extra_repr() const {
  return inplace_text("negative_slope=" + python_number(negative_slope), inplace);
}

std::string ELU::extra_repr() const {
  return inplace_text("alpha=" + python_number(alpha), inplace);
}

std::string CELU::extra_repr() const {
  return inplace_text("alpha=" + python_number(alpha), inplace);
}

std::string Hardtanh::extra_repr() const {
  return inplace_text("min_val=" + python_number(min_val) + ", max_val=" + python_number(max_val), inplace);
}

std::string Threshold::extra_repr() const {
  return inplace_text("threshold=" + python_number(limit) + ", value=" + python_number(value), inplace);
}

std::string Softplus::extra_repr() const {
  return "beta=" + python_number(beta) + ", threshold=" + python_number(threshold);
}

std::string Softshrink::extra_repr() const {
  return python_number(lambda);
}

std::string Hardshrink::extra_repr() const {
  return python_number(lambda);
}

std::string GELU::extra_repr() const {
  return std::string("approximate='") + (approximate == GeluForm::tanh ? "tanh" : "none") + "'";
}

Tensor Softmax2d::forward(const Tensor& x) const {
  if (x.dim() != 3 && x.dim() != 4) {
    throw Error(ErrorCode::value,
                "Softmax2d: expected input to be 3D or 4D, got " + std::to_string(x.dim()) + "D instead");
  }
  return softmax(x, -3);
}

PReLU::PReLU(std::int64_t count, double init) : num_parameters(count), weight(full({count}, init)) {}

std::string RReLU::extra_repr() const {
  return inplace_text("lower=" + python_float(lower) + ", upper=" + python_float(upper), inplace);
}

Tensor RReLU::forward(const Tensor& x) const {
  const RreluOptions options{lower, upper, is_training()};
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return rrelu(in, options); });
}

Tensor ReLU6::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return relu6(in); });
}

Tensor SELU::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return selu(in); });
}

Tensor SiLU::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return silu(in); });
}

Tensor Mish::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return mish(in); });
}

Tensor Hardswish::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return hardswish(in); });
}

Tensor Hardsigmoid::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return hardsigmoid(in); });
}

Tensor LeakyReLU::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace,
                                [&](const Tensor& in) { return leaky_relu(in, negative_slope.to_double()); });
}

Tensor ELU::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return elu(in, alpha.to_double()); });
}

Tensor CELU::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace, [&](const Tensor& in) { return celu(in, alpha.to_double()); });
}

Tensor Hardtanh::forward(const Tensor& x) const {
  return detail::maybe_in_place(
      x, inplace, [&](const Tensor& in) { return hardtanh(in, min_val.to_double(), max_val.to_double()); });
}

Tensor Threshold::forward(const Tensor& x) const {
  return detail::maybe_in_place(x, inplace,
                                [&](const Tensor& in) { return threshold(in, limit.to_double(), value.to_double()); });
}

template class ModuleOf<ReLU>;
template class ModuleOf<ReLU6>;
template class ModuleOf<SELU>;
template class ModuleOf<SiLU>;
template class ModuleOf<Mish>;
template class ModuleOf<Hardswish>;
template class ModuleOf<Hardsigmoid>;
template class ModuleOf<LeakyReLU>;
template class ModuleOf<ELU>;
template class ModuleOf<CELU>;
template class ModuleOf<Hardtanh>;
template class ModuleOf<Threshold>;
template class ModuleOf<Softplus>;
template class ModuleOf<Softshrink>;
template class ModuleOf<Hardshrink>;
template class ModuleOf<Sigmoid>;
template class ModuleOf<LogSigmoid>;
template class ModuleOf<Tanh>;
template class ModuleOf<Softsign>;
template class ModuleOf<Tanhshrink>;
template class ModuleOf<GELU>;
template class ModuleOf<Softmax>;
template class ModuleOf<LogSoftmax>;
template class ModuleOf<Softmin>;
template class ModuleOf<GLU>;
template class ModuleOf<Softmax2d>;
template class ModuleOf<PReLU>;
template class ModuleOf<RReLU>;

}  // namespace core

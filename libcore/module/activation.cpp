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

}  // namespace core

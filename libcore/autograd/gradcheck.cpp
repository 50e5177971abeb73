#include <cmath>
#include <string>

#include "libcore/autograd/autograd.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"

namespace core {
namespace {

using Function = std::function<Tensor(std::span<const Tensor>)>;

/// d output / d input[element], by a central difference.
std::vector<double> numerical_column(const Function& function, const std::vector<Tensor>& inputs, const Tensor& input,
                                     std::int64_t element, double eps) {
  double* value = input.mutable_data<double>() + element;
  const double kept = *value;
  *value = kept + eps;
  std::vector<double> above = function(inputs).to_vector<double>();
  *value = kept - eps;
  std::vector<double> below = function(inputs).to_vector<double>();
  *value = kept;
  for (std::size_t i = 0; i < above.size(); ++i) above[i] = (above[i] - below[i]) / (2 * eps);
  return above;
}

/// Row i: the gradient of output element i with respect to `input`.
std::vector<std::vector<double>> analytical_rows(const Tensor& output, const Tensor& input) {
  std::vector<std::vector<double>> rows;
  for (std::int64_t i = 0; i < output.numel(); ++i) {
    Tensor seed = zeros({output.numel()}, {.dtype = output.dtype()});
    seed.mutable_data<double>()[i] = 1;
    GradOptions options{.grad_outputs = {seed.view(output.sizes())}, .retain_graph = true, .materialize_grads = true};
    rows.push_back(grad({output}, {input}, options)[0].to_vector<double>());
  }
  return rows;
}

bool close(double a, double b, const GradcheckOptions& options) {
  return std::abs(a - b) <= options.atol + options.rtol * std::abs(b);
}

void compare(const std::vector<std::vector<double>>& rows, const std::vector<double>& column, std::size_t input,
             std::int64_t element, const GradcheckOptions& options) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double analytical = rows[i][static_cast<std::size_t>(element)];
    if (close(analytical, column[i], options)) continue;
    throw Error(ErrorCode::runtime, "Jacobian mismatch for output " + std::to_string(i) + " with respect to input " +
                                        std::to_string(input) + " element " + std::to_string(element) + ": numerical " +
                                        std::to_string(column[i]) + ", analytical " + std::to_string(analytical));
  }
}

}  // namespace

bool gradcheck(const Function& function, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  Tensor output = function(inputs);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& input = inputs[k];
    if (!input.requires_grad()) continue;
    if (input.dtype() != DType::f64 || !input.is_contiguous()) {
      throw Error(ErrorCode::usage, "gradcheck: input " + std::to_string(k) + ": contiguous float64 tensors only");
    }
    auto rows = analytical_rows(output, input);
    for (std::int64_t element = 0; element < input.numel(); ++element) {
      compare(rows, numerical_column(function, inputs, input, element, options.eps), k, element, options);
    }
  }
  return true;
}

}  // namespace core

#include "libcore/autograd/gradcheck.h"

#include <cmath>
#include <string>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/base/warning.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using Inputs = std::vector<Tensor>;
/// Row i belongs to element i of an input, column j to element j of an output.
using Jacobian = std::vector<std::vector<double>>;

/// A view of one element, in row-major order.
Tensor element_of(const Tensor& alias, std::int64_t element) {
  std::int64_t offset = alias.storage_offset();
  for (std::int64_t d = alias.dim() - 1; d >= 0; --d) {
    offset += element % alias.size(d) * alias.stride(d);
    element /= alias.size(d);
  }
  return alias.as_strided({}, {}, offset);
}

std::vector<std::vector<double>> values_of(const std::vector<Tensor>& outputs) {
  std::vector<std::vector<double>> values;
  for (const Tensor& output : outputs) values.push_back(output.to_vector<double>());
  return values;
}

/// Jacobians of all outputs by input k: central differences.
std::vector<Jacobian> numerical(const GradcheckFunctionMany& function, const Inputs& inputs, std::size_t k,
                                double eps) {
  const Tensor alias = inputs[k].data_alias();
  std::vector<Jacobian> result;
  for (std::int64_t i = 0; i < alias.numel(); ++i) {
    const Tensor element = element_of(alias, i);
    const double kept = element.item<double>();
    element.fill_(kept + eps);
    const auto above = values_of(function(inputs));
    element.fill_(kept - eps);
    const auto below = values_of(function(inputs));
    element.fill_(kept);
    result.resize(above.size());
    for (std::size_t o = 0; o < above.size(); ++o) {
      auto& row = result[o].emplace_back();
      for (std::size_t j = 0; j < above[o].size(); ++j) row.push_back((above[o][j] - below[o][j]) / (2 * eps));
    }
  }
  return result;
}

Jacobian analytical(const Tensor& output, const Tensor& input) {
  const auto rows = static_cast<std::size_t>(input.numel()), columns = static_cast<std::size_t>(output.numel());
  Jacobian result(rows, std::vector<double>(columns, 0));
  if (!output.requires_grad()) return result;
  for (std::size_t j = 0; j < columns; ++j) {
    const Tensor seed = zeros({output.numel()}, {.dtype = output.dtype(), .device = output.device()});
    seed.select(0, static_cast<std::int64_t>(j)).fill_(1);
    const Tensor slope =
        grad({output}, {input},
             {.grad_outputs = {seed.view(output.sizes())}, .retain_graph = true, .allow_unused = true})[0];
    if (!slope.defined()) continue;
    const std::vector<double> column = slope.to_vector<double>();
    for (std::size_t i = 0; i < rows; ++i) result[i][j] = column[i];
  }
  return result;
}

bool is_close(const Jacobian& a, const Jacobian& n, const GradcheckOptions& options) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      if (a[i][j] == n[i][j]) continue;  // infinities too
      if (!(std::abs(a[i][j] - n[i][j]) <= options.atol + options.rtol * std::abs(n[i][j]))) return false;
    }
  }
  return true;
}

std::string text_of(const Jacobian& jacobian, DType dtype) {
  std::vector<double> flat;
  for (const auto& row : jacobian) flat.insert(flat.end(), row.begin(), row.end());
  const auto rows = static_cast<std::int64_t>(jacobian.size());
  const Tensor values = from_values(flat, {.device = Device()})
                            .view({rows, rows == 0 ? 0 : static_cast<std::int64_t>(flat.size()) / rows});
  return to_string(values.to(dtype));
}

void compare(const Jacobian& found, const Jacobian& expected, std::size_t output, std::size_t input, DType dtype,
             const GradcheckOptions& options) {
  if (is_close(found, expected, options)) return;
  detail::fail("Jacobian mismatch for output " + std::to_string(output) + " with respect to input " +
               std::to_string(input) + ",\nnumerical:" + text_of(expected, dtype) +
               "\nanalytical:" + text_of(found, dtype) + "\n");
}

void check_inputs(const Inputs& inputs) {
  bool any = false;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].defined() || !inputs[k].requires_grad()) continue;
    any = true;
    if (inputs[k].dtype() != DType::f64) {
      warn("Input #" + std::to_string(k) +
           " requires gradient and is not a double precision floating point or complex. This check will likely fail if "
           "all the inputs are not of double precision floating point or complex. ");
    }
    for (std::int64_t d = 0; d < inputs[k].dim(); ++d) {
      if (inputs[k].size(d) <= 1 || inputs[k].stride(d) != 0) continue;
      detail::fail(
          "The " + std::to_string(k) +
          "th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able "
          "to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to "
          "gradcheck.");
    }
  }
  if (!any) {
    throw Error(ErrorCode::value,
                "gradcheck expects at least one input tensor to require gradient, but none of them have "
                "requires_grad=True.");
  }
}

void check_all(const GradcheckFunctionMany& function, const Inputs& inputs, const GradcheckOptions& options) {
  check_inputs(inputs);
  const std::vector<Tensor> outputs = function(inputs);
  bool any_history = false;
  for (const Tensor& output : outputs) any_history = any_history || output.requires_grad();
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].defined() || !inputs[k].requires_grad()) continue;
    const std::vector<Jacobian> expected = numerical(function, inputs, k, options.eps);
    for (std::size_t o = 0; o < expected.size(); ++o) {
      if (!outputs[o].is_floating_point()) continue;
      const Jacobian found = analytical(outputs[o], inputs[k]);
      if (!any_history && !is_close(found, expected[o], options)) {
        detail::fail("Numerical gradient for function expected to be zero");
      }
      compare(found, expected[o], o, k, inputs[k].dtype(), options);
      if (analytical(outputs[o], inputs[k]) != found) {
        detail::fail(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            "different values, although analytical gradient matches numerical gradient. The tolerance for "
            "nondeterminism was 0.0.");
      }
    }
  }
}

/// Values without pattern, of both signs, that need no random numbers.
Tensor irregular_like(const Tensor& like) {
  const Tensor count = arange(like.numel(), {.dtype = DType::f64, .device = like.device()});
  return (sin(count * 1.7 + 0.6) * 0.9 + 0.2).view(like.sizes()).to(like.dtype());
}

std::vector<Tensor> differentiable(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> kept;
  for (const Tensor& output : outputs) {
    if (output.is_floating_point() && output.requires_grad()) kept.push_back(output);
  }
  return kept;
}

}  // namespace

bool gradcheck(const GradcheckFunctionMany& function, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  const EnableGradGuard with_history;
  try {
    check_all(function, inputs, options);
  } catch (const Error& error) {
    if (options.raise_exception || error.code() != ErrorCode::runtime) throw;
    return false;
  }
  return true;
}

bool gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  const auto many = [&](std::span<const Tensor> in) { return std::vector<Tensor>{function(in)}; };
  return gradcheck(GradcheckFunctionMany(many), inputs, options);
}

bool gradgradcheck(const GradcheckFunctionMany& function, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& grad_outputs, const GradcheckOptions& options) {
  std::vector<Tensor> all = inputs;
  if (grad_outputs.empty()) {
    const EnableGradGuard with_history;
    for (const Tensor& output : differentiable(function(inputs))) {
      all.push_back(irregular_like(output.detach()).detach().requires_grad_());
    }
  } else {
    for (const Tensor& given : grad_outputs) all.push_back(given.detach().requires_grad_());
  }
  const std::size_t count = inputs.size();
  const auto slopes = [&](std::span<const Tensor> in) {
    const EnableGradGuard with_history;  // numerical differences too go through the first derivative
    const std::vector<Tensor> outputs = differentiable(function(in.first(count)));
    std::vector<Tensor> starts;
    for (const Tensor& input : in.first(count)) {
      if (input.defined() && input.requires_grad()) starts.push_back(input);
    }
    std::vector<Tensor> found = grad(outputs, starts,
                                     {.grad_outputs = {in.begin() + static_cast<std::ptrdiff_t>(count), in.end()},
                                      .create_graph = true,
                                      .allow_unused = true});
    std::erase_if(found, [](const Tensor& t) { return !t.defined(); });
    return found;
  };
  return gradcheck(GradcheckFunctionMany(slopes), all, options);
}

bool gradgradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>& grad_outputs, const GradcheckOptions& options) {
  const auto many = [&](std::span<const Tensor> in) { return std::vector<Tensor>{function(in)}; };
  return gradgradcheck(GradcheckFunctionMany(many), inputs, grad_outputs, options);
}

}  // namespace core

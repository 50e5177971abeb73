#include "libcore/autograd/functional.h"

#include <string>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// What stands for `x` in the call.
Tensor input_of(const Tensor& x, const FunctionalOptions& o) {
  if (o.create_graph && x.requires_grad()) return x.view_as(x);
  return x.detach().requires_grad_();
}

std::vector<Tensor> slopes(const Tensor& y, const std::vector<Tensor>& inputs, const Tensor& up, bool create_graph) {
  if (!y.requires_grad()) {
    std::vector<Tensor> none;
    for (const Tensor& x : inputs) none.push_back(zeros_like(x.detach()));
    return none;
  }
  return grad({y}, inputs,
              {.grad_outputs = {up},
               .retain_graph = true,
               .create_graph = create_graph,
               .allow_unused = true,
               .materialize_grads = true});
}

Shape joined(const Shape& a, const Shape& b) {
  Shape sizes = a;
  for (const std::int64_t size : b) sizes.push_back(size);
  return sizes;
}

std::vector<Tensor> jacobians(const Tensor& y, const std::vector<Tensor>& inputs, bool create_graph) {
  const Tensor flat = y.reshape({-1});
  std::vector<std::vector<Tensor>> rows(inputs.size());
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const std::vector<Tensor> row = slopes(flat[i], inputs, {}, create_graph);
    for (std::size_t k = 0; k < row.size(); ++k) rows[k].push_back(row[k]);
  }
  std::vector<Tensor> result;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Shape sizes = joined(y.sizes(), inputs[k].sizes());
    result.push_back(rows[k].empty() ? zeros(sizes, {.dtype = y.dtype(), .device = y.device()})
                                     : stack(rows[k]).reshape(sizes));
  }
  return result;
}

/// `v`, or 1 where that is what it can only be.
Tensor checked_vector(const Tensor& v, const Tensor& like, const char* where) {
  if (!v.defined()) {
    if (like.numel() == 1) return ones_like(like.detach());
    detail::fail(std::string("The vector v can only be None if ") + where + " a single Tensor with a single element.");
  }
  if (v.sizes() != like.sizes()) {
    detail::fail("v has invalid size: should be torch.Size(" + to_list(like.sizes()) + ") but got torch.Size(" +
                 to_list(v.sizes()) + ").");
  }
  return v;
}
constexpr const char* kInput = "the input to the user-provided function is";
constexpr const char* kOutput = "the user-provided function returns";

Tensor single(const Tensor& y, const char* name) {
  if (y.numel() == 1) return y;
  detail::fail(std::string("The Tensor returned by the function given to ") + name +
               " should contain a single element");
}

Tensor kept(const Tensor& y, const FunctionalOptions& o) {
  return o.create_graph ? y : y.detach();
}

FunctionProduct hessian_product(const TensorFunction& f, const Tensor& x, const Tensor& v, const FunctionalOptions& o,
                                const char* name) {
  const GradModeGuard history(true);
  const Tensor input = input_of(x, o), y = single(f(input), name), along = checked_vector(v, x, kInput);
  const Tensor slope = slopes(y, {input}, {}, true)[0];
  return {kept(y, o), slopes(slope, {input}, along, o.create_graph)[0]};
}

}  // namespace

std::vector<Tensor> jacobian(const TensorsFunction& f, const std::vector<Tensor>& inputs, const FunctionalOptions& o) {
  const GradModeGuard history(true);
  std::vector<Tensor> own;
  for (const Tensor& x : inputs) own.push_back(input_of(x, o));
  return jacobians(f(own), own, o.create_graph);
}

Tensor jacobian(const TensorFunction& f, const Tensor& x, const FunctionalOptions& o) {
  return jacobian([&](const std::vector<Tensor>& in) { return f(in[0]); }, std::vector<Tensor>{x}, o)[0];
}

Tensor hessian(const TensorFunction& f, const Tensor& x, const FunctionalOptions& o) {
  const auto slope = [&](const Tensor& in) { return slopes(single(f(in), "hessian"), {in}, {}, true)[0]; };
  return jacobian(TensorFunction(slope), x, o);
}

FunctionProduct vjp(const TensorFunction& f, const Tensor& x, const Tensor& v, const FunctionalOptions& o) {
  const GradModeGuard history(true);
  const Tensor input = input_of(x, o), y = f(input);
  return {kept(y, o), slopes(y, {input}, checked_vector(v, y, kOutput), o.create_graph)[0]};
}

FunctionProduct jvp(const TensorFunction& f, const Tensor& x, const Tensor& v, const FunctionalOptions& o) {
  const GradModeGuard history(true);
  const Tensor input = input_of(x, o), along = checked_vector(v, x, kInput), y = f(input);
  // The product with a row is linear in the row: its derivative along v is the product with the column v.
  const Tensor row = zeros_like(y.detach()).requires_grad_();
  const Tensor product = slopes(y, {input}, row, true)[0];
  return {kept(y, o), slopes(product, {row}, along, o.create_graph)[0]};
}

FunctionProduct hvp(const TensorFunction& f, const Tensor& x, const Tensor& v, const FunctionalOptions& o) {
  return hessian_product(f, x, v, o, "hvp");
}

FunctionProduct vhp(const TensorFunction& f, const Tensor& x, const Tensor& v, const FunctionalOptions& o) {
  return hessian_product(f, x, v, o, "vhp");
}

}  // namespace core

#pragma once
// The table of differentiable operations: one row (or several) an operation, with inputs on which its gradients are
// compared with finite differences. A row's name is the function's, as the headers declare it, with "/variant" behind
// it where it has several. Use: GradCases cases; add_elementwise_cases(cases); for (const GradCase& c : cases.rows())
// ...

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "libcore/autograd/gradcheck.h"
#include "libcore/base/error.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"

namespace test {

using core::Shape;
using core::Tensor;
using In = std::span<const Tensor>;

struct GradCase {
  std::string name;
  std::vector<Tensor> inputs;
  core::GradcheckFunctionMany function;
  bool twice = true;  ///< has a second derivative worth checking
};

class GradCases {
 public:
  using One = std::function<Tensor(In)>;

  void add(std::string name, std::vector<Tensor> inputs, One function, bool twice = true) {
    rows_.push_back({std::move(name), std::move(inputs),
                     [f = std::move(function)](In in) { return std::vector<Tensor>{f(in)}; }, twice});
  }
  void many(std::string name, std::vector<Tensor> inputs, core::GradcheckFunctionMany function, bool twice = true) {
    rows_.push_back({std::move(name), std::move(inputs), std::move(function), twice});
  }
  const std::vector<GradCase>& rows() const { return rows_; }

 private:
  std::vector<GradCase> rows_;
};

/// f64 values between the limits, all different, in no order; wants a gradient.
inline Tensor irregular(const Shape& sizes, double from = -0.9, double to = 1.1) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < sizes.numel(); ++i) {
    const double at = 0.137 + 0.6180339887498949 * static_cast<double>(i);
    values.push_back(from + (to - from) * (at - static_cast<double>(static_cast<std::int64_t>(at))));
  }
  return core::from_values(std::span<const double>(values), sizes).requires_grad_();
}
/// The same, not contiguous where there are two dimensions.
inline Tensor strided(const Shape& sizes, double from = -0.9, double to = 1.1) {
  Shape turned = sizes;
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  return irregular(turned, from, to).detach().transpose(-1, -2).detach().requires_grad_();
}
/// Values that take no gradient.
inline Tensor fixed(const Shape& sizes, double from = -0.9, double to = 1.1) {
  return irregular(sizes, from, to).detach();
}

void add_elementwise_cases(GradCases& cases);
void add_activation_cases(GradCases& cases);
void add_reduction_cases(GradCases& cases);
void add_order_cases(GradCases& cases);
void add_product_cases(GradCases& cases);
void add_view_cases(GradCases& cases);
void add_joining_cases(GradCases& cases);
void add_picking_cases(GradCases& cases);
void add_in_place_cases(GradCases& cases);
void add_layer_cases(GradCases& cases);
void add_pool_cases(GradCases& cases);
void add_loss_cases(GradCases& cases);
void add_linalg_cases(GradCases& cases);
/// Complex numbers from pairs of real ones to such pairs.
void add_complex_cases(GradCases& cases);

}  // namespace test

#include <ostream>

#include "libcore/ops/index.h"
#include "libcore/ops/pointwise.h"
#include "tests/libcore/autograd/autograd_cases.h"

namespace test {
namespace {

using core::Tensor;

/// Gradient of the sum of f(x) at a fresh start.
template <class F>
void print_fresh_grad(std::ostream& out, const Tensor& x, F f) {
  x.set_grad({});
  f(x).sum().backward();
  print_grad(out, x);
}

void max_ties(std::ostream& out) {
  Tensor x = core::tensor({-1.46, -1.46, -2.46}, {.requires_grad = true});
  print_fresh_grad(out, x, [](const Tensor& t) { return t.max(); });
  print_fresh_grad(out, x, [](const Tensor& t) { return core::amax(t); });
  print_fresh_grad(out, x, [](const Tensor& t) { return t.max(0).values; });
}

void sqrt_zero(std::ostream& out) {
  Tensor x = core::zeros({2}, {.requires_grad = true});
  print_fresh_grad(out, x, [](const Tensor& t) { return t.sqrt(); });
  print_fresh_grad(out, x, [](const Tensor& t) { return t.norm(); });
  print_fresh_grad(out, x, [](const Tensor& t) { return core::pow(t, 0.5); });
}

void where_nan(std::ostream& out) {
  Tensor x = core::tensor({0.0, 4.0}, {.requires_grad = true});
  print_fresh_grad(out, x, [](const Tensor& t) { return core::where(t > 0, t.sqrt(), t); });
}

void cast_grad(std::ostream& out) {
  Tensor x = leaf();
  (x.to_double() * 2).sum().backward();
  print_grad(out, x);
  out << x.grad().dtype() << '\n';
}

void int_index_accumulate(std::ostream& out) {
  Tensor x = leaf();
  core::index(x, {core::tensor({0, 0, 2})}).sum().backward();
  print_grad(out, x);
}

}  // namespace

void add_kink_cases(AutogradCases& c) {
  c["max_ties"] = max_ties;
  c["sqrt_zero"] = sqrt_zero;
  c["where_nan"] = where_nan;
  c["cast_grad"] = cast_grad;
  c["int_index_accumulate"] = int_index_accumulate;
}

}  // namespace test

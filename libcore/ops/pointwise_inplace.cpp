// The same in place.
#include "libcore/ops/pointwise.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::with_other;
using detail::in_place;

/// For operations with a kernel that writes into its own input.
template <class Operation>
const Tensor& direct(const Tensor& x, UnaryOp op, Operation operation) {
  return in_place(x, needs_grad(x), operation, [&] { raw::unary_into(op, x, x); });
}

/// Of functions that are called element by element: they have no derivative.
void check_called(const Tensor& x, const std::vector<Tensor>& others, const std::string& name) {
  bool tracked = x.requires_grad();
  for (const Tensor& other : others) tracked = tracked || other.requires_grad();
  if (tracked) {
    fail("Can't call " + name + "() on Variable that requires grad. Use var.detach()." + name + "() instead.");
  }
  if (x.device().type() != DeviceType::cpu) fail(name + " is only implemented on CPU tensors", ErrorCode::type);
  for (const Tensor& other : others) {
    if (other.dtype() == x.dtype()) continue;
    fail(name + ": expected " + x.type() + " for 'other' (got " + other.type() + ")", ErrorCode::type);
  }
}

/// x = function(x, the elements of the others, which broadcast to x).
template <class Function>
const Tensor& each_element(const Tensor& x, const std::vector<Tensor>& others, Function function) {
  std::vector<double> values = x.to_vector<double>();
  std::vector<std::vector<double>> rows;
  for (const Tensor& other : others) rows.push_back(other.expand(x.sizes()).to_vector<double>());
  std::vector<double> beside(rows.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t k = 0; k < rows.size(); ++k) beside[k] = rows[k][i];
    values[i] = function(values[i], beside.data());
  }
  return x.copy_(from_values(std::span<const double>(values), x.sizes()));
}

}  // namespace

const Tensor& apply_(const Tensor& x, const std::function<double(double)>& function) {
  check_called(x, {}, "apply_");
  return each_element(x, {}, [&](double v, const double*) { return function(v); });
}
const Tensor& map_(const Tensor& x, const Tensor& other, const std::function<double(double, double)>& function) {
  check_called(x, {other}, "map_");
  return each_element(x, {other}, [&](double v, const double* others) { return function(v, others[0]); });
}
const Tensor& map2_(const Tensor& x, const Tensor& a, const Tensor& b,
                    const std::function<double(double, double, double)>& function) {
  check_called(x, {a, b}, "map2_");
  return each_element(x, {a, b}, [&](double v, const double* others) { return function(v, others[0], others[1]); });
}

const Tensor& acos_(const Tensor& x) {
  return direct(x, UnaryOp::acos, [](const Tensor& t) { return acos(t); });
}
const Tensor& acosh_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return acosh(t); });
}
const Tensor& asin_(const Tensor& x) {
  return direct(x, UnaryOp::asin, [](const Tensor& t) { return asin(t); });
}
const Tensor& asinh_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return asinh(t); });
}
const Tensor& atan_(const Tensor& x) {
  return direct(x, UnaryOp::atan, [](const Tensor& t) { return atan(t); });
}
const Tensor& atanh_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return atanh(t); });
}
const Tensor& ceil_(const Tensor& x) {
  return direct(x, UnaryOp::ceil, [](const Tensor& t) { return ceil(t); });
}
const Tensor& cos_(const Tensor& x) {
  return direct(x, UnaryOp::cos, [](const Tensor& t) { return cos(t); });
}
const Tensor& cosh_(const Tensor& x) {
  return direct(x, UnaryOp::cosh, [](const Tensor& t) { return cosh(t); });
}
const Tensor& deg2rad_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return deg2rad(t); });
}
const Tensor& digamma_(const Tensor& x) {
  return direct(x, UnaryOp::digamma, [](const Tensor& t) { return digamma(t); });
}
const Tensor& erf_(const Tensor& x) {
  return direct(x, UnaryOp::erf, [](const Tensor& t) { return erf(t); });
}
const Tensor& erfc_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return erfc(t); });
}
const Tensor& erfinv_(const Tensor& x) {
  return direct(x, UnaryOp::erfinv, [](const Tensor& t) { return erfinv(t); });
}
const Tensor& exp2_(const Tensor& x) {
  return direct(x, UnaryOp::exp2, [](const Tensor& t) { return exp2(t); });
}
const Tensor& expm1_(const Tensor& x) {
  return direct(x, UnaryOp::expm1, [](const Tensor& t) { return expm1(t); });
}
const Tensor& floor_(const Tensor& x) {
  return direct(x, UnaryOp::floor, [](const Tensor& t) { return floor(t); });
}
const Tensor& frac_(const Tensor& x) {
  return direct(x, UnaryOp::frac, [](const Tensor& t) { return frac(t); });
}
const Tensor& lgamma_(const Tensor& x) {
  return direct(x, UnaryOp::lgamma, [](const Tensor& t) { return lgamma(t); });
}
const Tensor& log_(const Tensor& x) {
  return direct(x, UnaryOp::log, [](const Tensor& t) { return log(t); });
}
const Tensor& log10_(const Tensor& x) {
  return direct(x, UnaryOp::log10, [](const Tensor& t) { return log10(t); });
}
const Tensor& log1p_(const Tensor& x) {
  return direct(x, UnaryOp::log1p, [](const Tensor& t) { return log1p(t); });
}
const Tensor& log2_(const Tensor& x) {
  return direct(x, UnaryOp::log2, [](const Tensor& t) { return log2(t); });
}
const Tensor& rad2deg_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return rad2deg(t); });
}
const Tensor& reciprocal_(const Tensor& x) {
  return direct(x, UnaryOp::reciprocal, [](const Tensor& t) { return reciprocal(t); });
}
const Tensor& round_(const Tensor& x) {
  return direct(x, UnaryOp::round, [](const Tensor& t) { return round(t); });
}
const Tensor& rsqrt_(const Tensor& x) {
  return direct(x, UnaryOp::rsqrt, [](const Tensor& t) { return rsqrt(t); });
}
const Tensor& sgn_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return sgn(t); });
}
const Tensor& sign_(const Tensor& x) {
  return direct(x, UnaryOp::sign, [](const Tensor& t) { return sign(t); });
}
const Tensor& sin_(const Tensor& x) {
  return direct(x, UnaryOp::sin, [](const Tensor& t) { return sin(t); });
}
const Tensor& sinc_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return sinc(t); });
}
const Tensor& sinh_(const Tensor& x) {
  return direct(x, UnaryOp::sinh, [](const Tensor& t) { return sinh(t); });
}
const Tensor& square_(const Tensor& x) {
  return direct(x, UnaryOp::square, [](const Tensor& t) { return square(t); });
}
const Tensor& tan_(const Tensor& x) {
  return direct(x, UnaryOp::tan, [](const Tensor& t) { return tan(t); });
}
const Tensor& trunc_(const Tensor& x) {
  return direct(x, UnaryOp::trunc, [](const Tensor& t) { return trunc(t); });
}

const Tensor& nan_to_num_(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return nan_to_num(t, nan, posinf, neginf); });
}
const Tensor& logit_(const Tensor& x, std::optional<double> eps) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return logit(t, eps); });
}
const Tensor& atan2_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return atan2(t, other); });
}

const Tensor& copysign_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return copysign(t, other); });
}

const Tensor& floor_divide_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return floor_divide(t, other); });
}
const Tensor& fmod_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return fmod(t, other); });
}

const Tensor& heaviside_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return heaviside(t, other); });
}
const Tensor& hypot_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return hypot(t, other); });
}
const Tensor& nextafter_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return nextafter(t, other); });
}
const Tensor& ldexp_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return ldexp(t, other); });
}

const Tensor& pow_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return pow(t, other); });
}
const Tensor& remainder_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return remainder(t, other); });
}
const Tensor& xlogy_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return xlogy(t, other); });
}

const Tensor& clamp_(const Tensor& x, const Tensor& low, const Tensor& high) {
  return in_place(x, needs_grad(x, low, high), [&](const Tensor& t) { return clamp(t, low, high); });
}
const Tensor& lerp_(const Tensor& x, const Tensor& end, const Tensor& weight) {
  return in_place(x, needs_grad(x, end, weight), [&](const Tensor& t) { return lerp(t, end, weight); });
}

}  // namespace core

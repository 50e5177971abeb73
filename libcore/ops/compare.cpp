#include "libcore/ops/compare.h"

#include <cmath>
#include <string>

#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;
using core::detail::with_other;
using detail::host_binary;
using detail::in_place;

}  // namespace

const Tensor& logical_not_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return logical_not(t); });
}

const Tensor& eq_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return eq(t, other).to(x.dtype()); });
}

const Tensor& ge_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return ge(t, other).to(x.dtype()); });
}
const Tensor& gt_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return gt(t, other).to(x.dtype()); });
}

const Tensor& le_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return le(t, other).to(x.dtype()); });
}
const Tensor& logical_and_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return logical_and(t, other).to(x.dtype()); });
}
const Tensor& logical_or_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return logical_or(t, other).to(x.dtype()); });
}
const Tensor& logical_xor_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return logical_xor(t, other).to(x.dtype()); });
}
const Tensor& lt_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return lt(t, other).to(x.dtype()); });
}
const Tensor& ne_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return ne(t, other).to(x.dtype()); });
}

const Tensor& eq_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return eq(t, other).to(x.dtype()); });
}
const Tensor& ge_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return ge(t, other).to(x.dtype()); });
}
const Tensor& gt_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return gt(t, other).to(x.dtype()); });
}
const Tensor& le_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return le(t, other).to(x.dtype()); });
}
const Tensor& lt_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return lt(t, other).to(x.dtype()); });
}
const Tensor& ne_(const Tensor& x, Scalar other) {
  return in_place(x, needs_grad(x), [&](const Tensor& t) { return ne(t, other).to(x.dtype()); });
}

Tensor signbit(const Tensor& x) {
  if (!is_floating(x.dtype())) return x.dtype() == DType::boolean ? zeros_like(x) : lt(x, 0);
  return detail::host_map<double>(x, DType::boolean, [](double v) { return std::signbit(v) ? 1.0 : 0.0; });
}

Tensor isposinf(const Tensor& x) {
  return eq(x, std::numeric_limits<double>::infinity());
}
Tensor isneginf(const Tensor& x) {
  return eq(x, -std::numeric_limits<double>::infinity());
}

Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  if (a.dtype() != b.dtype()) {
    fail(std::string(scalar_type_name(a.dtype())) + " did not match " + scalar_type_name(b.dtype()));
  }
  return host_binary<double>(a, b, DType::boolean, [&](double x, double y) -> double {
    if (x == y) return 1;
    if (std::isnan(x) && std::isnan(y)) return options.equal_nan ? 1 : 0;
    if (!std::isfinite(x) || !std::isfinite(y)) return 0;
    return std::abs(x - y) <= options.atol + options.rtol * std::abs(y) ? 1 : 0;
  });
}

Tensor eq(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::eq, a, b);
}
Tensor eq(const Tensor& a, Scalar b) {
  return raw::compare(CompareOp::eq, a, b);
}
Tensor ne(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::ne, a, b);
}
Tensor ne(const Tensor& a, Scalar b) {
  return raw::compare(CompareOp::ne, a, b);
}
Tensor lt(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::lt, a, b);
}
Tensor lt(const Tensor& a, Scalar b) {
  return raw::compare(CompareOp::lt, a, b);
}
Tensor le(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::le, a, b);
}
Tensor le(const Tensor& a, Scalar b) {
  return raw::compare(CompareOp::le, a, b);
}
Tensor gt(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::gt, a, b);
}
Tensor gt(const Tensor& a, Scalar b) {
  return raw::compare(CompareOp::gt, a, b);
}
Tensor ge(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::ge, a, b);
}
Tensor ge(const Tensor& a, Scalar b) {
  return raw::compare(CompareOp::ge, a, b);
}
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::logical_and, a, b);
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::logical_or, a, b);
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return raw::compare(CompareOp::logical_xor, a, b);
}
Tensor logical_not(const Tensor& x) {
  return raw::predicate(PredicateOp::logical_not, x);
}
Tensor isnan(const Tensor& x) {
  return raw::predicate(PredicateOp::isnan, x);
}
Tensor isinf(const Tensor& x) {
  return raw::predicate(PredicateOp::isinf, x);
}
Tensor isfinite(const Tensor& x) {
  return raw::predicate(PredicateOp::isfinite, x);
}

bool equal(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  const Tensor* both[] = {&a, &b};
  raw::common_backend(both);
  return a.numel() == 0 || all(eq(a, b)).item().to_bool();
}

bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  Tensor x = raw::cast(a, DType::f64);
  Tensor y = raw::cast(b, DType::f64);
  Tensor distance = raw::unary(UnaryOp::abs, raw::binary(BinaryOp::sub, x, y));
  Tensor room = raw::binary(BinaryOp::mul, raw::unary(UnaryOp::abs, y), options.rtol);
  Tensor close = le(distance, raw::binary(BinaryOp::add, room, options.atol));
  close = logical_or(logical_and(close, isfinite(y)), eq(x, y));
  if (options.equal_nan) close = logical_or(close, logical_and(isnan(x), isnan(y)));
  return close.numel() == 0 || all(close).item().to_bool();
}

}  // namespace core

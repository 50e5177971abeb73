#include "libcore/ops/compare.h"

#include <cmath>
#include <string>
#include <string_view>

#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/complex.h"
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

/// |a - b| <= atol + rtol * |b|, element by element.
Tensor are_close(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  const DType wide = is_complex(a.dtype()) || is_complex(b.dtype()) ? DType::c128 : DType::f64;
  const Tensor x = raw::cast(a, wide), y = raw::cast(b, wide);
  const Tensor distance = raw::unary(UnaryOp::abs, raw::binary(BinaryOp::sub, x, y));
  const Tensor room = raw::binary(BinaryOp::mul, raw::unary(UnaryOp::abs, y), options.rtol);
  Tensor close = le(distance, raw::binary(BinaryOp::add, room, options.atol));
  close = logical_or(logical_and(close, isfinite(y)), eq(x, y));
  return options.equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}

/// A step has no slope.
struct ComparisonBackward final : Node {
  std::string_view label;
  std::string_view name() const override { return label; }
  TensorList apply(TensorList g) override { return {zeros_like(g[0])}; }
};

/// x with what the comparison gives for it; `label` names its node.
template <class Comparison>
const Tensor& compared(const Tensor& x, bool track, std::string_view label, Comparison comparison) {
  return in_place(x, track, [&](const Tensor& t) {
    Tensor out = comparison(t).to(x.dtype());
    if (!needs_grad(t)) return out;
    auto node = make_node<ComparisonBackward>(t);
    node->label = label;
    record(out, node);
    return out;
  });
}
template <class Comparison>
const Tensor& compared(const Tensor& x, const Tensor& other, std::string_view label, Comparison comparison) {
  detail::check_overlap(x, other);
  return compared(x, needs_grad(x, other), label, comparison);
}

}  // namespace

const Tensor& logical_not_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return logical_not(t); });
}

const Tensor& eq_(const Tensor& x, const Tensor& other) {
  return compared(x, other, "EqBackward1", [&](const Tensor& t) { return eq(t, other); });
}

const Tensor& ge_(const Tensor& x, const Tensor& other) {
  return compared(x, other, "GeBackward1", [&](const Tensor& t) { return ge(t, other); });
}
const Tensor& gt_(const Tensor& x, const Tensor& other) {
  return compared(x, other, "GtBackward1", [&](const Tensor& t) { return gt(t, other); });
}

const Tensor& le_(const Tensor& x, const Tensor& other) {
  return compared(x, other, "LeBackward1", [&](const Tensor& t) { return le(t, other); });
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
  return compared(x, other, "LtBackward1", [&](const Tensor& t) { return lt(t, other); });
}
const Tensor& ne_(const Tensor& x, const Tensor& other) {
  return compared(x, other, "NeBackward1", [&](const Tensor& t) { return ne(t, other); });
}

const Tensor& eq_(const Tensor& x, Scalar other) {
  return compared(x, needs_grad(x), "EqBackward0", [&](const Tensor& t) { return eq(t, other); });
}
const Tensor& ge_(const Tensor& x, Scalar other) {
  return compared(x, needs_grad(x), "GeBackward0", [&](const Tensor& t) { return ge(t, other); });
}
const Tensor& gt_(const Tensor& x, Scalar other) {
  return compared(x, needs_grad(x), "GtBackward0", [&](const Tensor& t) { return gt(t, other); });
}
const Tensor& le_(const Tensor& x, Scalar other) {
  return compared(x, needs_grad(x), "LeBackward0", [&](const Tensor& t) { return le(t, other); });
}
const Tensor& lt_(const Tensor& x, Scalar other) {
  return compared(x, needs_grad(x), "LtBackward0", [&](const Tensor& t) { return lt(t, other); });
}
const Tensor& ne_(const Tensor& x, Scalar other) {
  return compared(x, needs_grad(x), "NeBackward0", [&](const Tensor& t) { return ne(t, other); });
}

Tensor signbit(const Tensor& x) {
  if (is_complex(x.dtype())) fail("signbit is not implemented for complex tensors.", ErrorCode::not_implemented);
  if (!is_floating(x.dtype())) return x.dtype() == DType::boolean ? zeros_like(x) : lt(x, 0);
  return detail::host_map<double>(x, DType::boolean, [](double v) { return std::signbit(v) ? 1.0 : 0.0; });
}

Tensor isreal(const Tensor& x) {
  return is_complex(x.dtype()) ? eq(imag(x.detach()), 0) : full_like(x, true, {.dtype = DType::boolean});
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
  if (is_complex(a.dtype())) return are_close(a, b, options);
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
  const Tensor close = are_close(a, b, options);
  return close.numel() == 0 || all(close).item().to_bool();
}

}  // namespace core

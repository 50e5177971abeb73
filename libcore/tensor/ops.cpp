// Operations of ops.h that have no gradient.
#include <cmath>

#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/raw_ops.h"

namespace core {

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

Tensor all(const Tensor& x, const ReduceOptions& options) {
  return raw::reduce(ReduceOp::all, x, options);
}
Tensor any(const Tensor& x, const ReduceOptions& options) {
  return raw::reduce(ReduceOp::any, x, options);
}

namespace {

Tensor arg_extreme(ReduceOp op, const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  if (!dim && x.numel() == 0) {
    throw Error(ErrorCode::index,
                std::string(name(op)) + "(): Expected reduction dim to be specified for input.numel() == 0.");
  }
  if (x.dtype() == DType::boolean) {
    throw Error(ErrorCode::runtime, std::string(name(op)) + "(): does not support bool input");
  }
  ReduceOptions options{.keepdim = keepdim};
  if (dim) options.dims = {*dim};
  return raw::reduce(op, x, options);
}

}  // namespace

Tensor argmax(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return arg_extreme(ReduceOp::argmax, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> dim, bool keepdim) {
  return arg_extreme(ReduceOp::argmin, x, dim, keepdim);
}
Tensor argsort(const Tensor& x, std::int64_t dim, bool descending) {
  return raw::sort(x, dim, descending).indices;
}
Tensor nonzero(const Tensor& x) {
  return raw::nonzero(x);
}

}  // namespace core

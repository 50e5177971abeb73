#pragma once
// Comparisons and logic, as torch.X: results are bool tensors, or a bool where the question is about whole tensors.
// Thread safety: pure functions; those in place (name_) write their first argument.
// Use: bool same = core::allclose(a, b); core::Tensor mask = core::logical_and(a > 0, core::isfinite(a));

#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {

Tensor eq(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, Scalar b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, Scalar b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, Scalar b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, Scalar b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, Scalar b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor isreal(const Tensor& x);
Tensor isposinf(const Tensor& x);
Tensor isneginf(const Tensor& x);
Tensor signbit(const Tensor& x);

/// Same dtype, shape and values.
bool equal(const Tensor& a, const Tensor& b);

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};

bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});

/// |a - b| <= atol + rtol * |b|, element by element.
Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
const Tensor& eq_(const Tensor& x, const Tensor& other);
const Tensor& eq_(const Tensor& x, Scalar other);
const Tensor& ne_(const Tensor& x, const Tensor& other);
const Tensor& ne_(const Tensor& x, Scalar other);
const Tensor& lt_(const Tensor& x, const Tensor& other);
const Tensor& lt_(const Tensor& x, Scalar other);
const Tensor& le_(const Tensor& x, const Tensor& other);
const Tensor& le_(const Tensor& x, Scalar other);
const Tensor& gt_(const Tensor& x, const Tensor& other);
const Tensor& gt_(const Tensor& x, Scalar other);
const Tensor& ge_(const Tensor& x, const Tensor& other);
const Tensor& ge_(const Tensor& x, Scalar other);
const Tensor& logical_and_(const Tensor& x, const Tensor& other);
const Tensor& logical_or_(const Tensor& x, const Tensor& other);
const Tensor& logical_xor_(const Tensor& x, const Tensor& other);
const Tensor& logical_not_(const Tensor& x);

}  // namespace core

#pragma once
// The operators of tensors. Comparisons and & | ^ ~ give tensors, as in Python.
// Thread safety: as the functions that they stand for. Use: core::Tensor y = (a + b) * 2; core::Tensor mask = y > 0;

#include "libcore/ops/bitwise.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/tensor/tensor.h"

namespace core {

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return add(a, b);
}
inline Tensor operator+(const Tensor& a, Scalar b) {
  return add(a, b);
}
inline Tensor operator+(Scalar a, const Tensor& b) {
  return add(b, a);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return sub(a, b);
}
inline Tensor operator-(const Tensor& a, Scalar b) {
  return sub(a, b);
}
inline Tensor operator-(Scalar a, const Tensor& b) {
  return rsub(b, a);
}
inline Tensor operator-(const Tensor& a) {
  return neg(a);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return mul(a, b);
}
inline Tensor operator*(const Tensor& a, Scalar b) {
  return mul(a, b);
}
inline Tensor operator*(Scalar a, const Tensor& b) {
  return mul(b, a);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return div(a, b);
}
inline Tensor operator/(const Tensor& a, Scalar b) {
  return div(a, b);
}
inline Tensor operator/(Scalar a, const Tensor& b) {
  return mul(reciprocal(b), a);
}
inline const Tensor& operator+=(const Tensor& a, const Tensor& b) {
  return a.add_(b);
}
inline const Tensor& operator+=(const Tensor& a, Scalar b) {
  return a.add_(b);
}
inline const Tensor& operator-=(const Tensor& a, const Tensor& b) {
  return a.sub_(b);
}
inline const Tensor& operator-=(const Tensor& a, Scalar b) {
  return a.sub_(b);
}
inline const Tensor& operator*=(const Tensor& a, const Tensor& b) {
  return a.mul_(b);
}
inline const Tensor& operator*=(const Tensor& a, Scalar b) {
  return a.mul_(b);
}
inline const Tensor& operator/=(const Tensor& a, const Tensor& b) {
  return a.div_(b);
}
inline const Tensor& operator/=(const Tensor& a, Scalar b) {
  return a.div_(b);
}
inline Tensor operator<(const Tensor& a, const Tensor& b) {
  return lt(a, b);
}
inline Tensor operator<(const Tensor& a, Scalar b) {
  return lt(a, b);
}
inline Tensor operator<=(const Tensor& a, const Tensor& b) {
  return le(a, b);
}
inline Tensor operator<=(const Tensor& a, Scalar b) {
  return le(a, b);
}
inline Tensor operator>(const Tensor& a, const Tensor& b) {
  return gt(a, b);
}
inline Tensor operator>(const Tensor& a, Scalar b) {
  return gt(a, b);
}
inline Tensor operator>=(const Tensor& a, const Tensor& b) {
  return ge(a, b);
}
inline Tensor operator>=(const Tensor& a, Scalar b) {
  return ge(a, b);
}
inline Tensor operator==(const Tensor& a, const Tensor& b) {
  return eq(a, b);
}
inline Tensor operator==(const Tensor& a, Scalar b) {
  return eq(a, b);
}
inline Tensor operator!=(const Tensor& a, const Tensor& b) {
  return ne(a, b);
}
inline Tensor operator!=(const Tensor& a, Scalar b) {
  return ne(a, b);
}
inline Tensor operator~(const Tensor& a) {
  return bitwise_not(a);
}
inline Tensor operator&(const Tensor& a, const Tensor& b) {
  return bitwise_and(a, b);
}
inline Tensor operator|(const Tensor& a, const Tensor& b) {
  return bitwise_or(a, b);
}
inline Tensor operator^(const Tensor& a, const Tensor& b) {
  return bitwise_xor(a, b);
}

}  // namespace core

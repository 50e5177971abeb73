#pragma once
// Operators and the methods of Tensor that are free functions of ops.h under another spelling. Included by ops.h.

#include "libcore/tensor/ops.h"

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

inline Tensor Tensor::add(const Tensor& other, Scalar alpha) const {
  return core::add(*this, other, alpha);
}
inline Tensor Tensor::add(Scalar other, Scalar alpha) const {
  return core::add(*this, other, alpha);
}
inline Tensor Tensor::sub(const Tensor& other, Scalar alpha) const {
  return core::sub(*this, other, alpha);
}
inline Tensor Tensor::sub(Scalar other, Scalar alpha) const {
  return core::sub(*this, other, alpha);
}
inline Tensor Tensor::mul(const Tensor& other) const {
  return core::mul(*this, other);
}
inline Tensor Tensor::mul(Scalar other) const {
  return core::mul(*this, other);
}
inline Tensor Tensor::div(const Tensor& other) const {
  return core::div(*this, other);
}
inline Tensor Tensor::div(Scalar other) const {
  return core::div(*this, other);
}
inline Tensor Tensor::pow(const Tensor& exponent) const {
  return core::pow(*this, exponent);
}
inline Tensor Tensor::pow(Scalar exponent) const {
  return core::pow(*this, exponent);
}
inline Tensor Tensor::abs() const {
  return core::abs(*this);
}
inline Tensor Tensor::exp() const {
  return core::exp(*this);
}
inline Tensor Tensor::log() const {
  return core::log(*this);
}
inline Tensor Tensor::neg() const {
  return core::neg(*this);
}
inline Tensor Tensor::relu() const {
  return core::relu(*this);
}
inline Tensor Tensor::sigmoid() const {
  return core::sigmoid(*this);
}
inline Tensor Tensor::sin() const {
  return core::sin(*this);
}
inline Tensor Tensor::cos() const {
  return core::cos(*this);
}
inline Tensor Tensor::sqrt() const {
  return core::sqrt(*this);
}
inline Tensor Tensor::tanh() const {
  return core::tanh(*this);
}
inline Tensor Tensor::square() const {
  return core::square(*this);
}
inline Tensor Tensor::clamp(std::optional<Scalar> low, std::optional<Scalar> high) const {
  return core::clamp(*this, low, high);
}
inline Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  return core::masked_fill(*this, mask, value);
}
inline Tensor Tensor::eq(const Tensor& other) const {
  return core::eq(*this, other);
}
inline Tensor Tensor::eq(Scalar other) const {
  return core::eq(*this, other);
}
inline Tensor Tensor::ne(const Tensor& other) const {
  return core::ne(*this, other);
}
inline Tensor Tensor::lt(const Tensor& other) const {
  return core::lt(*this, other);
}
inline Tensor Tensor::gt(const Tensor& other) const {
  return core::gt(*this, other);
}
inline Tensor Tensor::matmul(const Tensor& other) const {
  return core::matmul(*this, other);
}
inline Tensor Tensor::mm(const Tensor& other) const {
  return core::mm(*this, other);
}

inline Tensor Tensor::sum(std::optional<DType> dtype) const {
  return core::sum(*this, {.dtype = dtype});
}
inline Tensor Tensor::sum(const Shape& dims, bool keepdim) const {
  return core::sum(*this, {.dims = dims, .keepdim = keepdim});
}
inline Tensor Tensor::mean() const {
  return core::mean(*this);
}
inline Tensor Tensor::mean(const Shape& dims, bool keepdim) const {
  return core::mean(*this, {.dims = dims, .keepdim = keepdim});
}
inline Tensor Tensor::var(const Shape& dims, std::int64_t correction, bool keepdim) const {
  return core::var(*this, {.dims = dims, .correction = static_cast<double>(correction), .keepdim = keepdim});
}
inline Tensor Tensor::std(const Shape& dims, std::int64_t correction, bool keepdim) const {
  return core::std(*this, {.dims = dims, .correction = static_cast<double>(correction), .keepdim = keepdim});
}
inline Tensor Tensor::norm(double p) const {
  return core::norm(*this, {.p = p});
}
inline Tensor Tensor::prod() const {
  return core::prod(*this);
}
inline Tensor Tensor::max() const {
  return core::max(*this);
}
inline ValuesIndices Tensor::max(std::int64_t dim, bool keepdim) const {
  return core::max(*this, dim, keepdim);
}
inline Tensor Tensor::min() const {
  return core::min(*this);
}
inline ValuesIndices Tensor::min(std::int64_t dim, bool keepdim) const {
  return core::min(*this, dim, keepdim);
}
inline Tensor Tensor::argmax(std::optional<std::int64_t> dim, bool keepdim) const {
  return core::argmax(*this, dim, keepdim);
}
inline Tensor Tensor::argmin(std::optional<std::int64_t> dim, bool keepdim) const {
  return core::argmin(*this, dim, keepdim);
}
inline Tensor Tensor::all() const {
  return core::all(*this);
}
inline Tensor Tensor::any() const {
  return core::any(*this);
}
inline Tensor Tensor::cumsum(std::int64_t dim) const {
  return core::cumsum(*this, dim);
}
inline Tensor Tensor::index_select(std::int64_t dim, const Tensor& index) const {
  return core::index_select(*this, dim, index);
}
inline Tensor Tensor::gather(std::int64_t dim, const Tensor& index) const {
  return core::gather(*this, dim, index);
}
inline Tensor Tensor::repeat(const Shape& times) const {
  return core::repeat(*this, times);
}
inline Tensor Tensor::flip(const Shape& dims) const {
  return core::flip(*this, dims);
}
inline bool Tensor::equal(const Tensor& other) const {
  return core::equal(*this, other);
}

}  // namespace core

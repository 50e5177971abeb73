#pragma once
// The second names that PyTorch has for operations, and new_zeros and its like: so that a program that is brought over
// line by line compiles. Thread safety: pure functions. Use: core::Tensor y = core::multiply(a, b);

#include <cstdint>
#include <vector>

#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {

// clang-format off
#define CORE_SECOND_NAME(second, first) inline Tensor second(const Tensor& x) { return first(x); }
#define CORE_SECOND_NAME_OF_TWO(second, first)                                            \
  inline Tensor second(const Tensor& a, const Tensor& b) { return first(a, b); }          \
  inline Tensor second(const Tensor& a, Scalar b) { return first(a, b); }
// clang-format on

CORE_SECOND_NAME(absolute, abs)
CORE_SECOND_NAME(negative, neg)
CORE_SECOND_NAME(fix, trunc)
CORE_SECOND_NAME(arccos, acos)
CORE_SECOND_NAME(arccosh, acosh)
CORE_SECOND_NAME(arcsin, asin)
CORE_SECOND_NAME(arcsinh, asinh)
CORE_SECOND_NAME(arctan, atan)
CORE_SECOND_NAME(arctanh, atanh)
CORE_SECOND_NAME(expit, sigmoid)
CORE_SECOND_NAME(gammaln, lgamma)
CORE_SECOND_NAME(psi, digamma)
CORE_SECOND_NAME(logsigmoid, log_sigmoid)
CORE_SECOND_NAME_OF_TWO(multiply, mul)
CORE_SECOND_NAME_OF_TWO(divide, div)
CORE_SECOND_NAME_OF_TWO(true_divide, div)
CORE_SECOND_NAME_OF_TWO(subtract, sub)
CORE_SECOND_NAME_OF_TWO(greater, gt)
CORE_SECOND_NAME_OF_TWO(greater_equal, ge)
CORE_SECOND_NAME_OF_TWO(less, lt)
CORE_SECOND_NAME_OF_TWO(less_equal, le)
CORE_SECOND_NAME_OF_TWO(not_equal, ne)
#undef CORE_SECOND_NAME
#undef CORE_SECOND_NAME_OF_TWO

// Methods of Tensor that PyTorch has as functions too.
inline Tensor flatten(const Tensor& x, std::int64_t start = 0, std::int64_t end = -1) {
  return x.flatten(start, end);
}
inline Tensor unflatten(const Tensor& x, std::int64_t dim, const Shape& sizes) {
  return x.unflatten(dim, sizes);
}
inline Tensor reshape(const Tensor& x, const Shape& sizes) {
  return x.reshape(sizes);
}
inline Tensor permute(const Tensor& x, const Shape& dims) {
  return x.permute(dims);
}
inline Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b) {
  return x.transpose(a, b);
}
inline Tensor unsqueeze(const Tensor& x, std::int64_t dim) {
  return x.unsqueeze(dim);
}
inline Tensor squeeze(const Tensor& x) {
  return x.squeeze();
}
inline Tensor narrow(const Tensor& x, std::int64_t dim, std::int64_t start, std::int64_t length) {
  return x.narrow(dim, start, length);
}
inline Tensor select(const Tensor& x, std::int64_t dim, std::int64_t index) {
  return x.select(dim, index);
}
inline Tensor diagonal(const Tensor& x, std::int64_t offset = 0, std::int64_t dim1 = 0, std::int64_t dim2 = 1) {
  return x.diagonal(offset, dim1, dim2);
}
inline Tensor clone(const Tensor& x) {
  return x.clone();
}
inline std::int64_t numel(const Tensor& x) {
  return x.numel();
}
inline std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, std::int64_t dim = 0) {
  return x.chunk(chunks, dim);
}
inline std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t dim = 0) {
  return x.split(size, dim);
}
inline std::vector<Tensor> split(const Tensor& x, const Shape& sizes, std::int64_t dim = 0) {
  return x.split(sizes, dim);
}
inline std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim = 0) {
  return x.unbind(dim);
}
inline Tensor arctan2(const Tensor& a, const Tensor& b) {
  return atan2(a, b);
}
inline Tensor clamp_min(const Tensor& x, Scalar low) {
  return clamp(x, low);
}
inline Tensor clamp_max(const Tensor& x, Scalar high) {
  return clamp(x, {}, high);
}
inline Tensor ger(const Tensor& a, const Tensor& b) {
  return outer(a, b);
}
inline Tensor moveaxis(const Tensor& x, const Shape& from, const Shape& to) {
  return movedim(x, from, to);
}
inline Tensor swapdims(const Tensor& x, std::int64_t a, std::int64_t b) {
  return swapaxes(x, a, b);
}
inline Tensor concatenate(const std::vector<Tensor>& parts, std::int64_t dim = 0) {
  return cat(parts, dim);
}
inline Tensor row_stack(const std::vector<Tensor>& parts) {
  return vstack(parts);
}
inline Tensor reshape_as(const Tensor& x, const Tensor& other) {
  return x.reshape(other.sizes());
}
/// As repeat(); fewer `times` than dimensions stand for the last ones.
inline Tensor tile(const Tensor& x, const Shape& times) {
  Shape all;
  for (std::int64_t i = static_cast<std::int64_t>(times.size()); i < x.dim(); ++i) all.push_back(1);
  for (const std::int64_t count : times) all.push_back(count);
  return repeat(x, all);
}
/// Sorted along the first dimension.
inline Tensor msort(const Tensor& x) {
  return sort(x, 0).values;
}

/// In x's dtype, on its device.
inline Tensor new_empty(const Tensor& x, const Shape& sizes) {
  return empty(sizes, {.dtype = x.dtype(), .device = x.device()});
}
inline Tensor new_zeros(const Tensor& x, const Shape& sizes) {
  return zeros(sizes, {.dtype = x.dtype(), .device = x.device()});
}
inline Tensor new_ones(const Tensor& x, const Shape& sizes) {
  return ones(sizes, {.dtype = x.dtype(), .device = x.device()});
}
inline Tensor new_full(const Tensor& x, const Shape& sizes, Scalar value) {
  return full(sizes, value, {.dtype = x.dtype(), .device = x.device()});
}

}  // namespace core

#pragma once
// Element-wise functions computed on the host in float64 (or int64): for operations too rare for a kernel of their own.
// Internal to autograd. Any device; results without history.
// Use: Tensor y = detail::host_unary(x, [](double v) { return std::asinh(v); });

#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/raw_ops.h"

namespace core::detail {

/// Integers give the default float type.
inline DType float_result(const Tensor& x) {
  return is_floating(x.dtype()) ? x.dtype() : default_dtype();
}

template <class Value, class F>
Tensor host_map(const Tensor& x, DType dtype, F function) {
  std::vector<Value> values = raw::alias(x).to_vector<Value>();
  for (Value& value : values) value = function(value);
  return from_values(std::span<const Value>(values), x.sizes(), {.dtype = dtype, .device = x.device()});
}
template <class F>
Tensor host_unary(const Tensor& x, F function) {
  return host_map<double>(x, float_result(x), function);
}
/// a and b broadcast; the result has `dtype`.
template <class Value, class F>
Tensor host_binary(const Tensor& a, const Tensor& b, DType dtype, F function) {
  const Shape sizes = broadcast_shapes(a.sizes(), b.sizes());
  std::vector<Value> values = raw::alias(a).expand(sizes).to_vector<Value>();
  const std::vector<Value> others = raw::alias(b).expand(sizes).to_vector<Value>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = function(values[i], others[i]);
  return from_values(std::span<const Value>(values), sizes, {.dtype = dtype, .device = a.device()});
}

}  // namespace core::detail

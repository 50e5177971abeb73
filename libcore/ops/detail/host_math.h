#pragma once
// Element-wise functions computed on the host in float64 (or int64): for operations too rare for a kernel of their own.
// Internal to ops. Any device: from others than the CPU values are copied to the host and results back, which
// waits for the device. Results without history. Use: Tensor y = detail::host_unary(x, [](double v) { return
// std::asinh(v); });

#include <string>

#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core::detail {

/// Integers give the default float type.
inline DType float_result(const Tensor& x) {
  return is_floating(x.dtype()) ? x.dtype() : default_dtype();
}

/// Error(not_implemented) for numbers that int64 or float64 cannot hold.
inline void check_host_dtype(const Tensor& x, const char* kernel) {
  if (x.dtype() <= DType::f64 && x.dtype() != DType::u64) return;
  throw Error(ErrorCode::not_implemented,
              std::string("\"") + kernel + "\" not implemented for '" + scalar_type_name(x.dtype()) + "'");
}

template <class Value, class F>
Tensor host_map(const Tensor& x, DType dtype, F function) {
  check_host_dtype(x, "host_map");
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
  check_host_dtype(a, "host_binary");
  check_host_dtype(b, "host_binary");
  const Shape sizes = broadcast_shapes(a.sizes(), b.sizes());
  std::vector<Value> values = raw::alias(a).expand(sizes).to_vector<Value>();
  const std::vector<Value> others = raw::alias(b).expand(sizes).to_vector<Value>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = function(values[i], others[i]);
  return from_values(std::span<const Value>(values), sizes, {.dtype = dtype, .device = a.device()});
}

inline DType float_result(const Tensor& a, const Tensor& b) {
  const DType common = result_type(a, b);
  return is_floating(common) ? common : default_dtype();
}

template <class F>
Tensor integers(const Tensor& a, const Tensor& b, const char* kernel, F function) {
  const DType common = result_type(a, b);
  if (is_floating(common) || common == DType::boolean) {
    throw Error(ErrorCode::not_implemented,
                std::string("\"") + kernel + "\" not implemented for '" + scalar_type_name(common) + "'");
  }
  return host_binary<std::int64_t>(a, b, common, function);
}

using Whole = std::int64_t;

}  // namespace core::detail

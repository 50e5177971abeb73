#pragma once
// The names of the operations that have kernels: what op_tables.h has a slot for. Their texts are rows of op_kinds.cpp.
// Thread safety: constant. Use: core::raw::unary(core::UnaryOp::exp, x);

#include <cstdint>
#include <string_view>

namespace core {

/// One input, result of the same dtype.
enum class UnaryOp : std::uint8_t {
  neg,
  abs,
  sign,
  floor,
  ceil,
  round,
  trunc,
  frac,
  square,
  reciprocal,
  sqrt,
  rsqrt,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  sigmoid,
  relu,
  erf,
  erfinv,
  lgamma,
  digamma,
  trigamma,
  gelu,
  gelu_tanh,
  silu,
  log_sigmoid,
  bitwise_not,
  leaky_relu,  ///< args: slope
  elu,         ///< args: alpha, scale, input scale
  softplus,    ///< args: beta, threshold
  clamp,       ///< args: low, high (may be infinite)
  threshold,   ///< args: threshold, value
  nan_to_num,  ///< args: nan, positive infinity, negative infinity
  count_
};
/// One input, bool result.
enum class PredicateOp : std::uint8_t { logical_not, isnan, isinf, isfinite, count_ };
/// Two inputs, result of the same dtype. The *_backward ones take (upstream gradient, saved tensor).
enum class BinaryOp : std::uint8_t {
  add,
  sub,
  mul,
  div,
  div_floor,
  div_trunc,
  pow,
  maximum,
  minimum,
  atan2,
  remainder,
  fmod,
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  relu_backward,        ///< by the result
  sigmoid_backward,     ///< by the result
  tanh_backward,        ///< by the result
  leaky_relu_backward,  ///< by the input; args: slope
  clamp_backward,       ///< by the input; args: low, high
  count_
};
/// Two inputs, bool result.
enum class CompareOp : std::uint8_t { eq, ne, lt, le, gt, ge, logical_and, logical_or, logical_xor, count_ };
/// Three inputs. addcmul = a + value * b * c, addcdiv = a + value * b / c (args: value), lerp = a + c * (b - a).
enum class TernaryOp : std::uint8_t { where, addcmul, addcdiv, lerp, count_ };
/// Reductions. max, min, argmax, argmin also write indices where asked; count_nonzero writes i64.
enum class ReduceOp : std::uint8_t { sum, mean, prod, max, min, argmax, argmin, var, norm, all, any, count_ };
enum class ScanOp : std::uint8_t { cumsum, cumprod, count_ };
enum class IndexOp : std::uint8_t {
  take,        ///< out[...] = in[..., index, ...]; `step` and `limit` belong to in
  put,         ///< out[..., index, ...] = in[...]; `step` and `limit` belong to out
  accumulate,  ///< out[..., index, ...] += in[...]
  count_
};

/// What messages call an operation.
std::string_view name(UnaryOp op);
std::string_view name(PredicateOp op);
std::string_view name(BinaryOp op);
std::string_view name(CompareOp op);
std::string_view name(TernaryOp op);
std::string_view name(ReduceOp op);
std::string_view name(ScanOp op);
std::string_view name(IndexOp op);

}  // namespace core

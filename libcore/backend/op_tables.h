#pragma once
// The tables of plain function pointers that a backend fills, one per operation family. A null slot is a clear "not
// supported on DEVICE for DTYPE". Convolution, pooling and their like have theirs in nn_table.h.
// Adding an operation: its row here and in op_tables.cpp, the kernel in each backend, and in ops/ the function of its
// family. Thread safety: constant after start-up. Use: backend.ops().elementwise->unary[op][dtype](params).

#include <array>
#include <cstdint>
#include <string_view>

#include "libcore/backend/op_params.h"
#include "libcore/base/dtype.h"

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

/// [operation][dtype] -> kernel.
template <class Op, class Params>
struct KernelGrid {
  using Kernel = void (*)(const Params&);
  std::array<std::array<Kernel, kDTypeCount>, static_cast<std::size_t>(Op::count_)> slots{};

  Kernel at(Op op, DType dtype) const { return slots[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)]; }
  void set(Op op, DType dtype, Kernel kernel) {
    slots[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)] = kernel;
  }
};

struct ElementwiseTable {
  KernelGrid<UnaryOp, UnaryParams> unary;
  KernelGrid<PredicateOp, UnaryParams> predicate;
  KernelGrid<BinaryOp, BinaryParams> binary;
  KernelGrid<CompareOp, BinaryParams> compare;
  KernelGrid<TernaryOp, TernaryParams> ternary;
};

struct ReductionTable {
  KernelGrid<ReduceOp, ReduceParams> reduce;
  KernelGrid<ScanOp, ScanParams> scan;
  std::array<void (*)(const SortParams&), kDTypeCount> sort{};
};

struct MatmulTable {
  std::array<void (*)(const GemmParams&), kDTypeCount> gemm{};
};

struct CopyTable {
  /// [from][to]
  std::array<std::array<void (*)(const CopyParams&), kDTypeCount>, kDTypeCount> convert{};
  /// Same dtype on both sides, by element size in bytes: 1, 2, 4, 8, 16.
  std::array<void (*)(const CopyParams&), 17> move{};
  /// out = value (one element at `in`, in host memory), by element size in bytes.
  std::array<void (*)(const CopyParams&), 17> fill{};
  /// out[i] = start + i * step (args 0, 1), computed in double or i64.
  std::array<void (*)(const UnaryParams&), kDTypeCount> range{};
};

struct IndexingTable {
  std::array<std::array<void (*)(IndexParams&), kDTypeCount>, static_cast<std::size_t>(IndexOp::count_)> index{};
};

struct NnTable;         // nn_table.h
struct RecurrentTable;  // recurrent_table.h
struct RandomTable;     // random_table.h
struct OptimizerTable;  // optimizer_table.h

struct OpTables {
  const ElementwiseTable* elementwise = nullptr;
  const ReductionTable* reduction = nullptr;
  const MatmulTable* matmul = nullptr;
  const CopyTable* copy = nullptr;
  const IndexingTable* indexing = nullptr;
  const NnTable* nn = nullptr;
  const RecurrentTable* recurrent = nullptr;
  const RandomTable* random = nullptr;        // null where the host fills memory itself
  const OptimizerTable* optimizer = nullptr;  // null where the host updates memory itself
};

}  // namespace core

#pragma once
// The tables of plain function pointers that a backend fills, one per operation family. A null slot is a clear "not
// supported on DEVICE for DTYPE". Convolution, pooling and their like have theirs in nn_table.h.
// Adding an operation: its row in op_kinds.{h,cpp}, the kernel in each backend, and in ops/ the function of its family.
// Thread safety: constant after start-up. Use: backend.ops().elementwise->unary[op][dtype](params).

#include <array>
#include <cstdint>

#include "libcore/backend/op_kinds.h"
#include "libcore/backend/op_params.h"
#include "libcore/base/dtype.h"

namespace core {

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
  /// Whether `gemm` gives the same bits faster where a transposed b was turned before; null: it never does.
  std::array<bool (*)(const GemmParams&), kDTypeCount> gains_by_turned{};
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
  const RandomTable* random = nullptr;
  const OptimizerTable* optimizer = nullptr;  // null where the host updates memory itself
};

}  // namespace core

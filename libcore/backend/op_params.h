#pragma once
// What a kernel sees of an operation: raw pointers, sizes, strides, numbers. No tensors, so each kernel compiles and
// reads alone. The caller has checked shapes, dtypes and devices and allocated the output.
// Thread safety: plain values. Use: kernel(core::UnaryParams{...}).

#include <cstdint>

namespace core {

/// Dimensions after neighbouring ones were merged; a tensor of more cannot be computed with.
inline constexpr int kMaxDims = 16;

/// A loop over all elements of N operands at once; dimension 0 is the innermost. Strides are in elements, 0 where an
/// operand is broadcast. ndim >= 1; sizes may be 0.
template <int N>
struct Loop {
  int ndim;
  std::int64_t numel;
  std::int64_t sizes[kMaxDims];
  std::int64_t strides[N][kMaxDims];
};

/// out = op(in). Numbers of the operation (slope, limits ...) in `args`, as its definition says.
struct UnaryParams {
  void* out;
  const void* in;
  double args[3];
  Loop<2> loop;  // out, in
};

/// out = op(a, b).
struct BinaryParams {
  void* out;
  const void* a;
  const void* b;
  double args[3];  // alpha of add and sub; a number for an operand lies in the last, and a or b points to it
  Loop<3> loop;    // out, a, b
  /// The operand is one number in host memory, whatever its strides say; a kernel reads it before it returns.
  bool a_on_host = false;
  bool b_on_host = false;
};

/// out = op(a, b, c); where: a is the bool mask.
struct TernaryParams {
  void* out;
  const void* a;
  const void* b;
  const void* c;
  double args[3];
  Loop<4> loop;
};

/// One reduction: for each of the `outer` outputs (a strided loop), the elements of the inner loop are combined.
/// Loop operands: outer = out, in (and indices for max/min/argmax); inner = in alone.
struct ReduceParams {
  void* out;
  std::int64_t* indices;  // max, min, argmax, argmin: position along the reduced dimension; else null
  const void* in;
  double args[2];  // norm: p; var: correction
  Loop<2> outer;   // out, in; `indices` has the layout of out
  Loop<1> inner;
};

/// Running sums and their like along one dimension: `lines` lines of `length` elements.
struct ScanParams {
  void* out;
  const void* in;
  Loop<2> lines;  // first elements of out and in
  std::int64_t length;
  std::int64_t out_step;
  std::int64_t in_step;
};

/// Sorting along one dimension; stable.
struct SortParams {
  void* values;
  std::int64_t* indices;  // same layout as values
  const void* in;
  Loop<2> lines;
  std::int64_t length;
  std::int64_t out_step;
  std::int64_t in_step;
  bool descending;
};

/// Row-major C (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C, or + `bias` in every row where that is not
/// null (beta is 0 then); `batch` of them, batch strides in elements.
struct GemmParams {
  bool transpose_a;
  bool transpose_b;
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;
  const void* a;
  const void* b;
  void* c;
  double alpha;
  double beta;
  std::int64_t batch;
  std::int64_t batch_stride_a, batch_stride_b, batch_stride_c;
  const void* bias = nullptr;  // n elements side by side
};

/// out[i] = in[i] between layouts, and between dtypes (the slot's two dtypes).
struct CopyParams {
  void* out;
  const void* in;
  Loop<2> loop;
};

/// index_select, gather, scatter, index_add along one dimension; see indexing_table.h for each.
/// The loop runs over the elements of `index` broadcast to the operation's shape; strides of out and in along the
/// indexed dimension are 0 in it and given apart.
struct IndexParams {
  void* out;
  const void* in;
  const std::int64_t* index;
  Loop<3> loop;            // out, in, index
  std::int64_t step;       // stride of the indexed operand along its dimension
  std::int64_t limit;      // its size there; indices are checked against it
  std::int64_t bad_index;  // set by the kernel to the first index out of range
  bool failed;             // set with it
};

}  // namespace core

#pragma once
// From tensors to the loops that kernels run: broadcasting, merging of dimensions, order of memory.
// Thread safety: pure functions. Use: build_loop(params.loop, sizes, {&out, &a, &b});

#include <array>
#include <cstdint>
#include <span>

#include "libcore/backend/op_params.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Sizes and strides of one operand; no sizes at all stand for a number.
struct Layout {
  const Shape* sizes;
  const Shape* strides;
};
inline Layout layout_of(const Tensor& t) {
  return {&t.sizes(), &t.strides()};
}

/// Stride of `operand` along dimension `dim` of a result of rank `rank`; 0 where it is broadcast.
inline std::int64_t broadcast_stride(const Layout& operand, std::size_t dim, std::size_t rank) {
  std::size_t skip = rank - operand.sizes->size();
  if (dim < skip || (*operand.sizes)[dim - skip] == 1) return 0;
  return (*operand.strides)[dim - skip];
}

/// Dimensions from the innermost in memory to the outermost, decided by the operands in turn (as PyTorch's iterator
/// does, so that results get the same strides).
Shape memory_order(const Shape& sizes, std::span<const Layout> operands);
/// Strides of a dense result whose dimensions lie in memory as the operands' do.
Shape strides_like(const Shape& sizes, std::span<const Layout> operands);
/// True when no element is stored twice and there are no gaps.
bool is_dense(const Shape& sizes, const Shape& strides);

/// Throws when more than kMaxDims dimensions are left after merging.
[[noreturn]] void throw_too_many_dims();

/// Fills `loop` for N operands broadcast to `sizes`; neighbouring dimensions that all operands walk evenly are merged.
template <int N>
void build_loop(Loop<N>& loop, const Shape& sizes, const std::array<Layout, N>& operands) {
  const std::size_t rank = sizes.size();
  loop.ndim = 1;
  loop.numel = 1;
  loop.sizes[0] = 1;
  for (int k = 0; k < N; ++k) loop.strides[k][0] = 0;
  Shape order = memory_order(sizes, operands);
  for (std::size_t i = 0; i < rank; ++i) {
    auto dim = static_cast<std::size_t>(order[i]);
    std::int64_t size = sizes[dim];
    loop.numel *= size;
    if (size == 1) continue;
    std::int64_t strides[N];
    bool merge = true;
    int last = loop.ndim - 1;
    for (int k = 0; k < N; ++k) {
      strides[k] = broadcast_stride(operands[k], dim, rank);
      merge = merge && strides[k] == loop.strides[k][last] * loop.sizes[last];
    }
    bool first = loop.ndim == 1 && loop.sizes[0] == 1;
    if (merge && !first) {
      loop.sizes[last] *= size;
      continue;
    }
    if (!first && ++last == kMaxDims) throw_too_many_dims();
    loop.ndim = last + 1;
    loop.sizes[last] = size;
    for (int k = 0; k < N; ++k) loop.strides[k][last] = strides[k];
  }
}

/// One run over `numel` elements; operand k advances by `steps[k]`.
template <int N>
void flat_loop(Loop<N>& loop, std::int64_t numel, const std::array<std::int64_t, N>& steps) {
  loop.ndim = 1;
  loop.numel = numel;
  loop.sizes[0] = numel;
  for (int k = 0; k < N; ++k) loop.strides[k][0] = steps[k];
}

}  // namespace core::detail

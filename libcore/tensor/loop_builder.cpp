#include "libcore/tensor/loop_builder.h"

#include <algorithm>

#include "libcore/base/error.h"

namespace core::detail {
namespace {

/// Positive when dimension `inner` should lie outside of `outer`, negative when the order is right, 0 when undecided.
int compare_dims(std::size_t inner, std::size_t outer, const Shape& sizes, std::span<const Layout> operands) {
  for (const Layout& operand : operands) {
    std::int64_t a = broadcast_stride(operand, inner, sizes.size());
    std::int64_t b = broadcast_stride(operand, outer, sizes.size());
    if (a == 0 || b == 0) continue;
    if (a != b) return a < b ? -1 : 1;
    if (sizes[inner] > sizes[outer]) return 1;
  }
  return 0;
}

}  // namespace

Shape memory_order(const Shape& sizes, std::span<const Layout> operands) {
  const std::size_t rank = sizes.size();
  Shape order(rank, 0);
  for (std::size_t i = 0; i < rank; ++i) order[i] = static_cast<std::int64_t>(rank - 1 - i);
  // Insertion sort that leaves undecided neighbours alone.
  for (std::size_t i = 1; i < rank; ++i) {
    std::size_t moving = i;
    for (std::size_t j = i; j-- > 0;) {
      int decided =
          compare_dims(static_cast<std::size_t>(order[j]), static_cast<std::size_t>(order[moving]), sizes, operands);
      if (decided < 0) break;
      if (decided == 0) continue;
      std::swap(order[j], order[moving]);
      moving = j;
    }
  }
  return order;
}

Shape strides_like(const Shape& sizes, std::span<const Layout> operands) {
  Shape order = memory_order(sizes, operands);
  Shape strides(sizes.size(), 1);
  std::int64_t next = 1;
  for (std::int64_t dim : order) {
    strides[static_cast<std::size_t>(dim)] = next;
    next *= std::max<std::int64_t>(sizes[static_cast<std::size_t>(dim)], 1);
  }
  return strides;
}

bool is_dense(const Shape& sizes, const Shape& strides) {
  Shape order(sizes.size(), 0);
  for (std::size_t i = 0; i < sizes.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return strides[static_cast<std::size_t>(a)] < strides[static_cast<std::size_t>(b)];
  });
  std::int64_t next = 1;
  for (std::int64_t dim : order) {
    auto d = static_cast<std::size_t>(dim);
    if (sizes[d] == 1) continue;
    if (strides[d] != next) return false;
    next *= sizes[d];
  }
  return true;
}

void throw_too_many_dims() {
  throw Error(ErrorCode::unsupported,
              "more than " + std::to_string(kMaxDims) + " separate dimensions in one operation");
}

}  // namespace core::detail

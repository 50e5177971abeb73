#include "libcore/tensor/memory_format.h"

#include <algorithm>
#include <ostream>
#include <span>

#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// Dimensions from the innermost outwards, or nothing when the rank does not fit.
std::span<const std::size_t> memory_order(MemoryFormat format, std::size_t rank) {
  static constexpr std::size_t kImage[] = {1, 3, 2, 0}, kVolume[] = {1, 4, 3, 2, 0};
  if (format == MemoryFormat::channels_last && rank == 4) return kImage;
  if (format == MemoryFormat::channels_last_3d && rank == 5) return kVolume;
  return {};
}

}  // namespace

std::string to_string(MemoryFormat format) {
  static constexpr const char* kNames[] = {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"};
  return std::string("torch.") + kNames[static_cast<std::size_t>(format)];
}

std::ostream& operator<<(std::ostream& out, MemoryFormat format) {
  return out << to_string(format);
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::contiguous || format == MemoryFormat::preserve) return is_contiguous();
  const auto order = memory_order(format, sizes().size());
  std::int64_t expected = 1;
  for (const std::size_t d : order) {
    if (sizes()[d] != 1 && strides()[d] != expected) return false;
    expected *= sizes()[d];
  }
  return !order.empty();
}

namespace raw {

Shape strides_of(MemoryFormat format, const Shape& sizes) {
  if (format == MemoryFormat::contiguous) return contiguous_strides(sizes);
  const auto order = memory_order(format, sizes.size());
  if (order.empty()) {
    throw Error(ErrorCode::runtime, format == MemoryFormat::channels_last
                                        ? "required rank 4 tensor to use channels_last format"
                                        : "required rank 5 tensor to use channels_last_3d format");
  }
  Shape strides = sizes;
  std::int64_t step = 1;
  for (const std::size_t d : order) {
    strides[d] = step;
    step *= std::max<std::int64_t>(1, sizes[d]);
  }
  return strides;
}

MemoryFormat suggested_format(const Tensor& x) {
  const MemoryFormat last = x.dim() == 5 ? MemoryFormat::channels_last_3d : MemoryFormat::channels_last;
  const auto order = memory_order(last, x.sizes().size());
  if (order.empty() || x.strides()[1] == 0) return MemoryFormat::contiguous;
  std::int64_t least = 0;
  for (const std::size_t d : order) {
    const std::int64_t size = x.sizes()[d], stride = x.strides()[d];
    // (N, 1, 1, 1) is row-major.
    if (size == 0 || stride < least || (d == 0 && least == x.strides()[1])) return MemoryFormat::contiguous;
    least = stride * std::max<std::int64_t>(1, size);
  }
  return last;
}

Tensor formatted(const Tensor& x, MemoryFormat format) {
  Tensor out = make_strided(x.sizes(), strides_of(format, x.sizes()), x.dtype(), backend_of(x));
  copy_into(out, x);
  return out;
}

}  // namespace raw
}  // namespace core

#pragma once
// The window of an average pooling, for its kernels on planes and on blocks.
// Thread safety: plain values. Use: const AvgWindow w(params, y, x);

#include <algorithm>
#include <cstdint>

#include "libcore/backend/nn_table.h"

namespace core::cpu {

struct Range {
  std::int64_t begin, end;
};

/// The part of a window that counts, and what its sum is divided by.
struct AvgWindow {
  Range rows, columns;
  double divisor;

  AvgWindow(const AvgPool2dParams& p, std::int64_t y, std::int64_t x) {
    const Pool2dSizes& s = p.sizes;
    const std::int64_t top = y * s.stride_h - s.pad_h, left = x * s.stride_w - s.pad_w;
    const std::int64_t bottom = std::min(top + s.kernel_h, s.in_h + s.pad_h);
    const std::int64_t right = std::min(left + s.kernel_w, s.in_w + s.pad_w);
    rows = {std::max<std::int64_t>(top, 0), std::min(bottom, s.in_h)};
    columns = {std::max<std::int64_t>(left, 0), std::min(right, s.in_w)};
    const std::int64_t padded = (bottom - top) * (right - left);
    const std::int64_t real = (rows.end - rows.begin) * (columns.end - columns.begin);
    divisor = static_cast<double>(p.divisor != 0 ? p.divisor : p.count_pad ? padded : real);
  }
};

}  // namespace core::cpu

#pragma once
// The engine behind print.h: the text of an array in host memory, whatever made it. Internal; tests use it for devices
// that are not there. Thread safety: pure functions. Use: format_array({.dtype = DType::f32, ...}, options);

#include <cstddef>
#include <string>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"
#include "libcore/tensor/print.h"

namespace core::detail {

/// A strided array. `data` is null when there are no values to show (the meta device).
struct ArrayView {
  DType dtype;
  const Shape& sizes;
  const Shape& strides;  ///< in elements
  const std::byte* data;
};

/// What stands behind the values, in this order.
struct Suffixes {
  std::string device;  ///< "cuda:0", or empty when it is not shown
  bool show_dtype = false;
  std::string grad_fn;  ///< "MulBackward0", or empty
  bool requires_grad = false;
};

/// The whole text, "tensor(" to ")".
std::string format_tensor(const ArrayView& array, const Suffixes& suffixes, const PrintOptions& options);
/// The values alone, "[1., 2.]"; lines after the first are indented by `indent` spaces.
std::string format_values(const ArrayView& array, std::size_t indent, const PrintOptions& options);

}  // namespace core::detail

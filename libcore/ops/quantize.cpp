#include "libcore/ops/quantize.h"

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/autograd/node.h"
#include "libcore/base/fail.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

using core::detail::fail;

/// Saved: 1 where nothing was cut.
CORE_NODE(PerTensorBackward, "FakeQuantizePerTensorAffineCachemaskBackward0", return {g[0] * saved(0)};)
CORE_NODE(PerChannelBackward, "FakeQuantizePerChannelAffineCachemaskBackward0", return {g[0] * saved(0)};)

struct Steps {
  std::vector<float> scale, zero_point;  // one, or one a slice
  std::int64_t low, high;
  bool whole = true;  // zero points are integers; else they are added before it is rounded
};

void check_range(std::int64_t low, std::int64_t high) {
  if (low > high) fail("`quant_min` should be less than or         equal to `quant_max`.");
}
void check_zero_points(const Steps& steps) {
  for (const float zero : steps.zero_point) {
    if (zero < static_cast<float>(steps.low) || zero > static_cast<float>(steps.high)) {
      fail("`zero_point` must be between `quant_min` and `quant_max`.");
    }
  }
}

struct Rounded {
  Tensor values, kept;
};

/// Element i takes the steps of slice (i / inner) modulo their number.
template <class Real>
Rounded rounded(const Tensor& x, const Steps& steps, std::size_t inner) {
  std::vector<Real> values = raw::alias(x).template to_vector<Real>(), kept(values.size());
  const auto low = static_cast<Real>(steps.low), high = static_cast<Real>(steps.high);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t slice = i / inner % steps.scale.size();
    const float scale = steps.scale[slice], zero = steps.zero_point[slice];
    const Real scaled = values[i] * (1.0F / scale);
    const Real step = steps.whole ? std::nearbyint(scaled) + zero : std::nearbyint(scaled + zero);
    values[i] = (std::fmin(std::fmax(step, low), high) - zero) * scale;
    kept[i] = step >= low && step <= high ? 1 : 0;
  }
  const TensorOptions as_x{.dtype = x.dtype(), .device = x.device()};
  return {from_values(std::span<const Real>(values), x.sizes(), as_x),
          from_values(std::span<const Real>(kept), x.sizes(), as_x)};
}

template <class Backward>
Tensor quantized(const Tensor& x, const Steps& steps, std::size_t inner) {
  if (!is_floating(x.dtype())) {
    fail(std::string("\"fake_quantize_tensor_cachemask_kernel_type_handling\" not implemented for '") +
             scalar_type_name(x.dtype()) + "'",
         ErrorCode::not_implemented);
  }
  Rounded result = x.dtype() == DType::f64 ? rounded<double>(x, steps, inner) : rounded<float>(x, steps, inner);
  if (needs_grad(x)) {
    auto node = make_node<Backward>(x);
    node->save(result.kept);
    record(result.values, node);
  }
  return result.values;
}

void check_channels(const Tensor& x, const Tensor& scale, const Tensor& zero_point, std::int64_t axis) {
  if (scale.dtype() != DType::f32 && scale.dtype() != DType::bf16) {
    fail(std::string("Scale must be Float or BFloat16, found ") + scalar_type_name(scale.dtype()));
  }
  if (zero_point.dtype() != DType::i32 && zero_point.dtype() != DType::f32 && zero_point.dtype() != DType::f16) {
    fail(std::string("Zero-point must be Int32, Float or Half, found ") + scalar_type_name(zero_point.dtype()));
  }
  if (scale.dim() != 1) fail("scale should be a 1-D tensor");
  if (zero_point.dim() != 1) fail("zero point should be a 1-D tensor");
  if (scale.numel() != zero_point.numel()) fail("scale and zero-point need to have the same dimensions");
  if (scale.numel() != x.size(axis)) fail("dimensions of scale and zero-point are not consistent with input tensor");
}

}  // namespace

Tensor fake_quantize_per_tensor_affine(const Tensor& x, double scale, std::int64_t zero_point, std::int64_t quant_min,
                                       std::int64_t quant_max) {
  check_range(quant_min, quant_max);
  const Steps steps{{static_cast<float>(scale)}, {static_cast<float>(zero_point)}, quant_min, quant_max};
  check_zero_points(steps);
  return quantized<PerTensorBackward>(x, steps, 1);
}

Tensor fake_quantize_per_channel_affine(const Tensor& x, const Tensor& scale, const Tensor& zero_point,
                                        std::int64_t axis, std::int64_t quant_min, std::int64_t quant_max) {
  check_channels(x, scale, zero_point, axis);
  check_range(quant_min, quant_max);
  const bool whole = zero_point.dtype() == DType::i32;
  const Steps steps{scale.to_vector<float>(), zero_point.to_vector<float>(), quant_min, quant_max, whole};
  if (whole) check_zero_points(steps);
  std::size_t inner = 1;
  for (std::int64_t d = raw::wrap_dim(axis, x.dim()) + 1; d < x.dim(); ++d) {
    inner *= static_cast<std::size_t>(x.size(d));
  }
  return quantized<PerChannelBackward>(x, steps, inner);
}

}  // namespace core

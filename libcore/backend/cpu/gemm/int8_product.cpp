#include "libcore/backend/int8_product.h"

#include <dnnl.h>

#include <algorithm>
#include <array>
#include <limits>

#include "libcore/base/error.h"

namespace core {

FloatRange float_range(const float* x, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  std::array<float, kLanes> low, high;
  low.fill(std::numeric_limits<float>::infinity());
  high.fill(-std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float value = x[i + static_cast<std::int64_t>(lane)];
      low[lane] = value < low[lane] ? value : low[lane];
      high[lane] = value > high[lane] ? value : high[lane];
    }
  }
  for (; i < count; ++i) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = x[i] > high[0] ? x[i] : high[0];
  }
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end())};
}

void int8_numbers(const float* x, std::int64_t count, float inverse, std::int32_t zero, std::uint8_t* numbers) {
  constexpr float kWhole = 12582912.0F;  // 1.5 * 2^23: what is added to it has no place for a fraction
  const auto least = static_cast<float>(-zero), most = static_cast<float>(255 - zero);
  for (std::int64_t i = 0; i < count; ++i) {
    float value = x[i] * inverse;
    value = value > least ? value : least;  // NaN too
    value = value < most ? value : most;
    numbers[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>((value + kWhole) - kWhole) + zero);
  }
}

void int8_product(const Int8Sizes& s, const std::uint8_t* a, std::uint8_t zero, const std::int8_t* weight,
                  std::int32_t* sums) {
  const std::int32_t nothing = 0;
  const dnnl_status_t status =
      dnnl_gemm_u8s8s32('N', 'T', 'F', s.m, s.n, s.k, 1, a, s.k, zero, weight, s.k, 0, 0, sums, s.n, &nothing);
  if (status != dnnl_success) throw Error(ErrorCode::runtime, "oneDNN could not multiply matrices of 8-bit numbers");
}

void int8_values(const std::int32_t* sums, std::int64_t m, std::int64_t n, float factor, const float* bias,
                 float* out) {
  for (std::int64_t row = 0; row < m; ++row, sums += n, out += n) {
    if (bias == nullptr) {
      for (std::int64_t j = 0; j < n; ++j) out[j] = static_cast<float>(sums[j]) * factor;
    } else {
      for (std::int64_t j = 0; j < n; ++j) out[j] = static_cast<float>(sums[j]) * factor + bias[j];
    }
  }
}

}  // namespace core

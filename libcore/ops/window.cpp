#include "libcore/ops/window.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "libcore/base/fail.h"
#include "libcore/ops/operators.h"

namespace core {
namespace {

using core::detail::fail;
using std::numbers::pi;

/// Calls `values` with 0, 1 ... count - 1 in the dtype asked for, and the last of them; a periodic window is a
/// symmetric one of one more, without its end.
template <class Values>
Tensor window(const char* name, std::int64_t length, bool periodic, const TensorOptions& options, Values values) {
  TensorOptions all = options;
  all.dtype = options.dtype.value_or(default_dtype());
  all.requires_grad = false;
  if (!is_floating(*all.dtype)) {
    fail(std::string(name) + "_window expects floating point dtypes, got: " + std::string(core::name(*all.dtype)));
  }
  if (length < 0) {
    fail(std::string(name) +
         "_window requires non-negative window_length, got window_length=" + std::to_string(length));
  }
  Tensor made = ones({length}, all);
  if (length > 1) {
    const std::int64_t count = length + (periodic ? 1 : 0);
    made = values(arange(0, count, all), static_cast<double>(count - 1)).narrow(0, 0, length).contiguous();
  }
  return options.requires_grad ? made.requires_grad_() : made;
}

}  // namespace

Tensor hamming_window(std::int64_t window_length, bool periodic, double alpha, double beta,
                      const TensorOptions& options) {
  return window("hamming", window_length, periodic, options,
                [&](const Tensor& n, double last) { return cos(n * (2 * pi / last)) * -beta + alpha; });
}
Tensor hann_window(std::int64_t window_length, bool periodic, const TensorOptions& options) {
  return window("hann", window_length, periodic, options,
                [](const Tensor& n, double last) { return cos(n * (2 * pi / last)) * -0.5 + 0.5; });
}
Tensor blackman_window(std::int64_t window_length, bool periodic, const TensorOptions& options) {
  return window("blackman", window_length, periodic, options, [](const Tensor& n, double last) {
    const Tensor angle = n * (pi / last);
    return cos(angle * 4) * 0.08 - cos(angle * 2) * 0.5 + 0.42;
  });
}
Tensor bartlett_window(std::int64_t window_length, bool periodic, const TensorOptions& options) {
  return window("bartlett", window_length, periodic, options, [](const Tensor& n, double last) {
    const Tensor rising = n * (2 / last);
    return minimum(rising, 2 - rising);
  });
}
Tensor kaiser_window(std::int64_t window_length, bool periodic, double beta, const TensorOptions& options) {
  return window("kaiser", window_length, periodic, options, [&](const Tensor& n, double last) {
    std::vector<double> values = n.to_vector<double>();
    for (double& value : values) {
      const double off = 2 * value / last - 1;
      value = std::cyl_bessel_i(0, beta * std::sqrt(std::fmax(0, 1 - off * off))) / std::cyl_bessel_i(0, beta);
    }
    return from_values(values, {.dtype = n.dtype(), .device = n.device()});
  });
}

}  // namespace core

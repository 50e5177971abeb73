#pragma once
// Numbers as the state of a schedule holds them. For libcore/optim alone. Thread safety: pure functions.
// Use: state.set("base_lrs", detail::scalars(base_lrs_));

#include <cmath>
#include <cstdint>
#include <vector>

#include "libcore/tensor/scalar.h"

namespace core::detail {

inline std::vector<Scalar> scalars(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// An int where it is whole, as Python has it.
inline Scalar plain_number(double value) {
  const double whole = std::trunc(value);
  return whole == value ? Scalar(static_cast<std::int64_t>(whole)) : Scalar(value);
}

}  // namespace core::detail

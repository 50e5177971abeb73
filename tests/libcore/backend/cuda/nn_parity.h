#pragma once
// For the parity tests of the neural-network kernels: arrays that exist twice, as the emulated CUDA kernel takes them
// and as the CPU's does, and their comparison. f16 and bf16 are compared with the CPU's f32 on the same numbers. Thread
// safety: none. Use: const Both<T> x = random_array<T>(n); ... EXPECT_TRUE(is_near(y, 1e-5));

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/nn_table.h"
#include "tests/libcore/backend/cuda/emulation.h"

namespace core::parity {

template <class T>
using Computed = emulated_kernels::Computed<T>;

inline std::mt19937& random_numbers() {
  static std::mt19937 numbers(7);
  return numbers;
}
inline std::int64_t random_size(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random_numbers());
}

/// The same numbers for the emulated kernel and for the CPU's.
template <class T>
struct Both {
  std::vector<T> device;
  std::vector<Computed<T>> host;

  explicit Both(std::int64_t count) : device(static_cast<std::size_t>(count)), host(device.size()) {}
  void set(std::size_t i, double value) {
    device[i] = emulated_kernels::narrow<T>(static_cast<Computed<T>>(value));
    host[i] = emulated_kernels::widen(device[i]);
  }
};

template <class T>
Both<T> random_array(std::int64_t count, double scale = 1, double shift = 0) {
  Both<T> out(count);
  std::normal_distribution<double> normal(shift, scale);
  for (std::size_t i = 0; i < out.device.size(); ++i) out.set(i, normal(random_numbers()));
  return out;
}
/// What a kernel has to write over.
template <class T>
Both<T> garbage(std::int64_t count) {
  Both<T> out(count);
  for (std::size_t i = 0; i < out.device.size(); ++i) out.set(i, 777);
  return out;
}

/// How far numbers of type T may be apart that were computed to within `tolerance`.
template <class T>
double tolerance_of(double tolerance) {
  if (std::is_same_v<T, Half>) return std::max(tolerance, 1e-3);
  if (std::is_same_v<T, BFloat16>) return std::max(tolerance, 8e-3);
  return std::is_same_v<T, double> ? tolerance * 1e-6 : tolerance;
}

/// `tolerance`: for f32, relative to the largest of 1 and the number.
template <class T>
testing::AssertionResult is_near(const Both<T>& x, double tolerance) {
  const double most = tolerance_of<T>(tolerance);
  for (std::size_t i = 0; i < x.device.size(); ++i) {
    const double got = emulated_kernels::widen(x.device[i]), wanted = x.host[i];
    const bool same = got == wanted || (std::isnan(got) && std::isnan(wanted));
    if (same || std::abs(got - wanted) <= most * std::max(1.0, std::abs(wanted))) continue;
    return testing::AssertionFailure() << "element " << i << " of " << x.device.size() << ": " << got << " where the "
                                       << "CPU has " << wanted;
  }
  return testing::AssertionSuccess();
}

template <class T>
constexpr std::size_t slot() {
  return static_cast<std::size_t>(dtype_of<T>);
}

inline const NnTable& emulated_nn() {
  static const NnTable table = [] {
    NnTable filled;
    emulated_kernels::fill_convolution(filled);
    emulated_kernels::fill_pooling(filled);
    emulated_kernels::fill_norms(filled);
    emulated_kernels::fill_softmax(filled);
    emulated_kernels::fill_losses(filled);
    emulated_kernels::fill_attention(filled);
    return filled;
  }();
  return table;
}
inline const NnTable& cpu_nn() {
  return *cpu_op_tables().nn;
}

/// Calls the emulated slot of T and the CPU's of what T is computed in, each with its parameters.
template <class T, class Row, class Params>
void run_both(Row NnTable::*row, Params&& device, Params&& host) {
  ASSERT_NE((emulated_nn().*row)[slot<T>()], nullptr);
  ASSERT_NE((cpu_nn().*row)[slot<Computed<T>>()], nullptr);
  (emulated_nn().*row)[slot<T>()](device);
  (cpu_nn().*row)[slot<Computed<T>>()](host);
}

/// What a typed test runs on: elements of type T, teams of kLanes lanes.
template <class T, int kLanes>
struct On {
  using Element = T;
  static constexpr int kTeam = kLanes;
};
using FloatingTypes = testing::Types<On<float, 1>, On<double, 1>, On<Half, 1>, On<BFloat16, 1>, On<float, 4>>;

template <class Kind>
class Parity : public testing::Test {
 private:
  test::Lanes lanes_{Kind::kTeam};
};

/// The cases of a test; the first few of them where lanes are threads, which takes long.
template <class Kind, class Case>
std::vector<Case> some(const std::vector<Case>& cases, std::ptrdiff_t few = 4) {
  const auto count = static_cast<std::ptrdiff_t>(cases.size());
  return {cases.begin(), cases.begin() + (Kind::kTeam == 1 ? count : std::min(few, count))};
}

}  // namespace core::parity

// The CPU's optimizer kernels give the same bits for an array of any length as for its elements one by one: whole
// vectors, what is left over behind them, and single numbers round alike.
#include "libcore/backend/optimizer_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/threads.h"

namespace {

using core::AdamStepParams;
using core::AdamTensor;
using core::SgdStepParams;
using core::SgdTensor;

template <class T>
std::size_t slot() {
  return static_cast<std::size_t>(core::dtype_of<T>);
}
template <class T>
void run_adam(AdamStepParams how, const AdamTensor& tensor) {
  how.tensors = &tensor;
  how.tensor_count = 1;
  core::cpu_op_tables().optimizer->adam[slot<T>()](how);
}
template <class T>
void run_sgd(SgdStepParams how, const SgdTensor& tensor) {
  how.tensors = &tensor;
  how.tensor_count = 1;
  core::cpu_op_tables().optimizer->sgd[slot<T>()](how);
}

AdamStepParams adam_options(double weight_decay, bool maximize, double beta2, bool decoupled) {
  return {{0.01, weight_decay, maximize}, 0.9, beta2, 1e-8, decoupled, nullptr, 0};
}

template <class T>
std::vector<T> numbers(std::int64_t count, double scale, bool positive = false) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = scale * std::sin(static_cast<double>(7 * i + 1));
    result.push_back(static_cast<T>(positive ? std::abs(value) : value));
  }
  return result;
}

struct AdamCase {
  double weight_decay;
  bool decoupled, maximize, amsgrad;
};

template <class T>
struct AdamArrays {
  std::vector<T> p, g, m, v, top;
  explicit AdamArrays(std::int64_t n)
      : p(numbers<T>(n, 2)),
        g(numbers<T>(n, 0.5)),
        m(numbers<T>(n, 0.1)),
        v(numbers<T>(n, 0.01, true)),
        top(numbers<T>(n, 0.02, true)) {}
  void update(std::int64_t from, std::int64_t count, const AdamStepParams& how, bool amsgrad) {
    run_adam<T>(how, {count, p.data() + from, g.data() + from, m.data() + from, v.data() + from,
                      amsgrad ? top.data() + from : nullptr, 3, nullptr, nullptr});
  }
};

template <class T>
void check_adam(const AdamCase& c, std::int64_t n) {
  const AdamStepParams how = adam_options(c.weight_decay, c.maximize, 0.999, c.decoupled);
  AdamArrays<T> whole(n), single(n);
  whole.update(0, n, how, c.amsgrad);
  for (std::int64_t i = 0; i < n; ++i) single.update(i, 1, how, c.amsgrad);
  EXPECT_EQ(whole.p, single.p) << n;
  EXPECT_EQ(whole.m, single.m) << n;
  EXPECT_EQ(whole.v, single.v) << n;
  EXPECT_EQ(whole.top, single.top) << n;
}

TEST(OptimizerKernels, AdamRoundsAlikeAtEveryLength) {
  for (const AdamCase& c :
       {AdamCase{0, false, false, false}, {0.1, false, true, true}, {0.1, true, false, true}, {0, true, true, false}}) {
    for (std::int64_t n : {0, 1, 3, 8, 15, 16, 17, 31, 100}) {
      check_adam<float>(c, n);
      check_adam<double>(c, n);
    }
  }
}

TEST(OptimizerKernels, AdamFollowsItsFormula) {
  double p = 2, g = 0.5, m = 0.1, v = 0.04;
  run_adam<double>(adam_options(0.1, false, 0.99, true), {1, &p, &g, &m, &v, nullptr, 2, nullptr, nullptr});
  EXPECT_NEAR(m, 0.9 * 0.1 + 0.1 * 0.5, 1e-15);
  EXPECT_NEAR(v, 0.99 * 0.04 + 0.01 * 0.25, 1e-15);
  const double step = 0.01 * (m / (1 - 0.81)) / (std::sqrt(v / (1 - 0.99 * 0.99)) + 1e-8);
  EXPECT_NEAR(p, 2 * (1 - 0.01 * 0.1) - step, 1e-14);
}

TEST(OptimizerKernels, SgdRoundsAlikeAtEveryLength) {
  for (bool nesterov : {false, true}) {
    const SgdStepParams how{{0.1, 0.01, true}, 0.9, nesterov ? 0.0 : 0.2, nesterov, nullptr, 0};
    for (std::int64_t n : {1, 7, 16, 33}) {
      auto p = numbers<float>(n, 2), buffer = numbers<float>(n, 0.3);
      auto single_p = p, single_buffer = buffer;
      const auto g = numbers<float>(n, 0.5);
      run_sgd<float>(how, {n, p.data(), g.data(), buffer.data(), nullptr, false});
      for (std::int64_t i = 0; i < n; ++i) {
        run_sgd<float>(how, {1, single_p.data() + i, g.data() + i, single_buffer.data() + i, nullptr, false});
      }
      EXPECT_EQ(p, single_p);
      EXPECT_EQ(buffer, single_buffer);
    }
  }
}

TEST(OptimizerKernels, GiveTheSameBitsOnSeveralThreads) {
  const AdamStepParams how = adam_options(0.1, false, 0.999, true);
  constexpr std::int64_t kMany = 200'003;
  AdamArrays<float> one(kMany), several(kMany);
  {
    const core::ThreadLimitGuard limit(1);
    one.update(0, kMany, how, true);
  }
  const core::ThreadLimitGuard limit(3);
  several.update(0, kMany, how, true);
  EXPECT_EQ(one.p, several.p);
  EXPECT_EQ(one.m, several.m);
  EXPECT_EQ(one.v, several.v);
  EXPECT_EQ(one.top, several.top);
}

/// As a recorded step has them on a device.
TEST(OptimizerKernels, ReadRatesAndCountStepsInMemory) {
  const double lr = 0.01;
  float steps = 2;
  AdamArrays<float> plain(20), counted(20);
  AdamStepParams how = adam_options(0.1, false, 0.999, true);
  plain.update(0, 20, how, false);
  how.options.lr = -1;
  run_adam<float>(
      how, {20, counted.p.data(), counted.g.data(), counted.m.data(), counted.v.data(), nullptr, 0, &steps, &lr});
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(plain.p, counted.p);
}

}  // namespace

// Products of few rows with a large transposed matrix take a way of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::DType;
using core::Tensor;

void expect_right(std::int64_t m, std::int64_t k) {
  core::manual_seed(0);
  Tensor x = core::randn({m, k}), w = core::randn({403, k}), b = core::randn({403});
  Tensor wanted = core::linear(x.to(DType::f64), w.to(DType::f64), b.to(DType::f64));
  EXPECT_TRUE(core::allclose(core::linear(x, w, b).to(DType::f64), wanted, {.rtol = 1e-4, .atol = 1e-4}));
  EXPECT_TRUE(
      core::allclose(core::matmul(x, w.t()).to(DType::f64), wanted - b.to(DType::f64), {.rtol = 1e-4, .atol = 1e-4}));
}

class FewRows : public testing::TestWithParam<int> {};

/// Sums of one piece, of two and of four.
TEST_P(FewRows, LinearGivesTheProductWithItsBias) {
  for (std::int64_t k : {200, 401, 1353}) {
    SCOPED_TRACE(k);
    expect_right(GetParam(), k);
  }
}

TEST_P(FewRows, GiveTheSameBitsOnSeveralThreads) {
  constexpr int kRowsOfTheLibrary = 12;  // below AVX-512 (few_rows.h)
  if (GetParam() >= kRowsOfTheLibrary && core::cpu::isa() < core::cpu::Isa::avx512) {
    GTEST_SKIP() << "oneDNN computes these, whose sums depend on the number of threads";
  }
  core::manual_seed(0);
  Tensor x = core::randn({GetParam(), 1500}), w = core::randn({403, 1500});
  const core::ThreadLimitGuard one(1);
  Tensor alone = core::matmul(x, w.t());
  const core::ThreadLimitGuard three(3);
  EXPECT_TRUE(core::matmul(x, w.t()).equal(alone));
}

INSTANTIATE_TEST_SUITE_P(Rows, FewRows, testing::Values(1, 2, 3, 5, 8, 11, 12, 16, 31, 48, 49, 80, 113, 300));

/// Short rows are turned in registers, eight elements at a time; what lies behind their ends is no part of them.
TEST_P(FewRows, OfShortLengthGiveTheProduct) {
  core::manual_seed(0);
  for (std::int64_t n : {7, 8, 16, 21, 40}) {
    for (std::int64_t k : {1, 7, 8, 13, 64, 65, 128, 129}) {
      SCOPED_TRACE(testing::Message() << "n = " << n << ", k = " << k);
      Tensor x = core::randn({GetParam(), k}), w = core::full({n, k + 3}, NAN), b = core::randn({n});
      w.narrow(1, 0, k).copy_(core::randn({n, k}));
      const Tensor rows = w.narrow(1, 0, k), dense = rows.contiguous();
      const Tensor wanted = core::matmul(x.to(DType::f64), rows.to(DType::f64).t());
      EXPECT_TRUE(core::allclose(core::matmul(x, rows.t()).to(DType::f64), wanted, {.rtol = 1e-5, .atol = 2e-5}));
      const Tensor sums = core::linear(x, dense, b).to(DType::f64);
      EXPECT_TRUE(core::allclose(sums, wanted + b.to(DType::f64), {.rtol = 1e-5, .atol = 2e-5}));
    }
  }
}

/// Of a size at which the transposed matrix is packed and the rows are not; sums of one, two and three pieces.
TEST(MiddleProducts, AreRightAndTheSameOnSeveralThreads) {
  core::manual_seed(0);
  for (std::int64_t m : {128, 259}) {
    for (std::int64_t n : {47, 130}) {
      for (std::int64_t k : {16, 385, 900}) {
        SCOPED_TRACE(testing::Message() << "m = " << m << ", n = " << n << ", k = " << k);
        const Tensor x = core::randn({m, k}), w = core::randn({n, k}), b = core::randn({n}), c = core::randn({m, n});
        const Tensor wanted = core::matmul(x.to(DType::f64), w.to(DType::f64).t());
        const Tensor sums = core::addmm(c, x, w.t()).to(DType::f64) - c.to(DType::f64);
        EXPECT_TRUE(core::allclose(sums, wanted, {.rtol = 1e-4, .atol = 1e-4}));
        const core::ThreadLimitGuard one(1);
        const Tensor alone = core::linear(x, w, b);
        EXPECT_TRUE(core::allclose(alone.to(DType::f64), wanted + b.to(DType::f64), {.rtol = 1e-4, .atol = 1e-4}));
        EXPECT_TRUE(core::linear(x.view({1, m, k}), w, b).view({m, n}).equal(alone));
        const core::ThreadLimitGuard three(3);
        if (core::cpu::isa() == core::cpu::Isa::avx512) {
          EXPECT_TRUE(core::linear(x, w, b).equal(alone));
        }
      }
    }
  }
}

/// A batch is shared out between threads, each product as it would be alone.
TEST(ManySmallProducts, AreRightOnSeveralThreads) {
  core::manual_seed(0);
  Tensor a = core::randn({301, 12, 40}), b = core::randn({301, 40, 24}), t = core::randn({301, 24, 40});
  Tensor wanted = core::bmm(a.to(DType::f64), b.to(DType::f64));
  Tensor turned = core::bmm(a.to(DType::f64), t.to(DType::f64).transpose(1, 2));
  const core::ThreadLimitGuard three(3);
  EXPECT_TRUE(core::allclose(core::bmm(a, b).to(DType::f64), wanted, {.rtol = 1e-4, .atol = 1e-4}));
  EXPECT_TRUE(core::allclose(core::bmm(a, t.transpose(1, 2)).to(DType::f64), turned, {.rtol = 1e-4, .atol = 1e-4}));
}

TEST(ManySmallProducts, GiveTheSameBitsOnSeveralThreads) {
  core::manual_seed(0);
  Tensor a = core::randn({301, 12, 40}), b = core::randn({301, 40, 24});
  const core::ThreadLimitGuard one(1);
  Tensor alone = core::bmm(a, b);
  const core::ThreadLimitGuard three(3);
  EXPECT_TRUE(core::bmm(a, b).equal(alone));
}

TEST(OneRow, OfOddLengthGivesTheProduct) {
  core::manual_seed(0);
  Tensor x = core::randn({1, 1003}), w = core::randn({517, 1003}), b = core::randn({517});
  Tensor wanted = core::linear(x.to(DType::f64), w.to(DType::f64), b.to(DType::f64));
  EXPECT_TRUE(core::allclose(core::linear(x, w, b).to(DType::f64), wanted, {.rtol = 1e-4, .atol = 1e-4}));
}

}  // namespace

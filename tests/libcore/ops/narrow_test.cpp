// Numbers of 16 bits, element by element: more than a tile, in any layout, the same as f32 rounded once.
#include <gtest/gtest.h>

#include <string>

#include "libcore/base/half.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"

namespace {

using core::DType;
using core::Tensor;

class Narrow : public ::testing::TestWithParam<DType> {
 protected:
  Tensor wide(const Tensor& x) const { return x.to(DType::f32); }
  /// The same bits as `f32` rounded to the type.
  void expect_same(const Tensor& got, const Tensor& f32) const {
    EXPECT_EQ(got.dtype(), GetParam());
    EXPECT_TRUE(got.equal(f32.to(GetParam())));
  }
};

TEST_P(Narrow, TilesOfAnyLayout) {
  const Tensor x = core::randn({70, 90}).to(GetParam()), y = core::randn({90, 70}).to(GetParam()).t();
  const Tensor row = core::randn({90}).to(GetParam());
  expect_same(x * y, wide(x) * wide(y));
  expect_same(x + row, wide(x) + wide(row));
  expect_same(core::maximum(y, row), core::maximum(wide(y), wide(row)));
  expect_same(core::exp(y), core::exp(wide(y)));
  expect_same(core::relu(x.slice(1, 3, 80, 2)), core::relu(wide(x).slice(1, 3, 80, 2)));
  EXPECT_TRUE((y > row).equal(wide(y) > wide(row)));
  EXPECT_TRUE(core::isfinite(x.flatten()).all().item<bool>());
}

TEST_P(Narrow, InPlace) {
  const Tensor x = core::randn({50, 60}).to(GetParam()), y = core::randn({50, 60}).to(GetParam());
  Tensor t = x.clone();
  t.mul_(y);
  expect_same(t, wide(x) * wide(y));
  Tensor u = x.clone();
  u.t().add_(y.t());
  expect_same(u, wide(x) + wide(y));
  Tensor v = x.clone();
  v.tanh_();
  expect_same(v, core::tanh(wide(x)));
}

TEST_P(Narrow, EveryNumberComesBack) {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  const Tensor all = core::from_bytes(std::as_bytes(std::span(bits)), {65536}, GetParam());
  const std::vector<float> got = wide(all).to_vector<float>();
  const Tensor back = wide(all).to(GetParam());
  const auto* again = static_cast<const std::uint16_t*>(back.raw_data());
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const float known = GetParam() == DType::f16 ? core::f16_to_f32(bits[i]) : core::bf16_to_f32(bits[i]);
    if (known != known) {
      ASSERT_NE(got[i], got[i]) << i;
      continue;
    }
    ASSERT_EQ(got[i], known) << i;
    ASSERT_EQ(again[i], bits[i]) << i;
  }
}

TEST_P(Narrow, ManyImagesAreConvolvedSomeAtATime) {
  // 16 MiB of f32 are 4 Mi numbers: of these images four, three times, and one.
  const Tensor x = core::randn({13, 4, 400, 400}).to(GetParam()).requires_grad_();
  const Tensor w = core::randn({2, 4, 3, 3}).to(GetParam()).requires_grad_();
  const Tensor y = core::conv2d(x, w, {}, {.padding = 1});
  const Tensor exact = core::conv2d(wide(x.detach()), wide(w.detach()), {}, {.padding = 1});
  const double unit = GetParam() == DType::f16 ? 0x1p-9 : 0x1p-6;
  EXPECT_TRUE(core::allclose(wide(y.detach()), exact, {.rtol = unit, .atol = unit}));
  y.sum().backward();
  // Of a middle tap: the sum of all pixels of a channel.
  const double sum = x.detach().select(1, 2).to(DType::f64).sum().item<double>();
  EXPECT_NEAR(w.grad()[1][2][1][1].item<double>(), sum, std::abs(sum) * unit + 1);
}

INSTANTIATE_TEST_SUITE_P(Types, Narrow, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& type) { return std::string(core::short_name(type.param)); });

}  // namespace

#include "libcore/ops/attention.h"
#include "libcore/autograd/autograd.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace {

using core::Shape;
using core::Tensor;

void expect_close(const Tensor& found, const Tensor& wanted) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const std::vector<float> a = found.to_vector<float>();
  const std::vector<double> b = wanted.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * (1 + std::abs(b[i]))) << "at " << i;
}

Tensor leaf(const Tensor& x) {
  return x.detach().clone().requires_grad_();
}

/// The kernel in single precision against the written-out operation in double.
class Attention : public testing::Test {
 protected:
  void SetUp() override { core::manual_seed(11); }
  static void check(const Shape& queries, const Shape& keys, const core::AttentionOptions& options) {
    const Tensor q = core::randn(queries), k = core::randn(keys), v = core::randn(keys);
    const Tensor single[] = {leaf(q), leaf(k), leaf(v)};
    const Tensor twice[] = {leaf(q.to_double()), leaf(k.to_double()), leaf(v.to_double())};
    const Tensor out = core::scaled_dot_product_attention(single[0], single[1], single[2], options);
    const Tensor wanted = core::scaled_dot_product_attention(twice[0], twice[1], twice[2], options);
    expect_close(out, wanted);
    const Tensor upstream = core::randn(out.sizes());
    out.backward(upstream);
    wanted.backward(upstream.to_double());
    for (int i = 0; i < 3; ++i) expect_close(single[i].grad(), twice[i].grad());
  }
};

TEST_F(Attention, AgreesWithDouble) {
  check({2, 3, 16, 32}, {2, 3, 16, 32}, {});
}

TEST_F(Attention, CausalRowsSeeOnlyWhatIsBefore) {
  check({2, 2, 20, 16}, {2, 2, 20, 16}, {.is_causal = true});
}

TEST_F(Attention, OddWidthsAndMoreKeysThanQueries) {
  check({1, 2, 3, 5}, {1, 2, 37, 5}, {});
  check({1, 1, 21, 7}, {1, 1, 4, 7}, {.is_causal = true, .scale = -0.3});
}

/// As PyTorch 2.15: neither the row nor its gradients are NaN.
TEST_F(Attention, ARowThatSeesNoKeyIsZeroAndHasNoGradient) {
  const Tensor seen = core::ones({3, 5}) > 0;
  seen.select(0, 1).fill_(false);
  const Tensor numbers = core::masked_fill(core::zeros({3, 5}), core::logical_not(seen), -HUGE_VAL).requires_grad_();
  for (const Tensor& mask : {seen, numbers, numbers.detach()}) {
    for (const double dropped : {0.0, 0.5}) {
      const Tensor q = leaf(core::randn({2, 1, 3, 4})), k = leaf(core::randn({2, 1, 5, 4}));
      const Tensor out = core::scaled_dot_product_attention(q, k, k, {.mask = mask, .dropout = dropped});
      out.sum().backward();
      EXPECT_EQ(out.select(2, 1).abs().sum().item<float>(), 0);
      EXPECT_EQ(q.grad().select(2, 1).abs().sum().item<float>(), 0);
      EXPECT_TRUE(core::all(core::isfinite(k.grad())).item<bool>());
    }
  }
  EXPECT_EQ(numbers.grad().select(0, 1).abs().sum().item<float>(), 0);
  EXPECT_TRUE(core::all(core::isfinite(numbers.grad())).item<bool>());
}

TEST_F(Attention, LargeScoresDoNotOverflow) {
  const Tensor q = core::full({1, 1, 2, 4}, 100.0F), v = core::ones({1, 1, 2, 4});
  EXPECT_EQ(core::scaled_dot_product_attention(q, q, v).sum().item<float>(), 8);
}

TEST_F(Attention, LiesInMemoryAsItsQueries) {
  const Tensor x = core::randn({2, 4, 45});
  const std::vector<Tensor> parts = x.split(15, 2);
  const auto heads = [](const Tensor& part) { return part.view({2, 4, 3, 5}).transpose(1, 2); };
  const Tensor out = core::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]));
  EXPECT_EQ(out.strides(), (Shape{60, 5, 15, 1}));
}

TEST_F(Attention, SecondDerivativesAreThoseOfDouble) {
  const Tensor q = core::randn({1, 1, 4, 4}), k = core::randn({1, 1, 4, 4}), v = core::randn({1, 1, 4, 4});
  const auto second = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    const Tensor out = core::scaled_dot_product_attention(a, b, c, {.is_causal = true});
    const Tensor first = core::grad({core::sin(out).sum()}, {a}, {.create_graph = true})[0];
    return core::grad({core::sin(first).sum()}, {b})[0];
  };
  expect_close(second(leaf(q), leaf(k), leaf(v)),
               second(leaf(q.to_double()), leaf(k.to_double()), leaf(v.to_double())));
}

}  // namespace

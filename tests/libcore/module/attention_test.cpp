#include "libcore/ops/attention.h"
#include "libcore/autograd/autograd.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace {

using core::DType;
using core::Shape;
using core::Tensor;

void expect_close(const Tensor& found, const Tensor& wanted, double error = 2e-5) {
  ASSERT_EQ(found.sizes(), wanted.sizes());
  const std::vector<double> a = found.to_double().to_vector<double>();
  const std::vector<double> b = wanted.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], error * (1 + std::abs(b[i]))) << "at " << i;
}

Tensor leaf(const Tensor& x) {
  return x.detach().clone().requires_grad_();
}

/// In 16 bits as in double: an error is one of rounding weights and their gradients to as many.
constexpr double kErrorOfHalf = 2e-3, kErrorOfBFloat16 = 1e-2;

/// The kernel in single precision against the written-out operation in double.
class Attention : public testing::Test {
 protected:
  void SetUp() override { core::manual_seed(11); }
  static void check(const Shape& queries, const Shape& keys, const core::AttentionOptions& options) {
    check({core::randn(queries), core::randn(keys), core::randn(keys)}, options, 2e-5);
  }
  static void check(const std::vector<Tensor>& qkv, const core::AttentionOptions& options, double error) {
    const Tensor &q = qkv[0], &k = qkv[1], &v = qkv[2];
    const Tensor single[] = {leaf(q), leaf(k), leaf(v)};
    const Tensor twice[] = {leaf(q.to_double()), leaf(k.to_double()), leaf(v.to_double())};
    const Tensor out = core::scaled_dot_product_attention(single[0], single[1], single[2], options);
    const Tensor wanted = core::scaled_dot_product_attention(twice[0], twice[1], twice[2], options);
    expect_close(out, wanted, error);
    const Tensor upstream = core::randn(out.sizes()).to(q.dtype());
    out.backward(upstream);
    wanted.backward(upstream.to_double());
    for (int i = 0; i < 3; ++i) expect_close(single[i].grad(), twice[i].grad(), error);
  }

  /// Queries and keys that lie as a layer leaves them, row by row of all heads, or head by head.
  static Tensor rows(core::DType dtype, std::int64_t length, std::int64_t width, bool by_rows) {
    if (by_rows) return core::randn({2, length, 2, width}).to(dtype).transpose(1, 2);
    return core::randn({2, 2, length, width}).to(dtype);
  }
  /// What goes by blocks of 64 queries, by tiles of 16 and by steps of 32, at sizes that fill none of them.
  static void check_blocks(core::DType dtype, double error) {
    const struct {
      std::int64_t queries, keys, width;
      bool by_rows;
      core::AttentionOptions options;
    } cases[] = {{128, 128, 64, false, {}},
                 {130, 201, 40, true, {}},
                 {77, 77, 40, false, {.is_causal = true}},
                 {200, 65, 128, true, {.is_causal = true}},
                 {70, 150, 24, true, {.is_causal = true}},
                 {33, 17, 8, false, {.scale = -0.1}},
                 {150, 140, 16, false, {.is_causal = true, .scale = -0.2}},
                 {81, 81, 32, false, {.is_causal = true, .scale = 0.0}},
                 {1, 90, 64, true, {}},
                 {2, 300, 48, false, {.is_causal = true}},
                 {4, 300, 48, true, {}},
                 {5, 1, 3, false, {}}};
    for (const auto& c : cases) {
      SCOPED_TRACE(testing::Message() << c.queries << " queries, " << c.keys << " keys, " << c.width << " wide");
      check({rows(dtype, c.queries, c.width, c.by_rows), rows(dtype, c.keys, c.width, c.by_rows),
             rows(dtype, c.keys, c.width, c.by_rows)},
            c.options, error);
    }
  }
};

TEST_F(Attention, BlocksAgreeWithDouble) {
  check_blocks(core::DType::f32, 2e-5);
}

TEST_F(Attention, BlocksOfHalfAgreeWithDouble) {
  check_blocks(core::DType::f16, kErrorOfHalf);
}

TEST_F(Attention, BlocksOfBFloat16AgreeWithDouble) {
  check_blocks(core::DType::bf16, kErrorOfBFloat16);
}

/// The largest score of a row may be in any block: what was summed before is taken back to it.
TEST_F(Attention, ScoresMayGrowFromBlockToBlock) {
  for (const core::DType dtype : {core::DType::f32, core::DType::bf16}) {
    const double error = dtype == core::DType::f32 ? 1e-4 : 3 * kErrorOfBFloat16;
    const Tensor growth = core::arange(0, 300).view({1, 1, 300, 1}) * 0.05;
    const Tensor q = (core::rand({1, 1, 70, 8}) + 0.5).to(dtype), k = (core::rand({1, 1, 300, 8}) + growth).to(dtype);
    check({q, k, core::randn({1, 1, 300, 8}).to(dtype)}, {.scale = 0.3}, error);
    check({q, k * -1, core::randn({1, 1, 300, 8}).to(dtype)}, {.scale = 0.3}, error);
  }
}

TEST_F(Attention, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const core::DType dtype : {core::DType::f32, core::DType::bf16}) {
    const Tensor q = rows(dtype, 200, 40, true), k = rows(dtype, 200, 40, true), v = rows(dtype, 200, 40, true);
    const auto compute = [&](int threads) {
      core::set_num_threads(threads);
      const std::vector<Tensor> in{leaf(q), leaf(k), leaf(v)};
      const Tensor out = core::scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true});
      out.backward(core::ones(out.sizes(), {.dtype = dtype}));
      return std::vector<Tensor>{out, in[0].grad(), in[1].grad(), in[2].grad()};
    };
    const int before = core::num_threads();
    const std::vector<Tensor> one = compute(1), three = compute(3);
    core::set_num_threads(before);
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(core::equal(one[i], three[i])) << i;
  }
}

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

TEST(AttentionEdges, OfATinyNegativeScaleIsAMean) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Tensor q = core::ones({1, 1, 5, 8}, {.dtype = dtype}), v = core::full({1, 1, 5, 8}, 3, {.dtype = dtype});
    for (const double scale : {-1e-50, -1e-40, 1e-40, 0.0}) {
      for (const bool is_causal : {false, true}) {
        const Tensor out = core::scaled_dot_product_attention(q, q, v, {.is_causal = is_causal, .scale = scale});
        EXPECT_TRUE(core::allclose(out, v)) << scale << is_causal;
      }
    }
  }
}

TEST(AttentionEdges, OfVastScoresIsFinite) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const std::int64_t length : {3, 17, 100}) {
      const Tensor q = core::full({1, 1, length, 32}, 1e5, {.dtype = dtype});
      const Tensor k =
          (core::remainder(core::arange(length * 32), core::full({length * 32}, 7, {.dtype = DType::i64})) * 30000)
              .reshape({1, 1, length, 32})
              .to(dtype);
      const Tensor v = core::full({1, 1, length, 32}, 3, {.dtype = dtype});
      EXPECT_TRUE(core::allclose(core::scaled_dot_product_attention(q, k, v), v)) << length << core::name(dtype);
      const Tensor leaf = q.clone().requires_grad_();
      core::backward({core::scaled_dot_product_attention(leaf, k, v).sum()});
      EXPECT_TRUE(core::isfinite(leaf.grad()).all().item<bool>()) << length << core::name(dtype);
      EXPECT_TRUE(core::allclose(core::scaled_dot_product_attention(q, k, v, {.is_causal = true}), v))
          << length << core::name(dtype);
    }
  }
}

TEST(AttentionEdges, NeedsOneDtype) {
  const Tensor x = core::ones({1, 1, 5, 8}, {.dtype = DType::bf16});
  try {
    core::scaled_dot_product_attention(x, x, x.to(DType::f64));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(),
                 "Expected query, key, and value to have the same dtype, but got query.dtype: c10::BFloat16 key.dtype: "
                 "c10::BFloat16 and value.dtype: double instead.");
  }
}

}  // namespace

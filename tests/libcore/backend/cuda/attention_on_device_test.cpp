// Attention with masks and dropout by the kernels of CUDA devices against the CPU's steps in f64: results, gradients,
// second derivatives, what dropout draws, and that no matrix of scores is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/attention_params.h"
#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/backend/philox.h"
#include "libcore/backend/random_stream.h"
#include "libcore/module/transformer.h"
#include "libcore/ops/attention.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"
#include "tests/libcore/backend/cuda/emulation.h"

namespace core {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
const Device kGpu("cuda:0");

/// One attention: batch, heads, queries, keys and width of q, k and v.
struct Heads {
  std::int64_t batch, heads, queries, keys, width;
  Shape q() const { return {batch, heads, queries, width}; }
  Shape k() const { return {batch, heads, keys, width}; }
};

struct Kind {
  DType dtype;
  double near;
  double near_grad;
};
const Kind kKinds[] = {{DType::f32, 3e-6, 2e-5}, {DType::f16, 2e-3, 6e-3}, {DType::bf16, 1.6e-2, 5e-2}};

std::uint64_t calls(const std::string& slot) {
  const auto all = opaque_calls();
  const auto found = all.find(slot);
  return found == all.end() ? 0 : found->second;
}
std::uint64_t calls(const std::string& slot, DType dtype) {
  return calls(slot + "." + std::string(name(dtype)));
}

/// q, k, v and a gradient of the result, as numbers that `dtype` holds.
std::vector<Tensor> inputs_of(const Heads& h, DType dtype) {
  std::vector<Tensor> all{randn(h.q()), randn(h.k()), randn(h.k()), randn(h.q())};
  for (Tensor& x : all) x = x.to(dtype).to(DType::f64);
  return all;
}

std::vector<Tensor> leaves(const std::vector<Tensor>& inputs, Device device, DType dtype) {
  std::vector<Tensor> all;
  for (const Tensor& x : inputs) all.push_back(x.to(device, dtype).detach().clone().requires_grad_());
  return all;
}

/// The result and the gradients of q, k and v, on the host in f64.
std::vector<Tensor> run(const std::vector<Tensor>& inputs, Device device, DType dtype, AttentionOptions options) {
  const std::vector<Tensor> x = leaves(inputs, device, dtype);
  const Tensor& mask = options.mask;
  if (mask.defined()) options.mask = mask.to(device, mask.dtype() == DType::boolean ? DType::boolean : dtype);
  const Tensor out = scaled_dot_product_attention(x[0], x[1], x[2], options);
  out.backward(x[3].detach());
  std::vector<Tensor> found{out.detach(), x[0].grad(), x[1].grad(), x[2].grad()};
  for (Tensor& t : found) t = t.to(Device(), DType::f64);
  return found;
}

void expect_close(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted, const Kind& kind) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double near = i == 0 ? kind.near : kind.near_grad;
    EXPECT_TRUE(allclose(found[i], wanted[i], {.rtol = near, .atol = near}))
        << name(kind.dtype) << " " << i << ", off by " << max(abs(found[i] - wanted[i])).item<double>();
  }
}

/// A mask that leaves each row its first key; numbers with -infinity among them, or bool.
Tensor mask_of(const Shape& sizes, bool is_boolean) {
  Tensor seen = rand(sizes) > 0.4;
  if (sizes[sizes.size() - 1] > 0) seen.select(-1, 0).fill_(true);
  if (is_boolean) return seen;
  const Tensor numbers = randn(sizes).to(DType::bf16).to(DType::f32);
  return masked_fill(numbers, logical_not(seen), kNever);
}

class AttentionOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    set_opaque_devices(1, test::emulated_tables());
    manual_seed(5);
  }
  void TearDown() override { set_logical_devices(0); }

  /// Also that the kernel did it, once.
  static void check(const Heads& heads, const AttentionOptions& options, std::optional<DType> only = {}) {
    for (const Kind& kind : kKinds) {
      if (only && kind.dtype != *only) continue;
      const std::vector<Tensor> inputs = inputs_of(heads, kind.dtype);
      const std::uint64_t forward = calls("attention", kind.dtype), back = calls("attention_grad", kind.dtype);
      const std::vector<Tensor> found = run(inputs, kGpu, kind.dtype, options);
      EXPECT_EQ(calls("attention", kind.dtype), forward + 1);
      EXPECT_EQ(calls("attention_grad", kind.dtype), back + 1);
      expect_close(found, run(inputs, Device(), DType::f64, options), kind);
    }
  }
};

TEST_F(AttentionOnDevice, TakesMasksOfAllShapes) {
  const Heads h{2, 3, 5, 21, 6};
  for (int bits = 0; bits < 16; ++bits) {
    const Shape sizes{bits & 1 ? 2 : 1, bits & 2 ? 3 : 1, bits & 4 ? 5 : 1, bits & 8 ? 21 : 1};
    const DType only = kKinds[bits % 3].dtype;
    check(h, {.mask = mask_of(sizes, true)}, only);
    check(h, {.mask = mask_of(sizes, false)}, only);
  }
  check(h, {.mask = mask_of({5, 21}, true)});
  check(h, {.mask = mask_of({3, 1, 21}, false)});
  check(h, {.mask = mask_of({21}, false)});
}

TEST_F(AttentionOnDevice, TakesMasksOverSeveralTiles) {
  for (const Heads& h : {Heads{1, 2, 70, 131, 20}, Heads{1, 1, 130, 65, 8}, Heads{2, 1, 20, 18, 300}}) {
    check(h, {.mask = mask_of({h.queries, h.keys}, false), .scale = 0.2});
    check(h, {.mask = mask_of({h.batch, 1, 1, h.keys}, true)}, DType::f32);
  }
}

TEST_F(AttentionOnDevice, TakesMasksInLittleSharedMemory) {
  const test::SharedLimit little(24 << 10);
  check({1, 1, 40, 70, 24}, {.mask = mask_of({40, 70}, false)});
}

TEST_F(AttentionOnDevice, TakesMasksThatDoNotLieSideBySide) {
  const Heads h{1, 2, 6, 9, 4};
  check(h, {.mask = mask_of({10, 6}, false).t().narrow(1, 1, 9)}, DType::f32);
  const Tensor wide = mask_of({6, 18}, true);
  const Tensor every_other = wide.view({6, 9, 2}).select(2, 0);
  check(h, {.mask = logical_or(every_other, wide.narrow(1, 0, 9))});
  check(h, {.mask = every_other}, DType::f16);
}

TEST_F(AttentionOnDevice, TakesMasksOfThreeDimensionalInputs) {
  const Tensor q = randn({3, 4, 8}), k = randn({3, 7, 8}), mask = mask_of({3, 4, 7}, false);
  const Tensor wanted = scaled_dot_product_attention(q, k, k, {.mask = mask});
  const std::uint64_t before = calls("attention", DType::f32);
  const Tensor found = scaled_dot_product_attention(q.to(kGpu), k.to(kGpu), k.to(kGpu), {.mask = mask.to(kGpu)}).cpu();
  EXPECT_EQ(calls("attention", DType::f32), before + 1);
  EXPECT_TRUE(allclose(found, wanted, {.rtol = 1e-5, .atol = 1e-6}));
}

/// As in PyTorch; also of the steps that the CPU takes.
TEST_F(AttentionOnDevice, ARowThatSeesNoKeyIsZeroAndHasNoGradient) {
  const Heads h{2, 1, 5, 70, 8};
  Tensor seen = mask_of({2, 1, 5, 70}, true);
  seen.select(0, 1).fill_(false);
  seen.select(2, 3).fill_(false);
  check(h, {.mask = seen});
  const Tensor numbers = masked_fill(zeros({2, 1, 5, 70}), logical_not(seen), kNever);
  check(h, {.mask = numbers});
  for (const Tensor& t : run(inputs_of(h, DType::f32), kGpu, DType::f32, {.mask = numbers})) {
    EXPECT_TRUE(all(isfinite(t)).item<bool>());
    EXPECT_EQ(abs(t.select(0, 1)).sum().item<double>(), 0);
  }
}

/// Rows of which a mask of finite numbers hides every key see all of them the same; so do their gradients.
TEST_F(AttentionOnDevice, LargeNumbersOfAMaskDoNotSwallowTheSumOfARow) {
  Tensor mask = zeros({4, 70});
  mask.select(0, 2).fill_(-1e30);
  const Heads h{1, 1, 4, 70, 8};
  check(h, {.mask = mask}, DType::f32);
}

TEST_F(AttentionOnDevice, CausalRowsSeeOnlyWhatIsBefore) {
  for (const Heads& h : {Heads{1, 2, 70, 131, 8}, Heads{1, 1, 131, 40, 8}}) check(h, {.is_causal = true});
}

/// Numbers in tiles that nobody sees would show in every row otherwise.
TEST_F(AttentionOnDevice, CausalTilesBehindTheDiagonalAreLeftOut) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<Tensor> inputs = inputs_of({1, 1, 70, 200, 8}, dtype);
    for (const std::size_t i : {1, 2}) inputs[i].narrow(2, 128, 72).fill_(std::nan(""));
    for (const double p : {0.0, 0.2}) {
      for (const Tensor& t : run(inputs, kGpu, dtype, {.dropout = p, .is_causal = true})) {
        EXPECT_TRUE(all(isfinite(t)).item<bool>());
      }
    }
  }
}

TEST_F(AttentionOnDevice, LearntMasksHaveGradients) {
  const std::vector<Tensor> inputs = inputs_of({1, 2, 4, 5, 3}, DType::f32);
  const auto mask_grad = [&](Device device, DType dtype) {
    const std::vector<Tensor> x = leaves(inputs, device, dtype);
    const Tensor mask = tril(ones({4, 5}, {.dtype = dtype, .device = device})).requires_grad_();
    scaled_dot_product_attention(x[0], x[1], x[2], {.mask = mask}).backward(x[3].detach());
    return mask.grad().to(Device(), DType::f64);
  };
  EXPECT_TRUE(allclose(mask_grad(kGpu, DType::f32), mask_grad(Device(), DType::f64), {.rtol = 1e-4, .atol = 1e-5}));
}

TEST_F(AttentionOnDevice, OtherMasksGoStepByStep) {
  const Tensor x = randn({2, 1, 4, 8}).to(kGpu);
  const std::uint64_t before = calls("attention", DType::f32);
  const Tensor wider = zeros({3, 1, 1, 4, 4}, {.device = kGpu});
  EXPECT_EQ(scaled_dot_product_attention(x, x, x, {.mask = wider}).sizes(), (Shape{3, 2, 1, 4, 8}));
  const Tensor one = x.narrow(0, 0, 1);
  const Tensor of_two = zeros({2, 1, 4, 4}, {.device = kGpu});
  EXPECT_EQ(scaled_dot_product_attention(one, one, one, {.mask = of_two}).sizes(), (Shape{2, 1, 4, 8}));
  EXPECT_EQ(calls("attention", DType::f32), before);
  EXPECT_ANY_THROW(scaled_dot_product_attention(x, x, x, {.mask = zeros({4, 3}, {.device = kGpu})}));
}

// Dropout.

/// What the rule of attention_params.h keeps, from where the generator stands.
Tensor kept_by_rule(const Heads& h, double p) {
  const detail::RandomStream& stream = default_generator(kGpu).stream();
  const Tensor kept = zeros({h.batch, h.heads, h.queries, h.keys}, {.dtype = DType::f64});
  for (std::int64_t i = 0; i < kept.numel(); ++i) {
    const std::uint64_t n = stream.offset + static_cast<std::uint64_t>(i);
    const PhiloxWords words = philox({.key = stream.seed, .offset = n / 4, .thread = 0});
    const float u = std::fma(static_cast<float>(words.at[n % 4]), 0x1p-32F, 0x1p-33F);
    static_cast<double*>(kept.mutable_raw_data())[i] = u > static_cast<float>(p) ? 1 : 0;
  }
  return kept;
}

/// softmax(q k^T / sqrt(width) + bias) * kept / (1 - p) @ v, step by step.
Tensor attend_with(const std::vector<Tensor>& x, const Tensor& bias, const Tensor& kept, double p) {
  const double scale = 1 / std::sqrt(static_cast<double>(x[0].size(-1)));
  return matmul(softmax(matmul(x[0], x[1].transpose(-2, -1)) * scale + bias, -1) * kept / (1 - p), x[2]);
}

Tensor bias_of(const Heads& h, bool causal) {
  const Tensor none = zeros({h.queries, h.keys}, {.dtype = DType::f64});
  if (!causal) return none;
  return masked_fill(none, triu(ones({h.queries, h.keys}), 1) > 0, kNever);
}

TEST_F(AttentionOnDevice, DropoutFollowsItsRuleAndTheGradientDoesToo) {
  const double p = 0.3;
  for (const Heads& h : {Heads{2, 2, 5, 33, 6}, Heads{1, 1, 70, 68, 8}, Heads{1, 1, 9, 21, 300}}) {
    for (const bool causal : {false, true}) {
      for (const Kind& kind : kKinds) {
        const std::vector<Tensor> inputs = inputs_of(h, kind.dtype), x = leaves(inputs, Device(), DType::f64);
        const Tensor kept = kept_by_rule(h, p);
        const std::uint64_t offset = default_generator(kGpu).stream().offset;
        const std::vector<Tensor> found = run(inputs, kGpu, kind.dtype, {.dropout = p, .is_causal = causal});
        EXPECT_EQ(default_generator(kGpu).stream().offset - offset,
                  attention_offset_step(h.batch * h.heads * h.queries * h.keys));
        const Tensor out = attend_with(x, bias_of(h, causal), kept, p);
        out.backward(x[3].detach());
        expect_close(found, {out.detach(), x[0].grad(), x[1].grad(), x[2].grad()},
                     {kind.dtype, 2 * kind.near, 2 * kind.near_grad});
      }
    }
  }
}

TEST_F(AttentionOnDevice, DropoutGoesTogetherWithAMask) {
  const Heads h{2, 1, 7, 37, 5};
  Tensor mask = mask_of({2, 1, 1, 37}, false);
  for (const Kind& kind : kKinds) {
    const std::vector<Tensor> inputs = inputs_of(h, kind.dtype), x = leaves(inputs, Device(), DType::f64);
    const Tensor kept = kept_by_rule(h, 0.5);
    const std::vector<Tensor> found = run(inputs, kGpu, kind.dtype, {.mask = mask, .dropout = 0.5});
    const Tensor out = attend_with(x, mask.to(DType::f64), kept, 0.5);
    out.backward(x[3].detach());
    expect_close(found, {out.detach(), x[0].grad(), x[1].grad(), x[2].grad()},
                 {kind.dtype, 2 * kind.near, 2 * kind.near_grad});
  }
}

/// The weights themselves: those of equal scores, times the rows of an identity matrix.
Tensor drawn_weights(std::int64_t queries, std::int64_t keys, double p) {
  const Tensor q = zeros({1, 2, queries, keys}, {.device = kGpu});
  const Tensor v = eye(keys, keys, {.device = kGpu}).expand({1, 2, keys, keys});
  return (scaled_dot_product_attention(q, zeros({1, 2, keys, keys}, {.device = kGpu}), v, {.dropout = p}) *
          static_cast<double>(keys))
      .to(Device(), DType::f64);
}

TEST_F(AttentionOnDevice, DropoutHasItsProbabilityAndScale) {
  const double p = 0.3;
  const Tensor weights = drawn_weights(150, 99, p), kept = (weights > 0).to(DType::f64);
  EXPECT_TRUE(allclose(weights, kept / (1 - p), {.rtol = 1e-5, .atol = 0}));
  const auto is_near = [&](const Tensor& x, double mean) {  // within five deviations
    const double off = std::abs(x.mean().item<double>() - mean);
    return off < 5 * std::sqrt(mean * (1 - mean) / static_cast<double>(x.numel()));
  };
  const double both = (1 - p) * (1 - p);
  EXPECT_TRUE(is_near(kept, 1 - p));
  EXPECT_TRUE(is_near(kept.narrow(3, 1, 98) * kept.narrow(3, 0, 98), both));
  EXPECT_TRUE(is_near(kept.narrow(2, 1, 149) * kept.narrow(2, 0, 149), both));
  EXPECT_TRUE(is_near(kept.narrow(1, 1, 1) * kept.narrow(1, 0, 1), both));
}

TEST_F(AttentionOnDevice, DropoutDependsOnTheSeed) {
  const auto drawn = [](int seed) {
    manual_seed(seed);
    const Tensor first = drawn_weights(4, 40, 0.5);
    return std::pair(first, drawn_weights(4, 40, 0.5));
  };
  const auto [first, second] = drawn(1);
  EXPECT_TRUE(equal(first, drawn(1).first));
  EXPECT_TRUE(equal(second, drawn(1).second));
  EXPECT_FALSE(equal(first, second));
  EXPECT_FALSE(equal(first, drawn(2).first));
}

TEST_F(AttentionOnDevice, DropoutOfAllGivesZerosAndOfOtherProbabilitiesIsRefused) {
  const Tensor x = ones({1, 1, 3, 4}, {.device = kGpu});
  EXPECT_EQ(scaled_dot_product_attention(x, x, x, {.dropout = 1}).sum().item<double>(), 0);
  try {
    scaled_dot_product_attention(x, x, x, {.dropout = 1.5});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "dropout probability has to be between 0 and 1, but got 1.5");
  }
}

TEST_F(AttentionOnDevice, ReplaysOfAGraphDrawTheNumbersOfPlainCalls) {
  const std::vector<Tensor> x = leaves(inputs_of({1, 2, 5, 7, 4}, DType::f32), kGpu, DType::f32);
  const Tensor found = zeros({4, 1, 2, 7, 4}, {.device = kGpu});
  const auto step = [&] {
    const Tensor out = scaled_dot_product_attention(x[0], x[1], x[2], {.dropout = 0.4});
    const std::vector<Tensor> grads = grad({out}, {x[0], x[1], x[2]}, {.grad_outputs = {x[3].detach()}});
    const NoGradGuard none;
    found.select(0, 0).narrow(2, 0, 5).copy_(out);
    found.select(0, 1).narrow(2, 0, 5).copy_(grads[0]);
    found.select(0, 2).copy_(grads[1]);
    found.select(0, 3).copy_(grads[2]);
  };
  manual_seed(3);
  std::vector<Tensor> wanted;
  for (int i = 0; i < 3; ++i) {
    step();
    wanted.push_back(found.clone());
  }
  const ByteVector state = default_generator(kGpu).state();
  manual_seed(3);
  cuda::Graph graph(kGpu);
  graph.capture(step);
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    EXPECT_TRUE(equal(found, wanted[static_cast<std::size_t>(i)])) << i;
  }
  EXPECT_EQ(default_generator(kGpu).state(), state);
}

// Second derivatives.

Tensor second(const Tensor& out, const std::vector<Tensor>& x) {
  const Tensor first = grad({sin(out).sum()}, {x[0]}, {.create_graph = true})[0];
  return grad({sin(first).sum()}, {x[1]})[0].to(Device(), DType::f64);
}

TEST_F(AttentionOnDevice, SecondDerivativesKnowTheMaskAndWhatWasKept) {
  const Heads h{1, 2, 4, 6, 3};
  const std::vector<Tensor> inputs = inputs_of(h, DType::f32);
  const Tensor bias = mask_of({4, 6}, false), kept = kept_by_rule(h, 0.25);
  const std::vector<Tensor> host = leaves(inputs, Device(), DType::f64), x = leaves(inputs, kGpu, DType::f32);
  const Tensor out = scaled_dot_product_attention(x[0], x[1], x[2], {.mask = bias.to(kGpu), .dropout = 0.25});
  rand({3}, {.device = kGpu});  // moves the generator on
  const Tensor wanted = second(attend_with(host, bias.to(DType::f64), kept, 0.25), host);
  EXPECT_TRUE(allclose(second(out, x), wanted, {.rtol = 1e-4, .atol = 1e-5}));
}

TEST_F(AttentionOnDevice, AMaskThatWasChangedIsNoticed) {
  const std::vector<Tensor> x = leaves(inputs_of({1, 1, 2, 3, 4}, DType::f32), kGpu, DType::f32);
  const Tensor mask = zeros({2, 3}, {.device = kGpu});
  const Tensor out = scaled_dot_product_attention(x[0], x[1], x[2], {.mask = mask});
  mask.add_(1);
  EXPECT_ANY_THROW(out.sum().backward());
}

// What it is for.

TEST_F(AttentionOnDevice, NoMatrixOfScoresIsMade) {
  const std::int64_t length = 512;  // a matrix of f32: 1 MiB
  const std::vector<Tensor> x = leaves(inputs_of({1, 1, length, length, 4}, DType::f32), kGpu, DType::f32);
  const Tensor mask = rand({1, 1, 1, length}, {.device = kGpu}) > 0.1;
  const auto most = [&](const AttentionOptions& options) {
    cuda::reset_peak_memory_stats(kGpu);
    const std::uint64_t before = cuda::memory_allocated(kGpu);
    scaled_dot_product_attention(x[0], x[1], x[2], options).backward(x[3].detach());
    const std::uint64_t peak = cuda::max_memory_allocated(kGpu) - before;
    for (const Tensor& t : x) Tensor(t).set_grad({});
    return peak;
  };
  EXPECT_LT(most({.mask = mask}), 128U << 10);
  EXPECT_LT(most({.dropout = 0.1, .is_causal = true}), 128U << 10);
  EXPECT_LT(most({.mask = mask, .dropout = 0.1}), 128U << 10);
}

TEST_F(AttentionOnDevice, LayersWithPaddingReachTheKernels) {
  TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0.0, .batch_first = true});
  const Tensor x = randn({2, 5, 8}),
               hidden = tensor({false, false, false, true, true, false, false, false, false, true}).view({2, 5});
  const Tensor causal = triu(ones({5, 5}), 1) > 0;
  const Tensor wanted = layer.forward(x, {.key_padding_mask = hidden});
  const Tensor both = layer.forward(x, {causal, hidden});
  layer.to(kGpu);
  const std::uint64_t before = calls("attention", DType::f32), back = calls("attention_grad", DType::f32);
  const CloseOptions near{.rtol = 1e-4, .atol = 1e-5};
  EXPECT_TRUE(allclose(layer.forward(x.to(kGpu), {.key_padding_mask = hidden.to(kGpu)}).cpu(), wanted, near));
  EXPECT_TRUE(allclose(layer.forward(x.to(kGpu), {causal.to(kGpu), hidden.to(kGpu)}).cpu(), both, near));
  EXPECT_EQ(calls("attention", DType::f32), before + 2);
  TransformerEncoderLayer dropping(8, 2, {.dim_feedforward = 16, .dropout = 0.5});
  dropping.to(kGpu);
  dropping.forward(x.to(kGpu)).sum().backward();
  EXPECT_EQ(calls("attention", DType::f32), before + 3);
  EXPECT_EQ(calls("attention_grad", DType::f32), back + 1);
}

/// A mask for all heads stays one.
TEST_F(AttentionOnDevice, LayersWithPaddingMakeNoMatrixForEachHead) {
  const std::int64_t length = 256, heads = 8;  // a matrix of f32: 256 KiB
  MultiheadAttention layer(8, heads, {.dropout = 0.1, .batch_first = true, .device = kGpu});
  const Tensor x = randn({1, length, 8}, {.device = kGpu});
  const Tensor hidden = rand({1, length}, {.device = kGpu}) > 0.9;
  const Tensor mask = triu(ones({length, length}, {.device = kGpu}), 1) > 0;
  cuda::reset_peak_memory_stats(kGpu);
  const std::uint64_t before = cuda::memory_allocated(kGpu);
  const auto [y, weights] =
      layer.forward(x, x, x, {.key_padding_mask = hidden, .need_weights = false, .attn_mask = mask});
  y.sum().backward();
  EXPECT_LT(cuda::max_memory_allocated(kGpu) - before, 1U << 20);
}

TEST_F(AttentionOnDevice, KernelsWithoutMasksLeaveThemToTheSteps) {
  const Tensor x = randn({2, 2, 5, 8}), mask = mask_of({5, 5}, false);
  const Tensor wanted = scaled_dot_product_attention(x, x, x, {.mask = mask});
  set_opaque_devices(1);  // the CPU's kernels
  const std::uint64_t before = calls("attention", DType::f32);
  const Tensor y = x.to(kGpu);
  EXPECT_TRUE(equal(scaled_dot_product_attention(y, y, y, {.mask = mask.to(kGpu)}).cpu(), wanted));
  EXPECT_EQ(calls("attention", DType::f32), before);
}

}  // namespace
}  // namespace core

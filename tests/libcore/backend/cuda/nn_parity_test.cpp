// The emulated CUDA kernels of norms, softmax and losses against the CPU's, and how many slots there are.
#include <array>
#include <cstdio>
#include <limits>

#include "tests/libcore/backend/cuda/nn_parity.h"

namespace core::parity {
namespace {

template <class Kind>
class NnParity : public Parity<Kind> {};
TYPED_TEST_SUITE(NnParity, FloatingTypes);

/// Statistics of T, as both sides take them.
template <class T>
using Stats = Both<Computed<T>>;

/// Few elements; several teams a channel; one pixel.
// A plane of 1: columns, as of channels that lie last.
const std::vector<BatchNormSizes> kBatches{{2, 3, 5}, {4, 3, 4096}, {9, 40, 1}, {700, 35, 1}, {1, 1, 1}, {130, 264, 1}};

TYPED_TEST(NnParity, BatchStats) {
  using T = typename TypeParam::Element;
  constexpr double kNear = TypeParam::kTeam == 1 ? 1e-5 : 2e-6;  // one lane adds 4096 numbers one after the other
  for (const BatchNormSizes& s : some<TypeParam>(kBatches)) {
    const auto x = random_array<T>(s.batch * s.channels * s.plane, 2, 3);
    Stats<T> mean = garbage<Computed<T>>(s.channels), var = mean;
    run_both<T>(&NnTable::batch_stats, BatchStatsParams{s, x.device.data(), mean.device.data(), var.device.data()},
                BatchStatsParams{s, x.host.data(), mean.host.data(), var.host.data()});
    EXPECT_TRUE(is_near(mean, kNear));
    EXPECT_TRUE(is_near(var, kNear));
  }
}

TYPED_TEST(NnParity, BatchNorm) {
  using T = typename TypeParam::Element;
  for (const BatchNormSizes& s : some<TypeParam>(kBatches)) {
    for (const bool affine : {false, true}) {
      const auto x = random_array<T>(s.batch * s.channels * s.plane);
      const Stats<T> mean = random_array<Computed<T>>(s.channels),
                     scale = random_array<Computed<T>>(s.channels, 0.1, 1);
      const auto w = random_array<T>(s.channels), b = random_array<T>(s.channels);
      auto y = garbage<T>(s.batch * s.channels * s.plane);
      run_both<T>(
          &NnTable::batch_norm,
          BatchNormParams{s, x.device.data(), mean.device.data(), scale.device.data(),
                          affine ? w.device.data() : nullptr, affine ? b.device.data() : nullptr, y.device.data()},
          BatchNormParams{s, x.host.data(), mean.host.data(), scale.host.data(), affine ? w.host.data() : nullptr,
                          affine ? b.host.data() : nullptr, y.host.data()});
      EXPECT_TRUE(is_near(y, 1e-5));
    }
  }
}

template <class T>
void check_batch_norm_grad(const BatchNormSizes& s, bool batch_stats, bool all) {
  const std::int64_t count = s.batch * s.channels * s.plane;
  const auto g = random_array<T>(count), x = random_array<T>(count), w = random_array<T>(s.channels, 0.1, 1);
  const Stats<T> mean = random_array<Computed<T>>(s.channels), scale = random_array<Computed<T>>(s.channels, 0.1, 1);
  auto of_x = garbage<T>(count), of_w = garbage<T>(s.channels), of_b = garbage<T>(s.channels);
  const auto params = [&](auto side) {
    return BatchNormGradParams{s,
                               batch_stats,
                               side(g),
                               side(x),
                               side(mean),
                               side(scale),
                               all ? side(w) : nullptr,
                               const_cast<void*>(side(of_x)),
                               all ? const_cast<void*>(side(of_w)) : nullptr,
                               all ? const_cast<void*>(side(of_b)) : nullptr};
  };
  run_both<T>(&NnTable::batch_norm_grad,
              params([](const auto& a) { return static_cast<const void*>(a.device.data()); }),
              params([](const auto& a) { return static_cast<const void*>(a.host.data()); }));
  const double terms = std::sqrt(static_cast<double>(s.batch * s.plane));
  EXPECT_TRUE(is_near(of_x, 2e-5));
  EXPECT_TRUE(is_near(of_w, 2e-6 * terms));
  EXPECT_TRUE(is_near(of_b, 2e-6 * terms));
}

TYPED_TEST(NnParity, BatchNormGrad) {
  using T = typename TypeParam::Element;
  for (const BatchNormSizes& s : some<TypeParam>(kBatches)) {
    check_batch_norm_grad<T>(s, true, true);
    check_batch_norm_grad<T>(s, false, false);
  }
}

/// Parameters and their gradients in f32 beside the data of T.
template <class T>
void check_wide_batch_norm(const BatchNormSizes& s) {
  const std::int64_t count = s.batch * s.channels * s.plane;
  const auto x = random_array<T>(count), g = random_array<T>(count);
  const Stats<T> mean = random_array<Computed<T>>(s.channels), scale = random_array<Computed<T>>(s.channels, 0.1, 1);
  const Stats<T> w = random_array<Computed<T>>(s.channels), b = random_array<Computed<T>>(s.channels);
  auto y = garbage<T>(count), of_x = garbage<T>(count);
  Stats<T> of_w = garbage<Computed<T>>(s.channels), of_b = of_w;
  run_both<T>(&NnTable::batch_norm,
              BatchNormParams{s, x.device.data(), mean.device.data(), scale.device.data(), w.device.data(),
                              b.device.data(), y.device.data(), true},
              BatchNormParams{s, x.host.data(), mean.host.data(), scale.host.data(), w.host.data(), b.host.data(),
                              y.host.data()});
  EXPECT_TRUE(is_near(y, 1e-5));
  run_both<T>(&NnTable::batch_norm_grad,
              BatchNormGradParams{s, true, g.device.data(), x.device.data(), mean.device.data(), scale.device.data(),
                                  w.device.data(), of_x.device.data(), of_w.device.data(), of_b.device.data(), true},
              BatchNormGradParams{s, true, g.host.data(), x.host.data(), mean.host.data(), scale.host.data(),
                                  w.host.data(), of_x.host.data(), of_w.host.data(), of_b.host.data()});
  EXPECT_TRUE(is_near(of_x, 2e-5));
  EXPECT_TRUE(is_near(of_w, 2e-5));
  EXPECT_TRUE(is_near(of_b, 2e-5));
}

TEST(NnParityOfHalves, BatchNormByF32Parameters) {
  check_wide_batch_norm<Half>({2, 3, 8});
  check_wide_batch_norm<BFloat16>({2, 3, 5});
}

/// rows, length: a lane a row; a team a row; packs; several teams a column.
const std::vector<std::pair<std::int64_t, std::int64_t>> kRows{{5, 3}, {1, 1}, {4, 100}, {3, 520}, {300, 33}};

TYPED_TEST(NnParity, LayerNorm) {
  using T = typename TypeParam::Element;
  for (const auto& [rows, length] : some<TypeParam>(kRows)) {
    for (const bool affine : {false, true}) {
      const auto x = random_array<T>(rows * length, 2, 1), w = random_array<T>(length), b = random_array<T>(length);
      auto y = garbage<T>(rows * length);
      Stats<T> mean = garbage<Computed<T>>(rows), scale = mean;
      run_both<T>(
          &NnTable::layer_norm,
          LayerNormParams{rows, length, 1e-5, x.device.data(), affine ? w.device.data() : nullptr,
                          affine ? b.device.data() : nullptr, y.device.data(), mean.device.data(), scale.device.data()},
          LayerNormParams{rows, length, 1e-5, x.host.data(), affine ? w.host.data() : nullptr,
                          affine ? b.host.data() : nullptr, y.host.data(), mean.host.data(), scale.host.data()});
      EXPECT_TRUE(is_near(y, 2e-5));
      EXPECT_TRUE(is_near(mean, 2e-6));
      EXPECT_TRUE(is_near(scale, 2e-6));
    }
  }
}

template <class T>
void check_layer_norm_grad(std::int64_t rows, std::int64_t length, bool all) {
  const auto g = random_array<T>(rows * length), x = random_array<T>(rows * length);
  const auto w = random_array<T>(length, 0.1, 1);
  const Stats<T> mean = random_array<Computed<T>>(rows, 0.1), scale = random_array<Computed<T>>(rows, 0.1, 1);
  auto of_x = garbage<T>(rows * length), of_w = garbage<T>(length), of_b = garbage<T>(length);
  const auto params = [&](auto side) {
    return LayerNormGradParams{rows,
                               length,
                               side(g),
                               side(x),
                               side(mean),
                               side(scale),
                               all ? side(w) : nullptr,
                               const_cast<void*>(side(of_x)),
                               all ? const_cast<void*>(side(of_w)) : nullptr,
                               all ? const_cast<void*>(side(of_b)) : nullptr};
  };
  run_both<T>(&NnTable::layer_norm_grad,
              params([](const auto& a) { return static_cast<const void*>(a.device.data()); }),
              params([](const auto& a) { return static_cast<const void*>(a.host.data()); }));
  EXPECT_TRUE(is_near(of_x, 2e-5));
  EXPECT_TRUE(is_near(of_w, 2e-5));
  EXPECT_TRUE(is_near(of_b, 2e-5));
}

TYPED_TEST(NnParity, LayerNormGrad) {
  using T = typename TypeParam::Element;
  for (const auto& [rows, length] : some<TypeParam>(kRows)) {
    check_layer_norm_grad<T>(rows, length, true);
    check_layer_norm_grad<T>(rows, length, false);
  }
}

template <class T>
void check_wide_layer_norm(std::int64_t rows, std::int64_t length) {
  const auto x = random_array<T>(rows * length), g = random_array<T>(rows * length);
  const Stats<T> w = random_array<Computed<T>>(length), b = random_array<Computed<T>>(length);
  auto y = garbage<T>(rows * length), of_x = garbage<T>(rows * length);
  Stats<T> mean = garbage<Computed<T>>(rows), scale = mean, of_w = garbage<Computed<T>>(length), of_b = of_w;
  run_both<T>(&NnTable::layer_norm,
              LayerNormParams{rows, length, 1e-5, x.device.data(), w.device.data(), b.device.data(), y.device.data(),
                              mean.device.data(), scale.device.data(), true},
              LayerNormParams{rows, length, 1e-5, x.host.data(), w.host.data(), b.host.data(), y.host.data(),
                              mean.host.data(), scale.host.data()});
  EXPECT_TRUE(is_near(y, 2e-5));
  run_both<T>(
      &NnTable::layer_norm_grad,
      LayerNormGradParams{rows, length, g.device.data(), x.device.data(), mean.device.data(), scale.device.data(),
                          w.device.data(), of_x.device.data(), of_w.device.data(), of_b.device.data(), true},
      LayerNormGradParams{rows, length, g.host.data(), x.host.data(), mean.host.data(), scale.host.data(),
                          w.host.data(), of_x.host.data(), of_w.host.data(), of_b.host.data()});
  EXPECT_TRUE(is_near(of_x, 2e-5));
  EXPECT_TRUE(is_near(of_w, 2e-5));
  EXPECT_TRUE(is_near(of_b, 2e-5));
}

TEST(NnParityOfHalves, LayerNormByF32Parameters) {
  check_wide_layer_norm<Half>(5, 33);
  check_wide_layer_norm<BFloat16>(4, 8);
}

TEST(NnParityF32, GeluTanhGrad) {
  const auto x = random_array<float>(1000, 3), g = random_array<float>(1000);
  auto y = garbage<float>(1000);
  run_both<float>(&NnTable::gelu_tanh_grad, GeluGradParams{1000, g.device.data(), x.device.data(), y.device.data()},
                  GeluGradParams{1000, g.host.data(), x.host.data(), y.host.data()});
  EXPECT_TRUE(is_near(y, 1e-5));
}

/// outer, length, inner: a lane a line, a team a line, packs, neighbouring columns.
const std::vector<std::array<std::int64_t, 3>> kLines{{3, 10, 1},  {2, 301, 1}, {3, 520, 1},  {2, 5, 7},
                                                      {2, 100, 3}, {4, 1, 1},   {3000, 70, 3}};

/// With a line of -infinity, one with a NaN and one with some -infinity.
template <class T>
Both<T> scores(std::int64_t outer, std::int64_t length, std::int64_t inner) {
  Both<T> x = random_array<T>(outer * length * inner, 3);
  const double infinity = std::numeric_limits<double>::infinity();
  if (outer < 2) return x;
  x.set(0, -infinity);
  if (length > 2) x.set(static_cast<std::size_t>((length / 2) * inner), -infinity);
  for (std::int64_t i = 0; i < length; ++i) x.set(static_cast<std::size_t>((length + i) * inner), -infinity);
  if (outer > 2) x.set(static_cast<std::size_t>(2 * length * inner), std::numeric_limits<double>::quiet_NaN());
  return x;
}

TYPED_TEST(NnParity, SoftmaxAndItsLogarithm) {
  using T = typename TypeParam::Element;
  for (const auto& [outer, length, inner] : some<TypeParam>(kLines)) {
    const auto x = scores<T>(outer, length, inner);
    for (const auto row : {&NnTable::softmax, &NnTable::log_softmax}) {
      auto y = garbage<T>(outer * length * inner);
      run_both<T>(row, SoftmaxParams{outer, length, inner, x.device.data(), y.device.data()},
                  SoftmaxParams{outer, length, inner, x.host.data(), y.host.data()});
      EXPECT_TRUE(is_near(y, 2e-6)) << outer << ' ' << length << ' ' << inner;
    }
  }
}

TYPED_TEST(NnParity, SoftmaxGrads) {
  using T = typename TypeParam::Element;
  for (const auto& [outer, length, inner] : some<TypeParam>(kLines)) {
    const std::int64_t count = outer * length * inner;
    const auto y = random_array<T>(count, 0.3), g = random_array<T>(count);
    for (const auto row : {&NnTable::softmax_grad, &NnTable::log_softmax_grad}) {
      auto x = garbage<T>(count);
      run_both<T>(row, SoftmaxGradParams{outer, length, inner, g.device.data(), y.device.data(), x.device.data()},
                  SoftmaxGradParams{outer, length, inner, g.host.data(), y.host.data(), x.host.data()});
      EXPECT_TRUE(is_near(x, 2e-5));
    }
  }
}

/// batch, classes, inner: one team, several teams.
const std::vector<std::array<std::int64_t, 3>> kTargets{{6, 4, 1}, {2, 5, 3}, {0, 4, 1}, {9000, 3, 1}};

std::vector<std::int64_t> random_targets(std::int64_t count, std::int64_t classes) {
  std::vector<std::int64_t> targets(static_cast<std::size_t>(count));
  for (std::int64_t& t : targets) t = random_size(-1, classes - 1);  // -1 is ignored
  return targets;
}

template <class T>
void check_nll(const std::array<std::int64_t, 3>& s, bool weighted) {
  const auto x = random_array<T>(s[0] * s[1] * s[2], 1, -2), w = random_array<T>(s[1], 0.1, 1);
  const auto targets = random_targets(s[0] * s[2], s[1]);
  auto losses = garbage<T>(s[0] * s[2]), total = garbage<T>(1), total_weight = garbage<T>(1);
  NllParams device{s[0],
                   s[1],
                   s[2],
                   -1,
                   x.device.data(),
                   targets.data(),
                   weighted ? w.device.data() : nullptr,
                   losses.device.data(),
                   total.device.data(),
                   total_weight.device.data(),
                   0,
                   false};
  NllParams host{s[0],
                 s[1],
                 s[2],
                 -1,
                 x.host.data(),
                 targets.data(),
                 weighted ? w.host.data() : nullptr,
                 losses.host.data(),
                 total.host.data(),
                 total_weight.host.data(),
                 0,
                 false};
  run_both<T>(&NnTable::nll, device, host);
  EXPECT_TRUE(is_near(losses, 1e-6));
  EXPECT_TRUE(is_near(total, 2e-4));
  EXPECT_TRUE(is_near(total_weight, 2e-4));
}

TYPED_TEST(NnParity, Nll) {
  using T = typename TypeParam::Element;
  for (const auto& s : some<TypeParam>(kTargets)) {
    check_nll<T>(s, false);
    check_nll<T>(s, true);
  }
}

TEST(NnParityF32, NllOfABadTargetRaisesTheFlag) {
  const auto x = random_array<float>(6);
  const std::vector<std::int64_t> targets{0, 3};
  float total = 0, total_weight = 0;
  NllParams params{2, 3, 1, -100, x.device.data(), targets.data(), nullptr, nullptr, &total, &total_weight, 0, false};
  EXPECT_FALSE(test::took_flag());
  emulated_nn().nll[slot<float>()](params);
  EXPECT_TRUE(test::took_flag());
  EXPECT_FALSE(params.failed);
}

TYPED_TEST(NnParity, NllGrad) {
  using T = typename TypeParam::Element;
  for (const auto& [batch, classes, inner] : some<TypeParam>(kTargets)) {
    for (const bool shared : {false, true}) {
      const auto g = random_array<T>(batch * inner + 1), w = random_array<T>(classes),
                 divisor = random_array<T>(1, 1, 9);
      const auto targets = random_targets(batch * inner, classes);
      auto x = garbage<T>(batch * classes * inner);
      run_both<T>(&NnTable::nll_grad,
                  NllGradParams{batch, classes, inner, -1, shared, g.device.data(), targets.data(), w.device.data(),
                                shared ? divisor.device.data() : nullptr, x.device.data()},
                  NllGradParams{batch, classes, inner, -1, shared, g.host.data(), targets.data(), w.host.data(),
                                shared ? divisor.host.data() : nullptr, x.host.data()});
      EXPECT_TRUE(is_near(x, 1e-6));
    }
  }
}

// Coverage.

struct Slots {
  int cpu = 0, both = 0, more = 0;

  template <class Kernel>
  void count(const std::array<Kernel, kDTypeCount>& device, const std::array<Kernel, kDTypeCount>& host) {
    for (std::size_t i = 0; i < device.size(); ++i) {
      cpu += host[i] != nullptr;
      both += host[i] != nullptr && device[i] != nullptr;
      more += host[i] == nullptr && device[i] != nullptr;
    }
  }
};

TEST(NnParityCoverage, FillsWhatTheCpuFills) {
  const NnTable &a = emulated_nn(), &b = cpu_nn();
  Slots s;
  const auto both = [&](auto... rows) { (s.count(a.*rows, b.*rows), ...); };
  both(&NnTable::conv2d, &NnTable::conv2d_input_grad, &NnTable::conv2d_weight_grad, &NnTable::max_pool2d,
       &NnTable::max_pool2d_2x2, &NnTable::scatter_picked, &NnTable::gather_picked, &NnTable::avg_pool2d,
       &NnTable::avg_pool2d_grad, &NnTable::adaptive_avg_pool2d, &NnTable::adaptive_avg_pool2d_grad);
  both(&NnTable::batch_stats, &NnTable::batch_norm, &NnTable::batch_norm_grad, &NnTable::layer_norm,
       &NnTable::layer_norm_grad, &NnTable::layer_norm_long, &NnTable::layer_norm_long_grad, &NnTable::gelu_tanh_grad);
  both(&NnTable::attention, &NnTable::attention_grad, &NnTable::softmax, &NnTable::log_softmax, &NnTable::softmax_grad,
       &NnTable::log_softmax_grad, &NnTable::nll, &NnTable::nll_grad);
  std::printf("neural-network slots: %d of the %d that the CPU fills, and %d more\n", s.both, s.cpu, s.more);
  EXPECT_EQ(s.both, s.cpu);
}

}  // namespace
}  // namespace core::parity

// The emulated CUDA pooling against the CPU's.
#include <limits>

#include "tests/libcore/backend/cuda/nn_parity.h"

namespace core::parity {
namespace {

template <class Kind>
class PoolParity : public Parity<Kind> {};
TYPED_TEST_SUITE(PoolParity, FloatingTypes);

/// planes, height, width, kernel, stride, padding, dilation of both dimensions.
Pool2dSizes pool(std::int64_t planes, std::int64_t h, std::int64_t w, std::int64_t k, std::int64_t stride,
                 std::int64_t pad, std::int64_t dilation = 1) {
  Pool2dSizes s{planes, h, w, 0, 0, k, k, stride, stride, pad, pad, dilation, dilation};
  s.out_h = (h + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
  s.out_w = (w + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
  return s;
}

std::vector<Pool2dSizes> shapes() {
  std::vector<Pool2dSizes> all{pool(3, 7, 9, 3, 2, 1), pool(2, 6, 8, 2, 2, 0), pool(1, 5, 5, 3, 1, 1),
                               pool(2, 11, 10, 3, 2, 1, 2), pool(4, 1, 1, 1, 1, 0)};
  Pool2dSizes beyond = pool(2, 7, 7, 3, 2, 1);  // ceil_mode: the last windows reach over the border
  beyond.out_h = beyond.out_w = 5;
  beyond.in_h = beyond.in_w = 8;
  all.push_back(beyond);
  return all;
}

std::int64_t in_count(const Pool2dSizes& s) {
  return s.planes * s.in_h * s.in_w;
}
std::int64_t out_count(const Pool2dSizes& s) {
  return s.planes * s.out_h * s.out_w;
}

template <class T>
struct Largest {
  Both<T> values;
  std::vector<std::int64_t> device_indices, host_indices;
};
template <class T>
Largest<T> largest(KernelRow<MaxPool2dParams> NnTable::*row, const Pool2dSizes& s, const Both<T>& x) {
  const auto count = static_cast<std::size_t>(out_count(s));
  Largest<T> out{garbage<T>(out_count(s)), std::vector<std::int64_t>(count), std::vector<std::int64_t>(count)};
  run_both<T>(row, MaxPool2dParams{s, x.device.data(), out.values.device.data(), out.device_indices.data()},
              MaxPool2dParams{s, x.host.data(), out.values.host.data(), out.host_indices.data()});
  return out;
}

/// Few different numbers, so that equal ones meet in a window, and here and there NaN or an infinity.
template <class T>
Both<T> rough_array(std::int64_t count) {
  Both<T> x(count);
  for (std::size_t i = 0; i < x.device.size(); ++i) x.set(i, static_cast<double>(random_size(-3, 3)));
  for (std::size_t i = 5; i < x.device.size(); i += 31) x.set(i, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 8; i < x.device.size(); i += 17) x.set(i, -std::numeric_limits<double>::infinity());
  return x;
}

TYPED_TEST(PoolParity, MaxAndItsPlace) {
  using T = typename TypeParam::Element;
  for (const Pool2dSizes& s : some<TypeParam>(shapes())) {
    const auto found = largest(&NnTable::max_pool2d, s, rough_array<T>(in_count(s)));
    EXPECT_TRUE(is_near(found.values, 0));
    EXPECT_EQ(found.device_indices, found.host_indices);
  }
}

TYPED_TEST(PoolParity, MaxOfTheUsualWindows) {
  using T = typename TypeParam::Element;
  const Pool2dSizes s = pool(3, 7, 12, 2, 2, 0);
  const auto x = rough_array<T>(in_count(s));
  auto found = largest(&NnTable::max_pool2d, s, x);
  auto special = garbage<T>(out_count(s));
  std::vector<std::int64_t> indices(found.device_indices.size());
  emulated_nn().max_pool2d_2x2[slot<T>()]({s, x.device.data(), special.device.data(), indices.data()});
  special.host = found.values.host;
  EXPECT_TRUE(is_near(special, 0));
  EXPECT_EQ(indices, found.host_indices);
}

TYPED_TEST(PoolParity, ScatterAddsInOrder) {
  using T = typename TypeParam::Element;
  for (const Pool2dSizes& s : some<TypeParam>(shapes())) {
    const auto found = largest(&NnTable::max_pool2d, s, random_array<T>(in_count(s)));
    const auto grad = random_array<T>(out_count(s));
    auto out = garbage<T>(in_count(s));
    const PickParams sizes{s.planes, s.in_h * s.in_w, s.out_h * s.out_w, found.host_indices.data(), nullptr, nullptr};
    PickParams device = sizes, host = sizes;
    device.in = grad.device.data(), device.out = out.device.data();
    host.in = grad.host.data(), host.out = out.host.data();
    run_both<T>(&NnTable::scatter_picked, device, host);
    EXPECT_TRUE(is_near(out, sizeof(T) >= 4 ? 0 : 2e-2));
  }
}

/// A plane that is too large for the memory that a team shares.
TEST(PoolParityLarge, ScattersToOnePlace) {
  const std::vector<std::int64_t> indices(300, 19999);
  const auto values = random_array<float>(300);
  auto out = garbage<float>(20000);
  run_both<float>(&NnTable::scatter_picked,
                  PickParams{1, 20000, 300, indices.data(), values.device.data(), out.device.data()},
                  PickParams{1, 20000, 300, indices.data(), values.host.data(), out.host.data()});
  EXPECT_TRUE(is_near(out, 0));
}

TYPED_TEST(PoolParity, Gather) {
  using T = typename TypeParam::Element;
  const auto x = random_array<T>(3 * 20);
  std::vector<std::int64_t> indices(3 * 7);
  for (std::int64_t& i : indices) i = random_size(0, 19);
  auto out = garbage<T>(3 * 7);
  run_both<T>(&NnTable::gather_picked, PickParams{3, 20, 7, indices.data(), x.device.data(), out.device.data()},
              PickParams{3, 20, 7, indices.data(), x.host.data(), out.host.data()});
  EXPECT_TRUE(is_near(out, 0));
}

TYPED_TEST(PoolParity, AverageAndItsGrad) {
  using T = typename TypeParam::Element;
  for (const Pool2dSizes& s : some<TypeParam>(shapes())) {
    if (s.dilation_h != 1) continue;
    for (const std::int64_t divisor : {0, 5}) {
      for (const bool count_pad : {false, true}) {
        const auto x = random_array<T>(in_count(s)), g = random_array<T>(out_count(s));
        auto y = garbage<T>(out_count(s)), of_x = garbage<T>(in_count(s));
        run_both<T>(&NnTable::avg_pool2d, AvgPool2dParams{s, count_pad, divisor, x.device.data(), y.device.data()},
                    AvgPool2dParams{s, count_pad, divisor, x.host.data(), y.host.data()});
        EXPECT_TRUE(is_near(y, 1e-6));
        run_both<T>(&NnTable::avg_pool2d_grad,
                    AvgPool2dParams{s, count_pad, divisor, g.device.data(), of_x.device.data()},
                    AvgPool2dParams{s, count_pad, divisor, g.host.data(), of_x.host.data()});
        EXPECT_TRUE(is_near(of_x, 1e-6));
      }
    }
  }
}

TYPED_TEST(PoolParity, AdaptiveAverageAndItsGrad) {
  using T = typename TypeParam::Element;
  const std::int64_t sizes[][4] = {{7, 7, 1, 1}, {7, 9, 3, 4}, {5, 6, 5, 6}, {3, 4, 7, 9}, {20, 20, 2, 1}};
  for (const auto& s : sizes) {
    const std::int64_t planes = 3, in = planes * s[0] * s[1], out = planes * s[2] * s[3];
    const auto x = random_array<T>(in), g = random_array<T>(out);
    auto y = garbage<T>(out), of_x = garbage<T>(in);
    const auto params = [&](const void* from, void* to) {
      return AdaptivePool2dParams{planes, s[0], s[1], s[2], s[3], from, to};
    };
    run_both<T>(&NnTable::adaptive_avg_pool2d, params(x.device.data(), y.device.data()),
                params(x.host.data(), y.host.data()));
    EXPECT_TRUE(is_near(y, 1e-5));
    run_both<T>(&NnTable::adaptive_avg_pool2d_grad, params(g.device.data(), of_x.device.data()),
                params(g.host.data(), of_x.host.data()));
    EXPECT_TRUE(is_near(of_x, 1e-5));
  }
}

}  // namespace
}  // namespace core::parity

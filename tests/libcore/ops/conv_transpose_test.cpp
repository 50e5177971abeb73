// Transposed convolutions whose output_padding is a stride and longer, which a dilation allows, beside PyTorch 2.15's
// results for the same small integers.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;

/// Each of `rank` dimensions alike. Sums weighted by place: of the result, the gradients of image, weight and bias, and
/// of image and weight once more for the sum of their squares.
struct Row {
  std::size_t rank;
  std::int64_t batch, in, out, size, kernel, stride, padding, output_padding, dilation, groups, result;
  std::array<double, 6> sums;
};

std::vector<Row> rows() {
  return {
      {1, 1, 2, 2, 3, 2, 1, 0, 1, 2, 1, 6, {54, 3, 41, 0, -192, -128}},
      {1, 2, 2, 2, 3, 2, 1, 1, 2, 3, 1, 6, {240, 80, -12, 3, -612, -808}},
      {1, 2, 3, 2, 3, 2, 2, 0, 2, 3, 1, 10, {275, 47, 270, 0, -696, 1240}},
      {1, 1, 2, 2, 3, 2, 2, 1, 3, 4, 1, 10, {17, 26, 14, 0, -516, -272}},
      {1, 1, 2, 4, 3, 2, 1, 0, 2, 3, 2, 8, {345, 6, -159, 0, -98, 738}},
      {1, 2, 2, 2, 3, 2, 3, 1, 2, 3, 1, 10, {120, 18, -194, 0, -3488, -656}},
      {2, 1, 2, 2, 3, 2, 1, 0, 1, 2, 1, 6, {429, -114, -9, 0, -676, -2054}},
      {2, 2, 2, 2, 3, 2, 1, 1, 2, 3, 1, 6, {602, -199, -469, 3, -7030, 966}},
      {2, 2, 3, 2, 3, 2, 2, 0, 2, 3, 1, 10, {1259, -169, 920, 0, -1816, -3792}},
      {2, 1, 2, 2, 3, 2, 2, 1, 3, 4, 1, 10, {474, -315, 608, 0, -8988, 1456}},
      {2, 1, 2, 4, 3, 2, 1, 0, 2, 3, 2, 8, {2851, -241, -88, -5, -1220, 984}},
      {2, 2, 2, 2, 3, 2, 3, 1, 2, 3, 1, 10, {1128, 465, -21, 0, 1736, 2080}},
      {3, 1, 2, 2, 3, 2, 1, 0, 1, 2, 1, 6, {-109, -380, 87, 0, -25368, -12816}},
      {3, 2, 2, 2, 3, 2, 1, 1, 2, 3, 1, 6, {4290, -154, 1527, 3, 8312, -17730}},
      {3, 2, 3, 2, 3, 2, 2, 0, 2, 3, 1, 10, {11781, -85, 561, 0, 26144, 20232}},
      {3, 1, 2, 2, 3, 2, 2, 1, 3, 4, 1, 10, {5664, -202, 1375, 0, -34792, -3318}},
      {3, 1, 2, 4, 3, 2, 1, 0, 2, 3, 2, 8, {17768, 55, -55, -5, 328, 6720}},
      {3, 2, 2, 2, 3, 2, 3, 1, 2, 3, 1, 10, {12456, 764, -27, 0, -26892, -15380}},
      {2, 1, 1, 1, 1, 1, 1, 2, 5, 6, 1, 2, {0, 0, 0, 0, 0, 0}},
      {1, 1, 1, 1, 1, 1, 1, 2, 5, 6, 1, 2, {0, 0, 0, -1, 0, 0}},
      {2, 2, 16, 32, 4, 3, 1, 0, 1, 2, 1, 9, {482245, -359, -1106, 33, 405618, -29852}},
      {2, 2, 32, 16, 4, 3, 2, 1, 3, 4, 1, 16, {369414, 1683, -520, -16, 391090, 272432}},
  };
}

Tensor modulo(const Tensor& x, std::int64_t by) {
  return core::remainder(x, core::full_like(x, by));
}
/// i * factor % modulus - less.
Tensor numbers(const Shape& sizes, std::int64_t factor, std::int64_t modulus, std::int64_t less) {
  return (modulo(core::arange(sizes.numel()) * factor, modulus) - less).to(DType::f64).reshape(sizes);
}
double weighted(const Tensor& x) {
  const Tensor places = modulo(core::arange(x.numel()) + 1, 13).to(DType::f64);
  return (places * x.detach().to(DType::f64).flatten()).sum().item<double>();
}
Shape cube(std::int64_t first, std::int64_t second, std::int64_t size, std::size_t rank) {
  Shape sizes{first, second};
  for (std::size_t i = 0; i < rank; ++i) sizes.push_back(size);
  return sizes;
}

struct Operands {
  Tensor x, weight, bias;
  core::ConvTransposeOptions options;
  std::size_t rank;

  Operands(const Row& r, DType dtype)
      : x(numbers(cube(r.batch, r.in, r.size, r.rank), 7, 11, 5).to(dtype).requires_grad_()),
        weight(numbers(cube(r.in, r.out / r.groups, r.kernel, r.rank), 5, 7, 3).to(dtype).requires_grad_()),
        bias(core::arange(r.out).to(dtype).requires_grad_()),
        options{.stride = {r.stride},
                .padding = {r.padding},
                .output_padding = {r.output_padding},
                .groups = r.groups,
                .dilation = {r.dilation}},
        rank(r.rank) {}
  Tensor result() const {
    if (rank == 1) return core::conv_transpose1d(x, weight, bias, options);
    return rank == 2 ? core::conv_transpose2d(x, weight, bias, options)
                     : core::conv_transpose3d(x, weight, bias, options);
  }
};

std::string text(const Row& r) {
  return std::to_string(r.rank) + "D, stride " + std::to_string(r.stride) + ", padding " + std::to_string(r.padding) +
         ", output_padding " + std::to_string(r.output_padding) + ", dilation " + std::to_string(r.dilation);
}

class ConvTranspose : public testing::TestWithParam<DType> {};

TEST_P(ConvTranspose, OutputPaddingOfAStrideAndMoreHasPyTorchsNumbers) {
  for (const Row& r : rows()) {
    const Operands a(r, GetParam());
    const Tensor y = a.result();
    ASSERT_EQ(y.sizes(), cube(r.batch, r.out, r.result, r.rank)) << text(r);
    const Tensor upstream = numbers(y.sizes(), 3, 5, 2).to(GetParam());
    const std::vector<Tensor> grads =
        core::grad({y}, {a.x, a.weight, a.bias}, {.grad_outputs = {upstream}, .create_graph = true});
    const Tensor squares = core::square(grads[0]).sum() + core::square(grads[1]).sum();
    const std::vector<Tensor> second = core::grad({squares}, {a.x, a.weight});
    const std::array<Tensor, 6> found = {y, grads[0], grads[1], grads[2], second[0], second[1]};
    for (std::size_t i = 0; i < found.size(); ++i) {
      // Sums of integers: exact in f64, and but for kernels that transform images in f32.
      const double room = GetParam() == DType::f64 ? 0 : 1e-5 * weighted(found[i].abs());
      EXPECT_NEAR(weighted(found[i]), r.sums[i], room) << text(r) << ", sum " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ConvTranspose, testing::Values(DType::f32, DType::f64));

TEST(ConvTransposeNarrow, OutputPaddingOfAStrideAndMore) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Row& r : rows()) {
      const Operands narrow(r, dtype), exact(r, DType::f64);
      const Tensor found = narrow.result(), wanted = exact.result();
      EXPECT_TRUE(core::allclose(found.detach().to(DType::f64), wanted.detach(), {.rtol = 1e-2, .atol = 1e-2}))
          << text(r);
      found.sum().backward();
      wanted.sum().backward();
      EXPECT_TRUE(core::allclose(narrow.x.grad().to(DType::f64), exact.x.grad(), {.rtol = 1e-2, .atol = 1e-2}))
          << text(r);
    }
  }
}

TEST(ConvTransposeErrors, OutputPaddingIsSmallerThanStrideOrDilation) {
  const Tensor x = core::ones({1, 2, 3, 3}), weight = core::ones({2, 2, 2, 2});
  EXPECT_EQ(test::message_of([&] { core::conv_transpose2d(x, weight, {}, {.output_padding = {2}, .dilation = {2}}); }),
            "output padding must be smaller than either stride or dilation, but got output_padding_height: 2 "
            "output_padding_width: 2 stride_height: 1 stride_width: 1 dilation_height: 2 dilation_width: 2");
}

}  // namespace

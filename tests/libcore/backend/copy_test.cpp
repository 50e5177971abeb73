// Copies of turned tensors: where rows of the input become columns, squares of them are transposed together.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "libcore/backend/threads.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::DType;
using core::Tensor;

/// Each element is its own number, so one in a wrong place shows.
Tensor numbered(const core::Shape& sizes, DType dtype) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return core::arange(count).to(dtype).view(sizes);
}

/// The number at each place of `turned`, read one by one.
void expect_in_place(const Tensor& turned) {
  const Tensor dense = turned.contiguous();
  ASSERT_EQ(dense.sizes(), turned.sizes());
  for (std::int64_t i = 0; i < turned.size(0); ++i) {
    for (std::int64_t j = 0; j < turned.size(1); ++j) {
      for (std::int64_t k = 0; k < turned.size(2); ++k) {
        const double wanted = turned.select(0, i).select(0, j).select(0, k).to(DType::f64).item<double>();
        ASSERT_EQ(dense.select(0, i).select(0, j).select(0, k).to(DType::f64).item<double>(), wanted)
            << i << " " << j << " " << k;
      }
    }
  }
}

class TurnedCopy : public testing::TestWithParam<DType> {};

TEST_P(TurnedCopy, PutsEveryElementInItsPlace) {
  for (const core::Shape& sizes : {core::Shape{3, 4, 4}, {2, 9, 7}, {5, 3, 8}, {1, 16, 5}, {4, 11, 6}}) {
    const Tensor x = numbered(sizes, GetParam());
    expect_in_place(x.transpose(1, 2));
    expect_in_place(x.permute({2, 0, 1}));
    expect_in_place(x.permute({2, 1, 0}));
    expect_in_place(x.transpose(1, 2).slice(2, 1, sizes[1]));
    expect_in_place(x.permute({2, 1, 0}).slice(0, 0, sizes[2], 2));
  }
}

TEST_P(TurnedCopy, WritesNoNeighbourOfAView) {
  const Tensor x = numbered({9, 7}, GetParam()), whole = core::zeros({12, 12}, {.dtype = GetParam()});
  whole.slice(0, 2, 9).slice(1, 1, 10).copy_(x.t());
  EXPECT_TRUE(whole.slice(0, 2, 9).slice(1, 1, 10).equal(x.t()));
  EXPECT_EQ((whole != 0).sum().item<std::int64_t>(), 62);  // of 63 numbers one is 0
}

TEST_P(TurnedCopy, IsTheSameOnSeveralThreads) {
  const Tensor x = numbered({301, 403}, GetParam());
  const core::ThreadLimitGuard three(3);
  const Tensor back = x.t().contiguous().t().contiguous();
  EXPECT_TRUE(back.equal(x));
}

INSTANTIATE_TEST_SUITE_P(Types, TurnedCopy, testing::Values(DType::i16, DType::f32, DType::f64, DType::i64));

TEST(TurnedCopyOfFloats, KeepsTheBitsOfNaN) {
  const Tensor x = core::zeros({5, 6});
  const std::uint32_t bits = 0x7FA12345U;  // a signalling one
  std::memcpy(static_cast<float*>(x.mutable_raw_data()) + 7, &bits, sizeof bits);
  const Tensor turned = x.t().contiguous();
  std::uint32_t found = 0;
  std::memcpy(&found, static_cast<const float*>(turned.raw_data()) + 1 * 5 + 1, sizeof found);
  EXPECT_EQ(found, bits);
}

}  // namespace

#include "libckpt/analyze/tensor_text.h"

#include <gtest/gtest.h>

#include "libckpt/analyze/npy_header.h"
#include "libckpt/transform/slice_tensor.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

namespace {

ckpt::Entry shaped(const std::vector<float>& values, core::Shape shape) {
  ckpt::Entry entry = test::float_entry(values);
  entry.shape = std::move(shape);
  return entry;
}

template <class T>
ckpt::Entry typed(core::DType dtype, const std::vector<T>& values, core::Shape shape) {
  ckpt::Entry entry;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  core::ByteVector raw;
  for (T value : values) core::append_le(raw, value);
  entry.bytes = ckpt::memory_source(std::move(raw));
  return entry;
}

std::string sliced_text(const ckpt::Entry& entry, const std::string& spec) {
  return ckpt::tensor_text(*ckpt::sliced(entry, spec));
}

}  // namespace

TEST(TensorText, PrintsFloatsAsPyTorchDoes) {
  EXPECT_EQ(ckpt::tensor_text(shaped({1, 2.5F, -3}, {3})), "tensor([ 1.0000,  2.5000, -3.0000])");
  EXPECT_EQ(ckpt::tensor_text(shaped({1, 2}, {2})), "tensor([1., 2.])");
  EXPECT_EQ(ckpt::tensor_text(shaped({1e-5F, 1}, {2})), "tensor([1.0000e-05, 1.0000e+00])");
  EXPECT_EQ(ckpt::tensor_text(shaped({2.5F}, {})), "tensor(2.5000)");
}

TEST(TensorText, PrintsMatrices) {
  EXPECT_EQ(ckpt::tensor_text(shaped({1, 2, 3, 4}, {2, 2})), "tensor([[1., 2.],\n        [3., 4.]])");
}

TEST(TensorText, NamesOtherDtypes) {
  EXPECT_EQ(ckpt::tensor_text(typed<std::int64_t>(core::DType::i64, {1, -20}, {2})), "tensor([  1, -20])");
  EXPECT_EQ(ckpt::tensor_text(typed<std::int32_t>(core::DType::i32, {7}, {1})), "tensor([7], dtype=torch.int32)");
  EXPECT_EQ(ckpt::tensor_text(typed<std::uint8_t>(core::DType::boolean, {1, 0}, {2})), "tensor([ True, False])");
  EXPECT_EQ(ckpt::tensor_text(typed<float>(core::DType::c64, {1, -2}, {1})), "tensor([1.-2.j])");
}

TEST(TensorText, KeepsAll64Bits) {
  EXPECT_EQ(ckpt::tensor_text(typed<std::int64_t>(core::DType::i64, {9'007'199'254'740'993}, {1})),
            "tensor([9007199254740993])");
}

TEST(TensorText, ShowsTheEdgesOfLargeTensors) {
  std::vector<float> values(2000, 1.0F);
  values[0] = 2;
  EXPECT_EQ(ckpt::tensor_text(shaped(values, {2000})), "tensor([2., 1., 1.,  ..., 1., 1., 1.])");
}

TEST(TensorText, PrintsEmptyOnes) {
  EXPECT_EQ(ckpt::tensor_text(shaped({}, {0})), "tensor([])");
  EXPECT_EQ(ckpt::tensor_text(shaped({}, {2, 0})), "tensor([], size=(2, 0))");
}

TEST(Slice, TakesRangesAndIndexes) {
  ckpt::Entry entry = shaped({0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_EQ(sliced_text(entry, "1"), "tensor([3., 4., 5.])");
  EXPECT_EQ(sliced_text(entry, ":, -1"), "tensor([2., 5.])");
  EXPECT_EQ(sliced_text(entry, "0:1, ::2"), "tensor([[0., 2.]])");
  EXPECT_EQ(sliced_text(entry, "1,1"), "tensor(4.)");
  EXPECT_EQ(sliced_text(entry, "5:9"), "tensor([], size=(0, 3))");
  EXPECT_EQ(sliced_text(entry, "-9:1"), "tensor([[0., 1., 2.]])");
}

TEST(Slice, SaysWhatIsWrong) {
  ckpt::Entry entry = shaped({0, 1}, {2});
  auto code = [&](const std::string& spec) {
    try {
      ckpt::sliced(entry, spec);
    } catch (const core::Error& error) {
      return error.code();
    }
    return core::ErrorCode::internal;
  };
  EXPECT_EQ(code("x"), core::ErrorCode::usage);
  EXPECT_EQ(code(""), core::ErrorCode::usage);
  EXPECT_EQ(code("::-1"), core::ErrorCode::usage);
  EXPECT_EQ(code("0:1:2:3"), core::ErrorCode::usage);
  EXPECT_EQ(code("2"), core::ErrorCode::value);
  EXPECT_EQ(code("0,0"), core::ErrorCode::value);
}

TEST(NpyHeader, IsWhatNumpyWrites) {
  std::string header = ckpt::npy_header(shaped({1, 2, 3, 4, 5, 6}, {2, 3}));
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(header.substr(0, 6), "\x93NUMPY");
  EXPECT_THAT(header, testing::HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  EXPECT_EQ(header.back(), '\n');
}

TEST(NpyHeader, RefusesTypesThatNumpyLacks) {
  EXPECT_THROW(ckpt::npy_header(typed<std::uint16_t>(core::DType::bf16, {1}, {1})), core::Error);
}

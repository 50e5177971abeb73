// Operations on halves through the tensor layer: by the device's own kernels where it has some (here those of CUDA
// devices, run on the host), with the results of the CPU, which goes through f32.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "libcore/backend/backend.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/element_types.h"
#include "libcore/backend/op_tables.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::DType;
using core::Tensor;

struct Tables {
  core::ElementwiseTable elementwise;
  core::ReductionTable reduction;
  core::CopyTable copy;
  core::OpTables all;
  Tables() {
    core::emulated_kernels::fill_elementwise(elementwise);
    core::emulated_kernels::fill_compare(elementwise);
    core::emulated_kernels::fill_ternary(elementwise);
    core::emulated_kernels::fill_reductions(reduction);
    core::emulated_kernels::fill_scans(reduction);
    core::emulated_kernels::fill_copies(copy);
    for (auto& row : copy.convert) row[static_cast<std::size_t>(DType::f32)] = nullptr;  // widening would show
    all.elementwise = &elementwise;
    all.reduction = &reduction;
    all.copy = &copy;
  }
};

/// Host memory and the kernels of CUDA devices, but none that widens to f32.
class HalfBackend : public core::Backend {
 public:
  explicit HalfBackend(const core::OpTables& tables) : core::Backend(core::Device(), tables) {}
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(64, (bytes + 64) / 64 * 64); }
  void free(void* data, std::size_t) noexcept override { std::free(data); }
  void copy_from_host(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_to_host(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy_within(void* to, const void* from, std::size_t bytes) override { std::memmove(to, from, bytes); }
  void fill_zero(void* to, std::size_t bytes) override { std::memset(to, 0, bytes); }
  void synchronize() override {}
  void* allocate_pinned(std::size_t bytes) override { return allocate(bytes); }
  void free_pinned(void* data, std::size_t bytes) noexcept override { free(data, bytes); }
};

HalfBackend& device() {
  static auto* tables = new Tables;
  static auto* backend = new HalfBackend(tables->all);
  return *backend;
}

/// (6, 5), some values the same.
Tensor numbers(DType dtype, int seed) {
  std::vector<double> values;
  for (int i = 0; i < 30; ++i) values.push_back((i * seed % 17 - 8) / 4.0);
  return core::raw::cast(core::raw::view(core::from_values(values), {6, 5}, {5, 1}, 0), dtype);
}

/// The same elements on the device. REQUIRES: contiguous.
Tensor on_device(const Tensor& x) {
  const Tensor moved = core::raw::make(x.sizes(), x.dtype(), device());
  std::memcpy(moved.mutable_raw_data(), x.raw_data(),
              static_cast<std::size_t>(x.numel()) * core::element_bytes(x.dtype()));
  return moved;
}

/// All elements, in memory.
std::vector<double> values_of(const Tensor& x) {
  Tensor plain = core::raw::make(x.sizes(), x.dtype(), core::raw::backend_of(core::ones({1})));
  std::memcpy(plain.mutable_raw_data(), x.raw_data(),
              static_cast<std::size_t>(x.numel()) * core::element_bytes(x.dtype()));
  plain = core::raw::cast(plain, DType::f64);
  const double* data = plain.data<double>();
  return {data, data + plain.numel()};
}

void expect_same(const Tensor& expected, const Tensor& actual) {
  ASSERT_EQ(expected.sizes(), actual.sizes());
  EXPECT_EQ(expected.dtype(), actual.dtype());
  EXPECT_EQ(values_of(expected), values_of(actual));
}

class CudaHalfOps : public testing::TestWithParam<DType> {
 protected:
  Tensor a = numbers(GetParam(), 5), b = numbers(GetParam(), 7), c = numbers(GetParam(), 11);
  Tensor x = on_device(a), y = on_device(b), z = on_device(c);
};

TEST_P(CudaHalfOps, ElementWiseWithoutWidening) {
  using namespace core::raw;
  expect_same(unary(core::UnaryOp::sigmoid, a), unary(core::UnaryOp::sigmoid, x));
  expect_same(predicate(core::PredicateOp::logical_not, a), predicate(core::PredicateOp::logical_not, x));
  expect_same(binary(core::BinaryOp::mul, a, b), binary(core::BinaryOp::mul, x, y));
  expect_same(compare(core::CompareOp::lt, a, b), compare(core::CompareOp::lt, x, y));
  expect_same(ternary(core::TernaryOp::addcmul, a, b, c, 2), ternary(core::TernaryOp::addcmul, x, y, z, 2));
}

TEST_P(CudaHalfOps, InPlaceWithoutWidening) {
  core::raw::binary_in_place(core::BinaryOp::sub, a, b);
  core::raw::binary_in_place(core::BinaryOp::sub, x, y);
  expect_same(a, x);
}

TEST_P(CudaHalfOps, ReductionsAndScansWithoutWidening) {
  using namespace core::raw;
  expect_same(reduce(core::ReduceOp::sum, a, {.dims = {0}}, {}), reduce(core::ReduceOp::sum, x, {.dims = {0}}, {}));
  expect_same(reduce(core::ReduceOp::argmax, a, {.dims = {1}}, {}),
              reduce(core::ReduceOp::argmax, x, {.dims = {1}}, {}));
  const auto expected = reduce_with_indices(core::ReduceOp::min, a, 1, false);
  const auto actual = reduce_with_indices(core::ReduceOp::min, x, 1, false);
  expect_same(expected.values, actual.values);
  expect_same(expected.indices, actual.indices);
  expect_same(scan(core::ScanOp::cumsum, a, 1), scan(core::ScanOp::cumsum, x, 1));
}

INSTANTIATE_TEST_SUITE_P(Halves, CudaHalfOps, testing::Values(DType::f16, DType::bf16));

}  // namespace

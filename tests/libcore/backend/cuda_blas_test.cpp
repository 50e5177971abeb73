// Matrix products of CUDA devices against a stand-in for cuBLAS that computes column-major products as defined.
#include "libcore/backend/cuda/cuda_blas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/cuda_math.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/streams.h"
#include "libcore/base/error.h"
#include "libcore/base/half.h"
#include "tests/libcore/backend/cuda_fake.h"
#include "tests/support/message_of.h"

namespace {

using core::DType;
using core::GemmParams;
using core::gpu::BlasApi;
using core::gpu::BlasCompute;
using core::gpu::BlasOperation;
using core::gpu::BlasProduct;
using core::gpu::BlasType;
using testing::ElementsAre;

// --- The stand-in

struct Log {
  int products = 0, lt_products = 0, choices = 0, workspaces = 0;
  BlasCompute compute{};
  BlasType type{};
  int status = 0, lt_status = 0;
  bool knows_a_way = true;
  std::function<void()> while_lt = {};
  std::function<int()> while_made = {};
} seen;

double load(const void* data, std::int64_t at, BlasType type) {
  switch (type) {
    case BlasType::f64:
      return static_cast<const double*>(data)[at];
    case BlasType::f16:
      return core::f16_to_f32(static_cast<const std::uint16_t*>(data)[at]);
    case BlasType::bf16:
      return core::bf16_to_f32(static_cast<const std::uint16_t*>(data)[at]);
    default:
      return static_cast<const float*>(data)[at];
  }
}

void store(void* data, std::int64_t at, BlasType type, double value) {
  switch (type) {
    case BlasType::f64:
      static_cast<double*>(data)[at] = value;
      break;
    case BlasType::f16:
      static_cast<std::uint16_t*>(data)[at] = core::f64_to_f16(value);
      break;
    case BlasType::bf16:
      static_cast<std::uint16_t*>(data)[at] = core::f32_to_bf16(static_cast<float>(value));
      break;
    default:
      static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

struct Naive {
  BlasOperation op_a, op_b;
  std::int64_t m, n, k;
  const void* a;
  std::int64_t lda;
  const void* b;
  std::int64_t ldb;
  void* c;
  std::int64_t ldc;
  BlasType type;
  double alpha, beta;
  std::int64_t at_a = 0, at_b = 0, at_c = 0;
  const void* bias = nullptr;
};

/// Column-major, as cuBLAS defines it; a bias is one number for each row.
void compute(const Naive& p) {
  for (std::int64_t column = 0; column < p.n; ++column) {
    for (std::int64_t row = 0; row < p.m; ++row) {
      double sum = 0;
      for (std::int64_t i = 0; i < p.k; ++i) {
        const std::int64_t in_a = p.op_a == BlasOperation::none ? row + i * p.lda : i + row * p.lda;
        const std::int64_t in_b = p.op_b == BlasOperation::none ? i + column * p.ldb : column + i * p.ldb;
        sum += load(p.a, p.at_a + in_a, p.type) * load(p.b, p.at_b + in_b, p.type);
      }
      const std::int64_t out = p.at_c + row + column * p.ldc;
      double value = p.alpha * sum;
      if (p.beta != 0) value += p.beta * load(p.c, out, p.type);
      if (p.bias != nullptr) value += load(p.bias, row, p.type);
      store(p.c, out, p.type, value);
    }
  }
}

double factor(const void* value, BlasCompute compute) {
  return compute == BlasCompute::f64 ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
}

int gemm(void*, BlasOperation op_a, BlasOperation op_b, int m, int n, int k, const void* alpha, const void* a,
         BlasType type, int lda, long long stride_a, const void* b, BlasType, int ldb, long long stride_b,
         const void* beta, void* c, BlasType, int ldc, long long stride_c, int batch, BlasCompute compute_in, int) {
  ++seen.products;
  seen.compute = compute_in;
  seen.type = type;
  for (int i = 0; i < batch && seen.status == 0; ++i) {
    compute({op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc, type, factor(alpha, compute_in), factor(beta, compute_in),
             i * stride_a, i * stride_b, i * stride_c});
  }
  return seen.status;
}

struct LtOperation {
  BlasCompute compute;
  int op_a = 0, op_b = 0, epilogue = 0;
  const void* bias = nullptr;
};
struct LtLayout {
  BlasType type;
  std::int64_t rows, columns, leading;
};

int lt_set(void* operation, int attribute, const void* value, std::size_t bytes) {
  auto& op = *static_cast<LtOperation*>(operation);
  if (attribute == 8) {
    op.bias = bytes == sizeof(void*) ? *static_cast<void* const*>(value) : nullptr;
    return 0;
  }
  if (bytes != sizeof(int)) return 7;
  (attribute == 3 ? op.op_a : attribute == 4 ? op.op_b : op.epilogue) = *static_cast<const int*>(value);
  return 0;
}

int lt_choose(void*, void*, void*, void*, void*, void*, void*, int, void*, int* found) {
  ++seen.choices;
  *found = seen.knows_a_way ? 1 : 0;
  return 0;
}

int lt_product(void*, void* operation, const void* alpha, const void* a, void* layout_a, const void* b, void* layout_b,
               const void* beta, const void*, void*, void* d, void* layout_d, const void*, void*, std::size_t,
               core::gpu::StreamHandle) {
  ++seen.lt_products;
  if (seen.while_lt) seen.while_lt();
  if (seen.lt_status != 0) return seen.lt_status;
  const auto& op = *static_cast<LtOperation*>(operation);
  const auto &la = *static_cast<LtLayout*>(layout_a), &lb = *static_cast<LtLayout*>(layout_b),
             &ld = *static_cast<LtLayout*>(layout_d);
  EXPECT_EQ(op.epilogue, 4);
  const std::int64_t k = op.op_a == 0 ? la.columns : la.rows;
  EXPECT_EQ(op.op_b == 0 ? lb.rows : lb.columns, k);
  compute({static_cast<BlasOperation>(op.op_a), static_cast<BlasOperation>(op.op_b), ld.rows, ld.columns, k, a,
           la.leading, b, lb.leading, d, ld.leading, ld.type, factor(alpha, op.compute), factor(beta, op.compute), 0, 0,
           0, op.bias});
  return 0;
}

BlasApi stand_in() {
  BlasApi api{};
  api.create = [](void** handle) { return (*handle = new int, seen.while_made ? seen.while_made() : 0); };
  api.destroy = [](void* handle) { return (delete static_cast<int*>(handle), 0); };
  api.set_stream = [](void*, core::gpu::StreamHandle) { return 0; };
  api.set_workspace = [](void*, void*, std::size_t) { return (++seen.workspaces, 0); };
  api.gemm = gemm;
  api.status_text = [](int) { return "CUBLAS_STATUS_EXECUTION_FAILED"; };
  api.lt_operation = [](void** made, BlasCompute compute_in, BlasType) {
    return (*made = new LtOperation{compute_in}, 0);
  };
  api.lt_set = lt_set;
  api.lt_layout = [](void** made, BlasType type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
    *made = new LtLayout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
    return 0;
  };
  api.lt_preference = [](void** made) { return (*made = nullptr, 0); };
  api.lt_set_preference = [](void*, int, const void*, std::size_t) { return 0; };
  api.lt_destroy_preference = [](void*) { return 0; };
  api.lt_destroy_operation = [](void* made) { return (delete static_cast<LtOperation*>(made), 0); };
  api.lt_destroy_layout = [](void* made) { return (delete static_cast<LtLayout*>(made), 0); };
  api.lt_choose = lt_choose;
  api.lt_product = lt_product;
  return api;
}

struct CudaBlas : testing::Test {
  CudaBlas()
      : driver({.runs_at_once = true}),
        devices(core::gpu::discover(driver.api(), core::logical_op_tables(), {})),
        blas(std::make_unique<core::gpu::Blas>(api, dynamic_cast<core::CudaBackend&>(*devices[0]))) {
    seen = {};
  }
  ~CudaBlas() override { core::cuda::set_allow_tf32(false); }

  const BlasApi api = stand_in();
  test::FakeDriver driver;
  std::vector<std::unique_ptr<core::Backend>> devices;
  std::unique_ptr<core::gpu::Blas> blas;
};

using Floats = std::vector<float>;

// A (2 x 3) = 1 2 3 / 4 5 6, B (3 x 2) = 7 8 / 9 10 / 11 12, A B = 58 64 / 139 154.
const Floats kA = {1, 2, 3, 4, 5, 6}, kAT = {1, 4, 2, 5, 3, 6};
const Floats kB = {7, 8, 9, 10, 11, 12}, kBT = {7, 9, 11, 8, 10, 12};

GemmParams small(const Floats& a, bool transpose_a, const Floats& b, bool transpose_b, Floats& c) {
  return {.transpose_a = transpose_a,
          .transpose_b = transpose_b,
          .m = 2,
          .n = 2,
          .k = 3,
          .lda = transpose_a ? 2 : 3,
          .ldb = transpose_b ? 3 : 2,
          .ldc = 2,
          .a = a.data(),
          .b = b.data(),
          .c = c.data(),
          .alpha = 1,
          .beta = 0,
          .batch = 1,
          .batch_stride_a = 0,
          .batch_stride_b = 0,
          .batch_stride_c = 0};
}

TEST_F(CudaBlas, RowMajorProductsInAllFourTranspositions) {
  for (int transposed = 0; transposed < 4; ++transposed) {
    const bool ta = transposed & 1, tb = transposed & 2;
    Floats c(4, -1);
    blas->product(DType::f32, small(ta ? kAT : kA, ta, tb ? kBT : kB, tb, c));
    EXPECT_THAT(c, ElementsAre(58, 64, 139, 154)) << transposed;
  }
}

TEST_F(CudaBlas, AlphaBetaAndWideRows) {
  Floats c = {1, 1, -9, 1, 1, -9};  // rows of 3, of which 2 count
  GemmParams p = small(kA, false, kB, false, c);
  p.ldc = 3;
  p.alpha = 2;
  p.beta = 10;
  blas->product(DType::f32, p);
  EXPECT_THAT(c, ElementsAre(126, 138, -9, 288, 318, -9));
}

TEST_F(CudaBlas, BatchesMayShareAnOperand) {
  Floats a = kA, c(8);
  a.insert(a.end(), {0, 0, 1, 0, 1, 0});
  GemmParams p = small(a, false, kB, false, c);
  p.batch = 2;
  p.batch_stride_a = 6;
  p.batch_stride_c = 4;
  blas->product(DType::f32, p);
  EXPECT_THAT(c, ElementsAre(58, 64, 139, 154, 11, 12, 9, 10));
  EXPECT_EQ(seen.products, 1);
}

TEST_F(CudaBlas, SizesThatDifferFindTheirPlace) {
  const Floats a = {1, 2, 3}, b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};  // (1 x 3) (3 x 4)
  Floats c(4);
  GemmParams p = small(a, false, b, false, c);
  p.m = 1;
  p.n = p.ldb = p.ldc = 4;
  blas->product(DType::f32, p);
  EXPECT_THAT(c, ElementsAre(38, 44, 50, 56));
}

TEST_F(CudaBlas, ABiasIsAddedOnTheWay) {
  const Floats bias = {1000, 2000};
  Floats c(4);
  GemmParams p = small(kA, false, kBT, true, c);
  p.bias = bias.data();
  blas->product(DType::f32, p);
  EXPECT_THAT(c, ElementsAre(1058, 2064, 1139, 2154));
  EXPECT_EQ(seen.lt_products, 1);
  EXPECT_EQ(seen.products, 0);
}

TEST_F(CudaBlas, WhatCublasLtChoseIsKeptAndTheBiasIsNot) {
  const Floats first = {1, 2}, second = {10, 20};
  Floats c(4);
  GemmParams p = small(kA, false, kBT, true, c);
  p.bias = first.data();
  blas->product(DType::f32, p);
  p.bias = second.data();
  blas->product(DType::f32, p);
  EXPECT_THAT(c, ElementsAre(68, 84, 149, 174));
  EXPECT_LE(seen.choices, 2);  // one for each alignment of the bias
  blas->product(DType::f32, p);
  EXPECT_LE(seen.choices, 2);
}

TEST_F(CudaBlas, WithoutAWayOfCublasLtTheBiasComesFirst) {
  seen.knows_a_way = false;
  const Floats bias = {1000, 2000};
  Floats c(4);
  GemmParams p = small(kA, false, kBT, true, c);
  p.bias = bias.data();
  blas->product(DType::f32, p);
  EXPECT_THAT(c, ElementsAre(1058, 2064, 1139, 2154));
  EXPECT_EQ(seen.products, 1);
}

// A bias may lie at any element of a buffer of parameters; cuBLASLt's kernels read 16 bytes at once.
TEST_F(CudaBlas, ABiasBetweenTwoPiecesOf16BytesComesFirst) {
  const Floats parameters = {0, 1000, 2000};
  Floats c(4);
  GemmParams p = small(kA, false, kBT, true, c);
  p.bias = parameters.data() + 1;
  blas->product(DType::f32, p);
  EXPECT_THAT(c, ElementsAre(1058, 2064, 1139, 2154));
  EXPECT_EQ(seen.lt_products, 0);
  EXPECT_EQ(seen.products, 1);
}

TEST_F(CudaBlas, AWayThatCublasLtGivesUpOnIsTriedOnce) {
  seen.lt_status = 15;  // CUBLAS_STATUS_NOT_SUPPORTED
  const Floats bias = {1000, 2000};
  Floats c(4);
  GemmParams p = small(kA, false, kBT, true, c);
  p.bias = bias.data();
  for (int i = 0; i < 2; ++i) {
    blas->product(DType::f32, p);
    EXPECT_THAT(c, ElementsAre(1058, 2064, 1139, 2154));
  }
  EXPECT_EQ(seen.lt_products, 1);
  EXPECT_EQ(seen.products, 2);
}

// Whatever it says, as long as the device is well.
TEST_F(CudaBlas, AnyStatusOfCublasLtButSuccessFallsBack) {
  const Floats bias = {1000, 2000};
  for (int status : {1, 3, 7, 8, 11, 13, 14, 15, 16, 99}) {
    seen = {};
    seen.lt_status = status;
    const core::gpu::BlasApi calls = stand_in();
    core::gpu::Blas fresh(calls, dynamic_cast<core::CudaBackend&>(*devices[0]));
    Floats c(4);
    GemmParams p = small(kA, false, kBT, true, c);
    p.bias = bias.data();
    for (int i = 0; i < 2; ++i) {
      fresh.product(DType::f32, p);
      EXPECT_THAT(c, ElementsAre(1058, 2064, 1139, 2154)) << status;
    }
    EXPECT_EQ(seen.lt_products, 1) << status;
    EXPECT_EQ(seen.products, 2) << status;
  }
}

int gives_up() {
  return 15;
}

// Setting a product up may fail as well as running it.
TEST_F(CudaBlas, AnyCallOfCublasLtThatGivesUpFallsBack) {
  const Floats bias = {1000, 2000};
  std::vector<std::pair<std::string, BlasApi>> broken;
  auto& operation = broken.emplace_back("lt_operation", api).second;
  operation.lt_operation = [](void**, BlasCompute, BlasType) { return gives_up(); };
  auto& set = broken.emplace_back("lt_set", api).second;
  set.lt_set = [](void*, int, const void*, std::size_t) { return gives_up(); };
  auto& layout = broken.emplace_back("lt_layout", api).second;
  layout.lt_layout = [](void**, BlasType, std::uint64_t, std::uint64_t, std::int64_t) { return gives_up(); };
  auto& preference = broken.emplace_back("lt_preference", api).second;
  preference.lt_preference = [](void**) { return gives_up(); };
  auto& prefer = broken.emplace_back("lt_set_preference", api).second;
  prefer.lt_set_preference = [](void*, int, const void*, std::size_t) { return gives_up(); };
  auto& choose = broken.emplace_back("lt_choose", api).second;
  choose.lt_choose = [](void*, void*, void*, void*, void*, void*, void*, int, void*, int*) { return gives_up(); };
  for (const auto& [name, calls] : broken) {
    seen = {};
    core::gpu::Blas fresh(calls, dynamic_cast<core::CudaBackend&>(*devices[0]));
    Floats c(4);
    GemmParams p = small(kA, false, kBT, true, c);
    p.bias = bias.data();
    for (int i = 0; i < 2; ++i) {
      fresh.product(DType::f32, p);
      EXPECT_THAT(c, ElementsAre(1058, 2064, 1139, 2154)) << name;
    }
    EXPECT_EQ(seen.lt_products, 0) << name;
    EXPECT_EQ(seen.products, 2) << name;
  }
}

TEST_F(CudaBlas, ABiasThatCublasLtDoesNotTakeAnyMoreFallsBack) {
  const Floats bias = {1000, 2000};
  static int left;
  left = 5;  // four to set the product up, one to run it
  BlasApi calls = api;
  calls.lt_set = [](void* operation, int attribute, const void* value, std::size_t bytes) {
    return left-- > 0 ? lt_set(operation, attribute, value, bytes) : gives_up();
  };
  core::gpu::Blas fresh(calls, dynamic_cast<core::CudaBackend&>(*devices[0]));
  Floats c(4);
  GemmParams p = small(kA, false, kBT, true, c);
  p.bias = bias.data();
  for (int i = 0; i < 3; ++i) {
    fresh.product(DType::f32, p);
    EXPECT_THAT(c, ElementsAre(1058, 2064, 1139, 2154)) << i;
  }
  EXPECT_EQ(seen.lt_products, 1);
  EXPECT_EQ(seen.products, 2);
}

TEST_F(CudaBlas, AnErrorOfTheDeviceWhileItIsSetUpIsNotTakenForAWayThatFails) {
  const Floats bias = {1000, 2000};
  Floats c(4);
  GemmParams p = small(kA, false, kBT, true, c);
  p.bias = bias.data();
  static test::FakeDriver* const* now;
  test::FakeDriver* const here = &driver;
  now = &here;
  BlasApi calls = api;
  calls.lt_preference = [](void**) {
    (*now)->break_device(core::gpu::kIllegalAddress);
    (*now)->api().device_synchronize();
    return gives_up();
  };
  core::gpu::Blas fresh(calls, dynamic_cast<core::CudaBackend&>(*devices[0]));
  EXPECT_THAT(test::message_of([&] { fresh.product(DType::f32, p); }),
              testing::StartsWith("CUDA error: an illegal memory access was encountered"));
  EXPECT_EQ(seen.products, 0);
}

TEST_F(CudaBlas, AnErrorOfTheDeviceIsNotTakenForAWayThatFails) {
  const Floats bias = {1000, 2000};
  Floats c(4);
  GemmParams p = small(kA, false, kBT, true, c);
  p.bias = bias.data();
  seen.lt_status = 13;
  seen.while_lt = [&] {
    driver.break_device(core::gpu::kIllegalAddress);
    driver.api().device_synchronize();
  };
  EXPECT_THAT(test::message_of([&] { blas->product(DType::f32, p); }),
              testing::StartsWith("CUDA error: an illegal memory access was encountered"));
  EXPECT_EQ(seen.products, 0);
}

// The handle takes memory of the driver, which the capture forbids.
TEST_F(CudaBlas, AFirstProductInACaptureMakesItsHandle) {
  const core::gpu::CudaApi& cuda = driver.api();
  auto& gpu = dynamic_cast<core::CudaBackend&>(*devices[0]);
  const core::gpu::StreamHandle side = gpu.pool_stream(0);
  gpu.synchronize();
  void* taken = nullptr;
  seen.while_made = [&] { return cuda.allocate(&taken, 1024); };
  ASSERT_EQ(cuda.begin_capture(side, core::gpu::CaptureMode::of_thread), 0);
  { const core::gpu::Blas fresh(api, gpu); }
  core::gpu::GraphHandle graph = nullptr;
  EXPECT_EQ(cuda.end_capture(side, &graph), 0);
  EXPECT_NE(taken, nullptr);
  EXPECT_EQ(cuda.allocate(&taken, 1024), 0);  // allowed again, as nothing is captured
}

TEST_F(CudaBlas, F32IsNotRoundedUnlessAllowed) {
  Floats c(4);
  blas->product(DType::f32, small(kA, false, kB, false, c));
  EXPECT_EQ(seen.compute, BlasCompute::f32);
  core::cuda::set_allow_tf32(true);
  blas->product(DType::f32, small(kA, false, kB, false, c));
  EXPECT_EQ(seen.compute, BlasCompute::tf32);
}

TEST_F(CudaBlas, F64IsComputedInF64) {
  const std::vector<double> a = {1, 1e-12}, b = {1, 1};
  std::vector<double> c = {0};
  GemmParams p{};
  p.m = p.n = 1;
  p.k = 2;
  p.lda = 2;
  p.ldb = p.ldc = 1;
  p.a = a.data();
  p.b = b.data();
  p.c = c.data();
  p.alpha = 1;
  p.batch = 1;
  core::cuda::set_allow_tf32(true);
  blas->product(DType::f64, p);
  EXPECT_EQ(c[0], 1 + 1e-12);
  EXPECT_EQ(seen.compute, BlasCompute::f64);
}

TEST_F(CudaBlas, HalvesAreSummedInF32) {
  const std::vector<std::uint16_t> a = {core::f64_to_f16(2), core::f64_to_f16(3)},
                                   b = {core::f64_to_f16(5), core::f64_to_f16(7)};
  std::vector<std::uint16_t> c = {0};
  GemmParams p{};
  p.m = p.n = 1;
  p.k = 2;
  p.lda = 2;
  p.ldb = p.ldc = 1;
  p.a = a.data();
  p.b = b.data();
  p.c = c.data();
  p.alpha = 1;
  p.batch = 1;
  blas->product(DType::f16, p);
  EXPECT_EQ(core::f16_to_f32(c[0]), 31);
  EXPECT_EQ(seen.compute, BlasCompute::f32);
  EXPECT_EQ(seen.type, BlasType::f16);
  blas->product(DType::bf16, p);
  EXPECT_EQ(seen.type, BlasType::bf16);
}

TEST_F(CudaBlas, EachStreamHasAWorkspaceThatTheDeviceCounts) {
  Floats c(4);
  blas->product(DType::f32, small(kA, false, kB, false, c));
  blas->product(DType::f32, small(kA, false, kB, false, c));
  EXPECT_EQ(seen.workspaces, 1);
  EXPECT_EQ(devices[0]->memory_stats().allocated_bytes.all.current, 32 << 20);  // as PyTorch on this GPU
}

TEST_F(CudaBlas, AFailureIsNamed) {
  seen.status = 13;
  Floats c(4);
  try {
    blas->product(DType::f32, small(kA, false, kB, false, c));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.message(), "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmStridedBatchedEx`");
  }
}

TEST_F(CudaBlas, SizesBeyondCublasAreRefused) {
  Floats c(4);
  GemmParams p = small(kA, false, kB, false, c);
  p.m = std::int64_t{1} << 31;
  EXPECT_THROW(blas->product(DType::f32, p), core::Error);
}

}  // namespace

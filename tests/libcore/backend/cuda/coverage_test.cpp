// Which kernels CUDA devices have of those that the CPU has, by name, and what happens where one is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/cuda/cuda_blas.h"
#include "libcore/backend/nn_table.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/base/error.h"
#include "libcore/data/dataset.h"
#include "libcore/module/recurrent.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/sort.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"

namespace core {
namespace {

std::set<std::string> slots_of(const OpTables& tables) {
  set_opaque_devices(1, tables);
  return opaque_slots();
}

struct Count {
  int cpu = 0, both = 0, more = 0;
};

/// By what stands before the first point of a name.
std::map<std::string, Count> counted(const std::set<std::string>& cpu, const std::set<std::string>& device) {
  std::map<std::string, Count> rows;
  const auto row = [&](const std::string& slot) -> Count& { return rows[slot.substr(0, slot.find('.'))]; };
  for (const std::string& slot : cpu) {
    ++row(slot).cpu;
    row(slot).both += device.contains(slot);
  }
  for (const std::string& slot : device) row(slot).more += !cpu.contains(slot);
  return rows;
}

/// The emulated kernels, and the products that cuBLAS computes.
const OpTables& cuda_tables() {
  static MatmulTable products;
  gpu::fill_matmul(products);
  static OpTables tables;
  tables = test::emulated_tables();
  tables.matmul = &products;
  return tables;
}

TEST(CudaCoverage, HasWhatTheCpuHasButProductsOfIntegers) {
  const std::set<std::string> cpu = slots_of(cpu_op_tables()), device = slots_of(cuda_tables());
  set_logical_devices(0);
  Count all;
  for (const auto& [row, count] : counted(cpu, device)) {
    std::printf("%-26s %4d of the %4d that the CPU fills, and %d more\n", row.c_str(), count.both, count.cpu,
                count.more);
    all.cpu += count.cpu, all.both += count.both, all.more += count.more;
  }
  std::printf("%-26s %4d of %d, and %d more\n", "in all", all.both, all.cpu, all.more);
  std::vector<std::string> missing;
  std::set_difference(cpu.begin(), cpu.end(), device.begin(), device.end(), std::back_inserter(missing));
  // What PyTorch does on the host alone, randperm, and complex numbers, which GPUs only hold and move.
  std::erase_if(missing, [](const std::string& slot) {
    return slot.starts_with("random.normal_serial") || slot.starts_with("random.permutation") ||
           slot.find("complex") != std::string::npos;
  });
  for (const std::string& slot : missing) std::printf("missing: %s\n", slot.c_str());
  EXPECT_THAT(missing, testing::UnorderedElementsAre("gemm.uint8", "gemm.int8", "gemm.int16", "gemm.int32",
                                                     "gemm.int64"));  // PyTorch has none there either
}

class MissingKernel : public testing::Test {
 protected:
  MissingKernel() : nn_(*test::emulated_tables().nn), reduction_(*test::emulated_tables().reduction) {
    const auto f32 = static_cast<std::size_t>(DType::f32);
    nn_.conv2d[f32] = nullptr;
    reduction_.scan.set(ScanOp::cumsum, DType::f32, nullptr);
    reduction_.sort[f32] = nullptr;
    tables_ = test::emulated_tables();
    tables_.nn = &nn_;
    tables_.reduction = &reduction_;
    tables_.recurrent = nullptr;
    set_opaque_devices(2, tables_);
  }
  ~MissingKernel() override { set_logical_devices(0); }

 private:
  NnTable nn_;
  ReductionTable reduction_;
  OpTables tables_;
};

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST_F(MissingKernel, IsNamedWithItsDevice) {
  const Tensor x = ones({1, 1, 3, 3}).to(Device("cuda:1"));
  EXPECT_EQ(refusal([&] { conv2d(x, x); }), "\"conv2d\" not implemented for 'Float' on cuda:1");
  EXPECT_EQ(refusal([&] { cumsum(x, 0); }), "\"cumsum\" not implemented for 'Float' on cuda:1");
  EXPECT_EQ(refusal([&] { sort(x, 0); }), "\"sort\" not implemented for 'Float' on cuda:1");
}

TEST_F(MissingKernel, OfALayerLeavesItsSteps) {
  LSTM lstm(2, 3);
  lstm.to(Device("cuda:0"));
  EXPECT_EQ(std::get<0>(lstm(ones({4, 1, 2}).to(Device("cuda:0")))).sizes(), (Shape{4, 1, 3}));
}

}  // namespace
}  // namespace core

// torch.cuda's functions on logical devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/device_report.h"
#include "libcore/backend/visible_devices.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/module/linear.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/default_type.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/message_of.h"

namespace {

using core::Device;
using core::Tensor;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

/// What touching a device says where there is none.
std::string no_device_text() {
  return message_of([] { core::cuda::current_device(); });
}

struct Cuda : testing::Test {
  Cuda() { core::set_logical_devices(2); }
  ~Cuda() override { core::set_logical_devices(0); }
};

TEST_F(Cuda, TryGpuFallsBackToTheCpu) {
  EXPECT_EQ(core::try_gpu().repr(), "device(type='cuda', index=0)");
  EXPECT_EQ(core::try_gpu(10).repr(), "device(type='cpu')");
  EXPECT_THAT(core::try_all_gpus(), ElementsAre(Device("cuda:0"), Device("cuda:1")));
  core::set_logical_devices(0);
  EXPECT_EQ(core::try_gpu(), Device("cpu"));
  EXPECT_THAT(core::try_all_gpus(), ElementsAre(Device("cpu")));
}

TEST_F(Cuda, DevicesHaveProperties) {
  core::DeviceInfo info = core::cuda::device_info(1);
  EXPECT_EQ(info.device, Device("cuda:1"));
  EXPECT_TRUE(info.is_logical);
  EXPECT_GT(info.total_memory, 1U << 20);
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_EQ(info.uuid, "GPU-00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(info.pci_bus_id, "00000000:02:00.0");
  EXPECT_EQ(core::cuda::device_name(0), "logical, host memory");
  EXPECT_EQ(message_of([] { core::cuda::device_info(2); }), "Invalid device id");
  EXPECT_EQ(message_of([] { core::cuda::device_info(-1); }), "Invalid device id");
}

TEST_F(Cuda, PeersReadEachOthersMemory) {
  EXPECT_TRUE(core::cuda::can_device_access_peer(0, 1));
  EXPECT_FALSE(core::cuda::can_device_access_peer(1, 1));
  EXPECT_EQ(message_of([] { core::cuda::can_device_access_peer(0, 2); }), "Invalid peer device id");
  core::set_logical_devices({{}, {.peer_access = false}});
  EXPECT_FALSE(core::cuda::can_device_access_peer(0, 1));
}

TEST_F(Cuda, TheCurrentDeviceIsAThreadsOwnAndAGuardsForAScope) {
  core::cuda::set_device(1);
  EXPECT_EQ(core::cuda::current_device(), 1);
  {
    core::cuda::DeviceGuard guard(Device("cuda:0"));
    EXPECT_EQ(core::zeros({1}, {.device = "cuda"}).device(), Device("cuda:0"));
    core::cuda::DeviceGuard nothing(Device("cpu"));
    EXPECT_EQ(core::cuda::current_device(), 0);
  }
  EXPECT_EQ(core::cuda::current_device(), 1);
  EXPECT_EQ(message_of([] { core::cuda::set_device(2); }), "CUDA error: invalid device ordinal");
}

TEST_F(Cuda, MemoryIsCountedAsByTheCachingAllocator) {
  Device second("cuda:1");
  {
    Tensor x = core::ones({2, 3}, {.device = second});
    EXPECT_EQ(core::cuda::memory_allocated(second), 512U);
    EXPECT_EQ(core::cuda::memory_reserved(second), 2097152U);
    EXPECT_EQ(core::cuda::memory_allocated(Device("cuda:0")), 0U);
    auto info = core::cuda::mem_get_info(second);
    EXPECT_EQ(info.total - info.free, 2097152U);
  }
  EXPECT_EQ(core::cuda::memory_allocated(second), 0U);
  EXPECT_EQ(core::cuda::max_memory_allocated(second), 512U);
  core::cuda::reset_peak_memory_stats(second);
  EXPECT_EQ(core::cuda::max_memory_allocated(second), 0U);
  EXPECT_EQ(core::cuda::max_memory_reserved(second), 2097152U);
  core::cuda::empty_cache();
  EXPECT_EQ(core::cuda::memory_reserved(second), 0U);
}

TEST_F(Cuda, MemoryStatsHavePyTorchsKeys) {
  Tensor x = core::ones({2, 3}, {.device = "cuda:0"});
  auto stats = core::cuda::memory_stats(Device("cuda:0"));
  EXPECT_EQ(stats.size(), 9U * 12 + 2 * 4 + 6);
  EXPECT_EQ(stats.at("requested_bytes.all.current"), 24);
  EXPECT_EQ(stats.at("inactive_split_bytes.small_pool.current"), 2097152 - 512);
  EXPECT_EQ(stats.at("segment.large_pool.peak"), 0);
  EXPECT_EQ(stats.at("num_device_alloc"), 1);
  EXPECT_EQ(stats.at("max_split_size"), -1);
  core::cuda::reset_accumulated_memory_stats(Device("cuda:0"));
  EXPECT_EQ(core::cuda::memory_stats(Device("cuda:0")).at("allocation.all.allocated"), 0);
}

TEST_F(Cuda, OutOfMemoryHasPyTorchsText) {
  core::set_memory_limit(Device("cuda:0"), 32 << 20);
  Tensor x = core::empty({3 << 20}, {.device = "cuda:0"});  // 12 MiB
  try {
    core::empty({6 << 20}, {.device = "cuda:0"});
    FAIL();
  } catch (const core::OutOfMemoryError& error) {
    EXPECT_STREQ(
        error.what(),
        "CUDA out of memory. Tried to allocate 24.00 MiB. GPU 0 has a total capacity of 32.00 MiB of which 20.00 MiB "
        "is "
        "free. Including non-PyTorch memory, this process has 12.00 MiB memory in use. Of the allocated memory 12.00 "
        "MiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated "
        "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "
        "documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"
        "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)");
    EXPECT_EQ(error.shortage().free, 20U << 20);
    EXPECT_EQ(error.shortage().allocated, 12U << 20);
  }
  EXPECT_EQ(core::cuda::memory_stats(Device("cuda:0")).at("num_ooms"), 1);
  EXPECT_EQ(core::cuda::mem_get_info(Device("cuda:0")).total, 32U << 20);
  core::set_memory_limit(Device("cuda:0"), 0);
  EXPECT_NO_THROW(core::empty({6 << 20}, {.device = "cuda:0"}));
}

TEST_F(Cuda, AProcessMayBeGivenAPartOfTheMemory) {
  core::set_logical_devices({{.total_memory = 64 << 20}});
  core::cuda::set_per_process_memory_fraction(0.5, Device("cuda:0"));
  EXPECT_THAT(message_of([] { core::empty({40 << 20}, {.dtype = core::DType::u8, .device = "cuda:0"}); }),
              HasSubstr("has a total capacity of 64.00 MiB of which 64.00 MiB is free. Including non-PyTorch memory, "
                        "this process has 0 bytes memory in use. 32.00 MiB allowed; Of the allocated memory"));
  EXPECT_NO_THROW(core::empty({30 << 20}, {.dtype = core::DType::u8, .device = "cuda:0"}));
  EXPECT_EQ(message_of([] { core::cuda::set_per_process_memory_fraction(1.5); }),
            "Invalid fraction value: 1.5. Allowed range: 0~1");
  EXPECT_EQ(message_of([] { core::cuda::set_per_process_memory_fraction(-1); }),
            "Invalid fraction value: -1.0. Allowed range: 0~1");
}

// The text that torch.cuda.memory_summary of PyTorch 2.15 makes of these counts.
TEST_F(Cuda, MemorySummaryIsPyTorchsTable) {
  Tensor x = core::ones({2, 3}, {.device = "cuda:0"});
  core::empty({3 << 20}, {.dtype = core::DType::u8, .device = "cuda:0"});
  EXPECT_EQ(core::cuda::memory_summary(Device("cuda:0"), core::cuda::SummaryForm::abbreviated),
            R"(|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |    512 B   |   3072 KiB |   3072 KiB |   3072 KiB |
|---------------------------------------------------------------------------|
| Active memory         |    512 B   |   3072 KiB |   3072 KiB |   3072 KiB |
|---------------------------------------------------------------------------|
| Requested memory      |     24 B   |   3072 KiB |   3072 KiB |   3072 KiB |
|---------------------------------------------------------------------------|
| GPU reserved memory   |  22528 KiB |  22528 KiB |  22528 KiB |      0 B   |
|---------------------------------------------------------------------------|
| Non-releasable memory |   2047 KiB |  19455 KiB |  19455 KiB |  17408 KiB |
|---------------------------------------------------------------------------|
| Allocations           |       1    |       2    |       2    |       1    |
|---------------------------------------------------------------------------|
| Active allocs         |       1    |       2    |       2    |       1    |
|---------------------------------------------------------------------------|
| GPU reserved segments |       2    |       2    |       2    |       0    |
|---------------------------------------------------------------------------|
| Non-releasable allocs |       1    |       2    |       2    |       1    |
|---------------------------------------------------------------------------|
| Oversize allocations  |       0    |       0    |       0    |       0    |
|---------------------------------------------------------------------------|
| Oversize GPU segments |       0    |       0    |       0    |       0    |
|===========================================================================|
)");
  std::string full = core::cuda::memory_summary(Device("cuda:0"));
  EXPECT_THAT(full, HasSubstr(R"(|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |    512 B   |   3072 KiB |   3072 KiB |   3072 KiB |
|       from large pool |      0 B   |   3072 KiB |   3072 KiB |   3072 KiB |
|       from small pool |    512 B   |      0 KiB |      0 KiB |      0 KiB |
|---------------------------------------------------------------------------|
)"));
  EXPECT_EQ(full.size(), 47U * 78);
}

TEST_F(Cuda, TheDeviceTableShowsMemory) {
  core::set_logical_devices({{.total_memory = 24220ULL << 20}, {.total_memory = 64 << 20}});
  Tensor x = core::ones({2, 3}, {.device = "cuda:0"});
  EXPECT_EQ(core::cuda::device_table(),
            R"(+-----------------------------------------------------------------------------+
| Devices of process: 2 visible                                               |
|-------------------------------+----------------------+----------------------|
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  logical, host memory N/A | 00000000:01:00.0 Off |                  N/A |
| N/A   N/A   N/A    N/A /  N/A |      2MiB / 24220MiB |      N/A     Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
|   1  logical, host memory N/A | 00000000:02:00.0 Off |                  N/A |
| N/A   N/A   N/A    N/A /  N/A |      0MiB /    64MiB |      N/A     Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
)");
}

TEST(NoCuda, TheDeviceTableSaysSo) {
  core::set_logical_devices(0);
  EXPECT_EQ(core::cuda::device_table(), "No devices were found\n");
}

TEST_F(Cuda, PinnedMemoryIsACopyThatSaysSo) {
  Tensor x = core::tensor({1.0, 2.0});
  EXPECT_FALSE(core::is_pinned(x));
  Tensor pinned = core::pin_memory(x);
  EXPECT_TRUE(core::is_pinned(pinned));
  EXPECT_TRUE(core::is_pinned(pinned.slice(0, 1)));
  EXPECT_TRUE(core::pin_memory(pinned).is_same(pinned));
  EXPECT_TRUE(pinned.equal(x));
  EXPECT_NE(pinned.raw_data(), x.raw_data());
  EXPECT_EQ(message_of([&] { core::pin_memory(x.cuda(0)); }),
            "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned");
}

TEST(NoCuda, PinningNeedsADevice) {
  core::set_logical_devices(0);
  EXPECT_EQ(message_of([] { core::pin_memory(core::ones({1})); }), no_device_text());
}

struct DefaultType : Cuda {
  DefaultType() {
    before = core::set_warning_handler([this](const std::string& text) { warnings.push_back(text); });
  }
  ~DefaultType() override {
    core::set_warning_handler(before);
    core::set_default_dtype(core::DType::f32);
    core::set_default_device(Device());
  }
  std::vector<std::string> warnings;
  core::WarningHandler before;
};

TEST_F(DefaultType, ACudaTypeMovesFactoriesAndModules) {
  core::set_default_tensor_type("torch.cuda.FloatTensor");
  EXPECT_THAT(warnings, ElementsAre("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
                                    "torch.set_default_dtype() and torch.set_default_device() as alternatives."));
  EXPECT_EQ(core::ones({2}).device(), Device("cuda:0"));
  EXPECT_EQ(core::tensor({1.5}).device(), Device("cuda:0"));
  EXPECT_EQ(core::rand({2}).device(), Device("cuda:0"));
  EXPECT_EQ(core::Linear(2, 1).weight.device(), Device("cuda:0"));
  core::cuda::DeviceGuard guard(Device("cuda:1"));
  EXPECT_EQ(core::ones({2}).device(), Device("cuda:1"));
}

TEST_F(DefaultType, ACudaTypeTurnsThePrintedDeviceAround) {
  core::set_default_tensor_type("torch.cuda.FloatTensor");
  EXPECT_EQ(core::to_string(core::ones({1})), "tensor([1.])");
  EXPECT_EQ(core::to_string(core::ones({1}, {.device = "cpu"})), "tensor([1.], device='cpu')");
  EXPECT_EQ(core::to_string(core::ones({1}, {.device = "cuda:1"})), "tensor([1.], device='cuda:1')");
}

TEST_F(DefaultType, ADoubleTypeChangesTheDtype) {
  core::set_default_tensor_type("torch.DoubleTensor");
  EXPECT_EQ(core::ones({1}).dtype(), core::DType::f64);
  EXPECT_EQ(core::to_string(core::ones({1}, {.dtype = core::DType::f32})), "tensor([1.], dtype=torch.float32)");
}

TEST_F(DefaultType, SaysWhichTypesDoNot) {
  EXPECT_EQ(message_of([] { core::set_default_tensor_type("torch.LongTensor"); }),
            "only floating-point types are supported as the default type");
  EXPECT_EQ(message_of([] { core::set_default_tensor_type("torch.FooTensor"); }),
            "module 'torch' has no attribute 'FooTensor'");
}

TEST_F(DefaultType, WithoutDevicesTheFactoriesFail) {
  core::set_logical_devices(0);
  core::set_default_tensor_type("torch.cuda.FloatTensor");
  EXPECT_EQ(message_of([] { core::ones({1}); }), no_device_text());
}

std::vector<int> visible(const char* text, int count = 4) {
  std::vector<std::string> uuids;
  for (int i = 0; i < count; ++i) uuids.push_back(core::detail::logical_uuid(i));
  return core::detail::visible_ordinals(text, uuids);
}

TEST(VisibleDevices, TheListChoosesAndOrders) {
  EXPECT_THAT(visible("1,3"), ElementsAre(1, 3));
  EXPECT_THAT(visible("3,1,0"), ElementsAre(3, 1, 0));
  EXPECT_THAT(visible(" 2, 0"), ElementsAre(2, 0));
  EXPECT_THAT(visible("1gpu2,2ampere"), ElementsAre(1, 2));
}

TEST(VisibleDevices, EmptyAndMinusOneHideAll) {
  EXPECT_THAT(visible(""), ElementsAre());
  EXPECT_THAT(visible("-1"), ElementsAre());
}

TEST(VisibleDevices, TheListEndsAtWhatIsNoDevice) {
  EXPECT_THAT(visible("1,9,2"), ElementsAre(1));
  EXPECT_THAT(visible("2,x,1"), ElementsAre(2));
  EXPECT_THAT(visible("0,-1,1"), ElementsAre(0));
}

TEST(VisibleDevices, ADuplicateHidesAll) {
  EXPECT_THAT(visible("1,2,1"), ElementsAre());
}

TEST(VisibleDevices, AnUnambiguousUuidPrefixNamesADevice) {
  EXPECT_THAT(visible("GPU-00000000-0000-0000-0000-000000000002,0"), ElementsAre(2, 0));
  EXPECT_THAT(visible("GPU-0000"), ElementsAre());  // fits four
  EXPECT_THAT(visible("GPU-0000", 1), ElementsAre(0));
}

/// Runs in a process of its own: the environment is read once.
[[noreturn]] void print_devices(const char* logical, const char* list) {
  setenv("CORE_LOGICAL_DEVICES", logical, 1);
  setenv("CUDA_VISIBLE_DEVICES", list, 1);
  std::string text = std::to_string(core::cuda::device_count()) + ":";
  for (int i = 0; i < core::cuda::device_count(); ++i) text += " " + std::to_string(core::cuda::device_info(i).ordinal);
  std::fprintf(stderr, "%s\n", text.c_str());
  std::exit(0);
}

TEST(VisibleDevicesDeathTest, TheEnvironmentIsReadOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(print_devices("host:4", "3,1"), testing::ExitedWithCode(0), "^2: 3 1");
  EXPECT_EXIT(print_devices("4", ""), testing::ExitedWithCode(0), "^0:");
}

/// What works on the CPU alone, in a process of its own.
[[noreturn]] void work_on_the_cpu() {
  core::manual_seed(1);
  core::Linear layer(3, 2);
  layer.to(Device("cpu"));
  core::SGD optimizer(layer.parameters(), {.lr = 0.1});
  core::mean(layer(core::rand({4, 3}))).backward();
  optimizer.step();
  core::cuda::empty_cache();
  std::fprintf(stderr, "%s", core::cuda::is_initialized() ? "started" : "not started");
  core::cuda::device_count();
  std::fprintf(stderr, ", %s\n", core::cuda::is_initialized() ? "started" : "not started");
  std::_Exit(0);
}

TEST(LazyDevicesDeathTest, ACpuProgramDoesNotInitialiseCuda) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(work_on_the_cpu(), testing::ExitedWithCode(0), "^not started, started");
}

/// Uses a device, forks, and reports what the child is told.
[[noreturn]] void use_after_fork() {
  core::set_logical_devices(1);
  core::ones({1}, {.device = "cuda"});
  if (fork() != 0) std::_Exit(0);
  std::fprintf(stderr, "%s\n", message_of([] { core::ones({1}, {.device = "cuda"}); }).c_str());
  std::_Exit(0);
}

TEST(ForkDeathTest, DevicesDoNotComeAlong) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(use_after_fork(), testing::ExitedWithCode(0),
              "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
              "'spawn' start method");
}

}  // namespace

// CUDA devices on a simulated driver: memory, copies, errors.
#include "libcore/backend/cuda/cuda_device.h"
#include "libcore/backend/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "libcore/backend/cuda/cuda_discovery.h"
#include "libcore/backend/cuda/cuda_error.h"
#include "libcore/backend/logical_backend.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "tests/libcore/backend/cuda_fake.h"
#include "tests/support/message_of.h"

namespace {

using core::CudaBackend;
using core::gpu::StreamHandle;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// Devices of a simulated driver, destroyed before it.
struct Machine {
  explicit Machine(test::FakeOptions options = {}, int logical = 0, std::vector<std::string> architectures = {})
      : driver(std::move(options)) {
    const auto before = core::set_warning_handler([this](const std::string& text) { warnings.push_back(text); });
    devices =
        core::gpu::discover(driver.api(), core::logical_op_tables(),
                            {.logical_devices = logical, .architectures = std::move(architectures), .error = &error});
    core::set_warning_handler(before);
  }
  CudaBackend& operator[](std::size_t i) { return dynamic_cast<CudaBackend&>(*devices[i]); }

  test::FakeDriver driver;
  std::vector<std::string> warnings;  // of discovery
  int error = core::gpu::kSuccess;
  std::vector<std::unique_ptr<core::Backend>> devices;
};

/// Device memory for a scope.
struct Memory {
  Memory(CudaBackend& owner, std::size_t count) : backend(owner), bytes(count), data(owner.allocate(count)) {}
  ~Memory() { backend.free(data, bytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  CudaBackend& backend;
  std::size_t bytes;
  void* data;
};

// --- Discovery

TEST(CudaDiscovery, OneDeviceForEachGpu) {
  Machine machine({.devices = 2});
  ASSERT_EQ(machine.devices.size(), 2U);
  const core::DeviceInfo info = machine[1].info();
  EXPECT_EQ(info.device, core::Device("cuda:1"));
  EXPECT_EQ(info.name, "Simulated GPU 1");
  EXPECT_FALSE(info.is_logical);
  EXPECT_EQ(info.major, 9);
  EXPECT_EQ(info.uuid, "GPU-5a100000-0000-0000-0000-000000000000");
  EXPECT_EQ(info.pci_bus_id, "00000000:1B:00.0");
  EXPECT_FALSE(machine[1].is_host_memory());
}

TEST(CudaDiscovery, LogicalDevicesGoRoundTheGpus) {
  Machine machine({.devices = 2}, 3);
  ASSERT_EQ(machine.devices.size(), 3U);
  EXPECT_EQ(machine[2].gpu(), 0);
  EXPECT_EQ(machine[2].info().device, core::Device("cuda:2"));
  EXPECT_TRUE(machine[2].info().is_logical);
  EXPECT_NE(machine[2].default_stream(), machine[0].default_stream());
  EXPECT_TRUE(machine[2].can_access(machine[0]));
}

TEST(CudaDiscovery, StartsNoGpu) {
  Machine machine({.devices = 2});
  EXPECT_EQ(machine.driver.calls("set_device"), 0);
  EXPECT_EQ(machine.driver.calls("allocate_host"), 0);
}

TEST(CudaDiscovery, OrdinalsAreThoseOfTheVisibleList) {
  setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
  Machine machine({.devices = 2});
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(machine[0].info().ordinal, 3);
  EXPECT_EQ(machine[1].info().ordinal, 1);
}

TEST(CudaDiscovery, NoDeviceIsNoErrorUntilOneIsUsed) {
  Machine none({.devices = 0});
  EXPECT_TRUE(none.devices.empty());
  EXPECT_EQ(message_of([&] { core::gpu::throw_no_device(none.driver.api(), none.error); }),
            "No CUDA GPUs are available");
  EXPECT_THAT(none.warnings, testing::IsEmpty());
}

TEST(CudaDiscovery, WithoutADriverPyTorchsTextSaysSo) {
  Machine none({.devices = 0, .driver_version = 0});
  EXPECT_EQ(message_of([&] { core::gpu::throw_no_device(none.driver.api(), none.error); }),
            "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver "
            "from http://www.nvidia.com/Download/index.aspx");
}

TEST(CudaDiscovery, AnOldDriverIsNamed) {
  Machine none({.devices = 0, .driver_version = 11040, .count_error = core::gpu::kInsufficientDriver});
  EXPECT_THAT(message_of([&] { core::gpu::throw_no_device(none.driver.api(), none.error); }),
              StartsWith("The NVIDIA driver on your system is too old (found version 11040). Please update"));
}

TEST(CudaDiscovery, ADriverInTroubleIsKeptAndNamed) {
  Machine none({.devices = 8, .count_error = 802});  // a machine whose fabric manager does not run
  EXPECT_TRUE(none.devices.empty());
  const std::string text =
      "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() "
      "that might have already set an error? Error 802: system not yet initialized";
  EXPECT_THAT(none.warnings, ElementsAre("CUDA initialization: " + text));
  EXPECT_EQ(none.driver.api().last_error(), core::gpu::kSuccess);
  EXPECT_EQ(message_of([&] { core::gpu::throw_no_device(none.driver.api(), none.error); }), text);
}

TEST(CudaDiscovery, AGpuThatCannotBeReadIsLeftOut) {
  Machine machine({.devices = 3, .unreadable = {1}});
  ASSERT_EQ(machine.devices.size(), 2U);
  EXPECT_EQ(machine[1].info().device, core::Device("cuda:1"));
  EXPECT_EQ(machine[1].info().name, "Simulated GPU 2");
  EXPECT_EQ(machine[1].gpu(), 2);
  EXPECT_THAT(machine.warnings, ElementsAre("GPU 1 cannot be read and is left out: CUDA error 214: uncorrectable ECC "
                                            "error encountered"));
  EXPECT_EQ(machine.driver.api().last_error(), core::gpu::kSuccess);
  EXPECT_NO_THROW(Memory(machine[1], 8));
}

TEST(CudaDiscovery, WhereNoGpuCanBeReadTheErrorIsNamed) {
  Machine none({.devices = 1, .unreadable = {0}});
  EXPECT_TRUE(none.devices.empty());
  EXPECT_THAT(message_of([&] { core::gpu::throw_no_device(none.driver.api(), none.error); }),
              HasSubstr("Error 214: uncorrectable ECC error encountered"));
}

/// What is warned of on a GPU of this compute capability when the kernels were compiled for `architectures`.
std::vector<std::string> warned(int major, int minor, const std::vector<std::string>& architectures) {
  return Machine({.major = major, .minor = minor}, 0, architectures).warnings;
}

TEST(CudaDiscovery, AGenerationWithoutCodeIsSaid) {
  EXPECT_THAT(warned(7, 0, {"sm_80", "sm_90"}),
              ElementsAre("Simulated GPU 0 with CUDA capability sm_70 is not compatible with the current PyTorch "
                          "installation.\nThe current PyTorch install supports CUDA capabilities sm_80 sm_90.\n"
                          "If you want to use the Simulated GPU 0 GPU, build libckpt with "
                          "-DCMAKE_CUDA_ARCHITECTURES=70"));
  EXPECT_EQ(warned(10, 0, {"sm_90"}).size(), 1U);
  EXPECT_EQ(warned(12, 0, {"sm_90a"}).size(), 1U);
  EXPECT_EQ(warned(8, 0, {"sm_86"}).size(), 1U);  // code for later ones of a generation
  EXPECT_EQ(warned(8, 9, {"sm_90", "compute_90"}).size(), 1U);
}

TEST(CudaDiscovery, AGenerationWithCodeIsNot) {
  EXPECT_THAT(warned(9, 0, {"sm_90"}), testing::IsEmpty());
  EXPECT_THAT(warned(8, 6, {"sm_80", "sm_90"}), testing::IsEmpty());
  EXPECT_THAT(warned(10, 0, {"sm_80", "compute_80"}), testing::IsEmpty());
  EXPECT_THAT(warned(7, 0, {}), testing::IsEmpty());
}

TEST(CudaDevice, ALogicalDeviceMayBeGivenLessMemory) {
  Machine machine({}, 2);
  machine[0].set_capacity(32 << 20);
  EXPECT_EQ(machine[0].info().total_memory, 32U << 20);
  Memory first(machine[0], 20 << 20);
  EXPECT_EQ(machine[0].free_memory(), 12U << 20);
  EXPECT_THAT(message_of([&] { machine[0].allocate(20 << 20); }),
              StartsWith("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 32.00 MiB of "
                         "which 12.00 MiB is free."));
  EXPECT_NO_THROW(Memory(machine[1], 20 << 20));
}

// --- Copies

TEST(CudaCopies, HostToDeviceAndBackAreDoneWhenTheyReturn) {
  Machine machine;
  Memory there(machine[0], sizeof(int) * 3);
  std::vector<int> values = {1, 2, 3}, back(3);
  machine[0].copy_from_host(there.data, values.data(), there.bytes);
  values.assign(3, 0);  // the caller may reuse its memory
  machine[0].copy_to_host(back.data(), there.data, there.bytes);
  EXPECT_THAT(back, ElementsAre(1, 2, 3));
}

TEST(CudaCopies, ACopyBackComesAfterTheKernelsBeforeIt) {
  Machine machine;
  Memory there(machine[0], sizeof(int));
  auto* value = static_cast<int*>(there.data);
  machine[0].fill_zero(value, sizeof(int));
  machine.driver.launch(nullptr, [=] { *value += 5; });
  int back = 0;
  machine[0].copy_to_host(&back, value, sizeof(int));
  EXPECT_EQ(back, 5);
}

TEST(CudaCopies, FillAndCopyWithinDoNotWait) {
  Machine machine;
  Memory there(machine[0], 8);
  machine[0].fill_zero(there.data, 8);
  EXPECT_EQ(machine.driver.calls("stream_synchronize"), 0);
  EXPECT_EQ(static_cast<unsigned char*>(there.data)[0], 0xCD);  // not yet
  machine[0].synchronize();
  EXPECT_EQ(static_cast<unsigned char*>(there.data)[0], 0);
}

TEST(CudaCopies, OfPinnedMemoryMayReturnBeforeTheyAreDone) {
  Machine machine;
  Memory there(machine[0], sizeof(int));
  auto* pinned = static_cast<int*>(machine[0].allocate_pinned(sizeof(int)));
  *pinned = 7;
  machine[0].copy_from_host_async(there.data, pinned, sizeof(int));
  EXPECT_EQ(machine.driver.calls("stream_synchronize"), 0);
  machine[0].synchronize();
  EXPECT_EQ(*static_cast<int*>(there.data), 7);
  machine[0].free_pinned(pinned, sizeof(int));
}

TEST(CudaCopies, OfOrdinaryMemoryWaitEvenWhenAskedNotTo) {
  Machine machine;
  Memory there(machine[0], sizeof(int));
  {
    int value = 7;
    machine[0].copy_from_host_async(there.data, &value, sizeof value);
  }
  EXPECT_EQ(*static_cast<int*>(there.data), 7);
  int back = 0;
  machine[0].copy_to_host_async(&back, there.data, sizeof back);
  EXPECT_EQ(back, 7);
}

TEST(CudaCopies, OfNothingStartNothing) {
  Machine machine;
  machine[0].copy_from_host(nullptr, nullptr, 0);
  machine[0].fill_zero(nullptr, 0);
  EXPECT_EQ(machine.driver.calls("copy") + machine.driver.calls("fill"), 0);
}

// --- The current device

TEST(CudaCurrent, WorkGoesToItsOwnDeviceWhicheverIsCurrent) {
  Machine machine({.devices = 2});
  Memory first(machine[0], 8), second(machine[1], 8);
  EXPECT_EQ(machine.driver.taken(0), 2 * kMiB);
  EXPECT_EQ(machine.driver.taken(1), 2 * kMiB);
  machine[0].ops();  // kernels of this thread go to cuda:0 from here on
  EXPECT_EQ(&CudaBackend::active(), &machine[0]);
  machine[1].fill_zero(second.data, 8);
  EXPECT_EQ(&CudaBackend::active(), &machine[0]);
  int device = -1;
  machine.driver.launch(nullptr, [&] { device = machine.driver.running_on(); });
  machine[0].synchronize();
  EXPECT_EQ(device, 0);
}

// --- Errors

TEST(CudaErrors, HavePyTorchsText) {
  Machine machine;
  Memory there(machine[0], 8);
  machine.driver.fail("fill", core::gpu::kInvalidValue);
  EXPECT_EQ(message_of([&] { machine[0].fill_zero(there.data, 8); }),
            "CUDA error: invalid argument\n"
            "Search for `cudaErrorInvalidValue' in "
            "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might "
            "be incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n");
  machine.driver.fail("fill", core::gpu::kSuccess);
  EXPECT_NO_THROW(machine[0].fill_zero(there.data, 8));  // it was only this call
}

TEST(CudaErrors, WithBlockingLaunchesTheHintIsLeftOut) {
  Machine machine;
  setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  machine.driver.fail("device_synchronize", core::gpu::kInvalidValue);
  const std::string text = message_of([&] { machine[0].synchronize(); });
  unsetenv("CUDA_LAUNCH_BLOCKING");
  EXPECT_THAT(text, testing::Not(HasSubstr("asynchronously reported")));
}

TEST(CudaErrors, OfAKernelComeWithTheNextSynchronisationAndStay) {
  Machine machine;
  Memory there(machine[0], 8);
  machine.driver.break_device(core::gpu::kIllegalAddress);
  EXPECT_NO_THROW(machine[0].fill_zero(there.data, 8));
  const char* text = "CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegalAddress'";
  EXPECT_THAT(message_of([&] { machine[0].synchronize(); }), StartsWith(text));
  EXPECT_THAT(message_of([&] { machine[0].ops(); }), StartsWith(text));
  EXPECT_THAT(message_of([&] { machine[0].allocate(8); }), StartsWith(text));
  EXPECT_THAT(message_of([&] { machine[0].free_memory(); }), StartsWith(text));
}

TEST(CudaErrors, ARefusedIndexIsADeviceSideAssert) {
  Machine machine;
  int* flag = machine[0].assert_flag();
  machine.driver.launch(nullptr, [=] { *flag = 1; });
  EXPECT_THAT(message_of([&] { machine[0].synchronize(); }), StartsWith("CUDA error: device-side assert triggered"));
  EXPECT_THAT(message_of([&] { machine[0].ops(); }), StartsWith("CUDA error: device-side assert triggered"));
}

TEST(CudaErrors, AQuestionLeavesNoneForTheNextLaunch) {
  Machine machine;
  const StreamHandle side = machine[0].pool_stream(0);
  void* data = machine[0].allocate(64);
  machine.driver.launch(side, [] {});
  machine[0].record_stream(data, side, 0);
  machine[0].free(data, 64);
  machine[0].free(machine[0].allocate(64), 64);  // asks whether `side` is done
  EXPECT_EQ(machine.driver.api().last_error(), core::gpu::kSuccess);
}

TEST(CudaErrors, OneDeviceMayDieAlone) {
  Machine machine({.devices = 2});
  int* flag = machine[0].assert_flag();
  *flag = 1;
  EXPECT_THROW(machine[0].synchronize(), core::Error);
  EXPECT_NO_THROW(machine[1].synchronize());
}

TEST(CudaCurrent, FreedMemoryWaitsForItsUsersWhicheverDeviceIsCurrent) {
  Machine machine({.devices = 2});
  void* data = machine[1].allocate(64);
  const StreamHandle side = machine[1].pool_stream(0);
  {
    const CudaBackend::Current there(machine[1]);
    machine.driver.launch(side, [] {});
  }
  machine[1].record_stream(data, side, 1);
  machine[0].ops();
  machine[1].free(data, 64);
  void* next = machine[1].allocate(64);
  EXPECT_NE(next, data);
  machine[1].free(next, 64);
}

TEST(CudaCurrent, FreedMemoryWaitsForStreamsOfOtherDevices) {
  Machine machine({.devices = 2});
  void* data = machine[0].allocate(64);
  const StreamHandle side = machine[1].pool_stream(0);
  {
    const CudaBackend::Current there(machine[1]);
    machine.driver.launch(side, [] {});
  }
  machine[0].record_stream(data, side, 1);
  machine[0].free(data, 64);
  void* next = machine[0].allocate(64);
  EXPECT_NE(next, data);
  machine[0].free(next, 64);
  machine[1].synchronize();
  void* again = machine[0].allocate(64);
  EXPECT_EQ(again, data);
  machine[0].free(again, 64);
}

// --- Pinned memory

TEST(PinnedCache, BlocksAreReusedBySize) {
  Machine machine;
  void* first = machine[0].allocate_pinned(1000);
  machine[0].free_pinned(first, 1000);
  EXPECT_EQ(machine[0].allocate_pinned(600), first);  // both round up to 1024
  machine[0].free_pinned(first, 600);
}

TEST(PinnedCache, ABlockInUseByACopyIsNotGivenOut) {
  Machine machine;
  Memory there(machine[0], 1024);
  void* first = machine[0].allocate_pinned(1024);
  machine[0].copy_from_host_async(there.data, first, 1024);
  machine[0].free_pinned(first, 1024);
  void* second = machine[0].allocate_pinned(1024);
  EXPECT_NE(second, first);
  machine[0].synchronize();
  EXPECT_EQ(machine[0].allocate_pinned(1024), first);
  machine[0].free_pinned(first, 1024);
  machine[0].free_pinned(second, 1024);
}

TEST(PinnedCache, GivesWhatNobodyUsesBack) {
  Machine machine;
  machine[0].synchronize();  // what a device has for itself is there
  const std::size_t before = machine.driver.live_host_blocks();
  machine[0].free_pinned(machine[0].allocate_pinned(5000), 5000);
  EXPECT_EQ(machine.driver.live_host_blocks(), before + 1);
  machine[0].empty_cache();
  EXPECT_EQ(machine.driver.live_host_blocks(), before);
}

TEST(PinnedCache, WithoutMemoryTheDriversErrorIsThrown) {
  Machine machine;
  machine.driver.fail("allocate_host", core::gpu::kOutOfMemory);
  EXPECT_THAT(message_of([&] { machine[0].allocate_pinned(1 << 20); }), StartsWith("CUDA error: out of memory"));
}

// --- Peers

TEST(CudaPeers, ACopyWaitsForTheSourceAndIsWaitedFor) {
  Machine machine({.devices = 2});
  Memory from(machine[0], sizeof(int)), to(machine[1], sizeof(int));
  auto* source = static_cast<int*>(from.data);
  machine.driver.api().set_device(0);
  machine[0].ops();
  machine.driver.launch(nullptr, [=] { *source = 9; });
  EXPECT_TRUE(machine[1].copy_from_peer(to.data, machine[0], from.data, sizeof(int)));
  EXPECT_EQ(machine.driver.calls("stream_synchronize"), 0);
  int back = 0;
  machine[1].copy_to_host(&back, to.data, sizeof back);
  EXPECT_EQ(back, 9);
  EXPECT_EQ(machine.driver.calls("copy_peer"), 1);
}

TEST(CudaPeers, WhatTheTargetStillComputesComesFirst) {
  Machine machine({.devices = 2});
  Memory from(machine[0], sizeof(int)), to(machine[1], sizeof(int));
  machine[0].fill_zero(from.data, sizeof(int));
  auto* target = static_cast<int*>(to.data);
  machine[1].ops();
  machine.driver.launch(nullptr, [=] { *target = 4; });  // of whoever had the memory before
  machine[1].copy_from_peer(to.data, machine[0], from.data, sizeof(int));
  machine[0].synchronize();
  machine[1].synchronize();
  EXPECT_EQ(*target, 0);
}

TEST(CudaPeers, ARefusedCopyGoesByTheHost) {
  Machine machine({.devices = 2, .peers = false});
  machine.driver.fail("copy_peer", core::gpu::kInvalidValue);
  const std::size_t count = (9 * kMiB + 4096) / sizeof(int);  // three parts, the last a short one
  Memory from(machine[0], count * sizeof(int)), to(machine[1], count * sizeof(int));
  std::vector<int> values(count), back(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<int>(i);
  machine[0].copy_from_host(from.data, values.data(), from.bytes);
  EXPECT_TRUE(machine[1].copy_from_peer(to.data, machine[0], from.data, from.bytes));
  machine[1].copy_to_host(back.data(), to.data, to.bytes);
  EXPECT_EQ(back, values);
  EXPECT_FALSE(machine[1].can_access(machine[0]));
}

TEST(CudaPeers, WithoutAccessACopyGoesByTheHost) {
  Machine machine({.devices = 2, .peers = false});
  Memory from(machine[0], sizeof(int)), to(machine[1], sizeof(int));
  const int value = 3;
  machine[0].copy_from_host(from.data, &value, sizeof value);
  EXPECT_TRUE(machine[1].copy_from_peer(to.data, machine[0], from.data, sizeof value));
  int back = 0;
  machine[1].copy_to_host(&back, to.data, sizeof back);
  EXPECT_EQ(back, 3);
  EXPECT_EQ(machine.driver.calls("copy_peer"), 0);
}

TEST(CudaPeers, OnOneGpuTheCopyIsAnOrdinaryOne) {
  Machine machine({.devices = 1}, 2);
  Memory from(machine[0], sizeof(int)), to(machine[1], sizeof(int));
  const int value = 3;
  machine[0].copy_from_host(from.data, &value, sizeof value);
  machine[1].copy_from_peer(to.data, machine[0], from.data, sizeof value);
  int back = 0;
  machine[1].copy_to_host(&back, to.data, sizeof back);
  EXPECT_EQ(back, 3);
  EXPECT_EQ(machine.driver.calls("copy_peer"), 0);
}

TEST(CudaPeers, AccessIsAskedForOnce) {
  Machine machine({.devices = 2});
  EXPECT_TRUE(machine[1].can_access(machine[0]));
  EXPECT_TRUE(machine[1].can_access(machine[0]));
  EXPECT_EQ(machine.driver.calls("enable_peer_access"), 1);
  machine.driver.fail("enable_peer_access", core::gpu::kInvalidValue);
  EXPECT_FALSE(machine[0].can_access(machine[1]));
}

TEST(CudaPeers, MemoryOfTheHostIsNoPeers) {
  Machine machine;
  core::CpuBackend cpu{core::Device("cpu")};
  char byte = 0;
  EXPECT_FALSE(machine[0].copy_from_peer(nullptr, cpu, &byte, 1));
  EXPECT_FALSE(machine[0].can_access(cpu));
}

// --- Everything the backend took goes back

TEST(CudaBackend, LeavesNothingBehind) {
  test::FakeDriver driver({.devices = 2});
  {
    auto devices = core::gpu::discover(driver.api(), core::logical_op_tables(), {.logical_devices = 3});
    auto& backend = dynamic_cast<CudaBackend&>(*devices[0]);
    void* data = backend.allocate(3 << 20);
    backend.record_stream(data, backend.pool_stream(0), 0);
    backend.free(data, 3 << 20);
    backend.free_pinned(backend.allocate_pinned(8), 8);
  }
  EXPECT_EQ(driver.taken(0) + driver.taken(1), 0U);
  EXPECT_EQ(driver.live_host_blocks(), 0U);
  EXPECT_EQ(driver.live_events(), 0U);
  EXPECT_EQ(driver.live_streams(), 0U);
}

}  // namespace

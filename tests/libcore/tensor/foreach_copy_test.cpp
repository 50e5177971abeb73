#include "libcore/tensor/foreach_copy.h"

#include <gtest/gtest.h>

#include <set>

#include "libcore/backend/device_registry.h"
#include "libcore/backend/transfer_ring.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"
#include "tests/libckpt/bridge/device_kinds.h"

namespace {

using core::Device;
using core::DType;
using core::Tensor;

std::vector<Tensor> all_sorts() {
  core::manual_seed(1);
  const Tensor whole = core::randn({6, 4});
  return {core::randn({3}),
          core::randn({70000}),    // no longer small
          core::randn({1500000}),  // more than a slot of the ring
          whole,
          whole.narrow(0, 2, 2),  // shares its storage
          whole.t(),              // strided
          core::empty({0, 3}),
          core::tensor(2.5),
          core::tensor({true, false, true}),
          core::randn({5}).to(DType::bf16),
          core::arange(7),
          core::randn({16383})};
}

TEST(ToDevice, GivesWhatMovingOneByOneGives) {
  test::for_each_device_kind([](Device device) {
    const std::vector<Tensor> tensors = all_sorts();
    const std::vector<Tensor> there = core::to_device(tensors, device);
    ASSERT_EQ(there.size(), tensors.size());
    std::set<const void*> storages;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Tensor one = tensors[i].to(device);
      EXPECT_EQ(there[i].device(), device);
      EXPECT_EQ(there[i].dtype(), one.dtype());
      EXPECT_EQ(there[i].sizes(), one.sizes());
      EXPECT_EQ(there[i].strides(), one.strides());
      EXPECT_EQ(there[i].storage().nbytes(), one.storage().nbytes());
      EXPECT_TRUE(there[i].cpu().equal(tensors[i])) << i;
      EXPECT_TRUE(storages.insert(there[i].storage().id()).second);
    }
  });
}

TEST(ToDevice, BringsThemBack) {
  test::for_each_device_kind([](Device device) {
    const std::vector<Tensor> tensors = all_sorts();
    const std::vector<Tensor> back = core::to_device(core::to_device(tensors, device), Device());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(back[i].device().is_cpu());
      EXPECT_EQ(back[i].strides(), tensors[i].to(device).cpu().strides());
      EXPECT_TRUE(back[i].equal(tensors[i])) << i;
    }
  });
}

TEST(ToDevice, LeavesWhatIsThereOrUndefined) {
  const test::OpaqueDevices devices;
  const Tensor there = core::ones({3}).to(Device("cuda:0"));
  const std::vector<Tensor> tensors{there, Tensor(), core::ones({2}).to(Device("cuda:1"))};
  const std::vector<Tensor> moved = core::to_device(tensors, Device("cuda:0"));
  EXPECT_TRUE(moved[0].is_same(there));
  EXPECT_FALSE(moved[1].defined());
  EXPECT_EQ(moved[2].device(), Device("cuda:0"));
}

TEST(ToDevice, RecordsTheHistoryOfWhatHasOne) {
  const test::OpaqueDevices devices;
  const Tensor weight = core::ones({3}).requires_grad_();
  const Tensor moved = core::to_device(std::vector<Tensor>{weight}, Device("cuda:0"))[0];
  moved.sum().backward();
  EXPECT_EQ(weight.grad().to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(ToDevice, MovesAThousandSmallOnesInAFewCopies) {
  const test::FakeDevices devices;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 1000; ++i) tensors.push_back(core::full({256}, static_cast<float>(i)));
  std::vector<Tensor> there = core::to_device(tensors, Device("cuda:0"));
  EXPECT_EQ(devices.driver.calls("copy"), 1);
  EXPECT_EQ(there[998].cpu().to_vector<float>()[255], 998);
  there = core::to_device(there, Device());
  EXPECT_EQ(devices.driver.calls("copy"), 3);
}

TEST(ToDevice, ReadsTheTensorsBeforeItReturns) {
  const test::FakeDevices devices;  // nothing is copied there before somebody waits
  const Tensor x = core::ones({70000}), small = core::ones({3});
  const std::vector<Tensor> there = core::to_device(std::vector<Tensor>{x, small}, Device("cuda:0"));
  x.fill_(7);
  small.fill_(7);
  EXPECT_EQ(there[0].cpu().to_vector<float>()[69999], 1);
  EXPECT_EQ(there[1].cpu().to_vector<float>()[2], 1);
}

TEST(ToDevice, GivesMemoryBackWithTheLastOfItsTensors) {
  test::for_each_device_kind([](Device device) {
    std::vector<Tensor> there = core::to_device(std::vector<Tensor>{core::ones({3}), core::ones({5})}, device);
    EXPECT_EQ(core::cuda::memory_allocated(device), 1024U);  // as PyTorch: 512 bytes each
    there[0] = Tensor();
    EXPECT_EQ(there[1].cpu().to_vector<float>()[4], 1);
    there.clear();
    EXPECT_EQ(core::cuda::memory_allocated(device), 0U);
  });
}

TEST(ToDevice, KeepsNothingWhenTheDeviceIsFull) {
  const test::OpaqueDevices devices;
  core::set_memory_limit("cuda:0", 4 << 20);
  const std::vector<Tensor> tensors{core::ones({3}), core::ones({70000}), core::ones({2000000})};
  EXPECT_THROW(core::to_device(tensors, Device("cuda:0")), core::OutOfMemoryError);
  EXPECT_EQ(core::cuda::memory_allocated("cuda:0"), 0U);
}

TEST(ToDevice, AFailedCopyIsAnError) {
  const test::OpaqueDevices devices;
  core::inject_faults("cuda:0", {.fail_copy = 1});
  const std::vector<Tensor> tensors{core::ones({70000}), core::ones({2000000})};
  EXPECT_THROW(core::to_device(tensors, Device("cuda:0")), core::Error);
  EXPECT_EQ(core::cuda::memory_allocated("cuda:0"), 0U);
}

TEST(ToDevice, PartsOfABlockAreKnownByTheBlock) {
  const test::OpaqueDevices devices;
  const auto there = core::to_device(std::vector<Tensor>{core::ones({3}), core::ones({5})}, Device("cuda:0"));
  void* first = const_cast<void*>(there[0].raw_data());
  void* second = const_cast<void*>(there[1].raw_data());
  EXPECT_EQ(core::allocation_of(second), core::allocation_of(first));
  EXPECT_TRUE(core::in_one_block(first, second));
  int host = 0;
  EXPECT_EQ(core::allocation_of(&host), &host);
}

struct Net : core::ModuleOf<Net> {
  core::Linear first{3, 4};
  core::BatchNorm1d norm{4};
  core::Linear second{4, 3};
  Net() { second.weight = core::Parameter(first.weight.detach().t()); }
  void members(core::Members& m) override { m.child("first", first).child("norm", norm).child("second", second); }
};

TEST(ModuleTo, MovesParametersGradientsAndBuffersTogether) {
  const test::FakeDevices devices;
  Net net;
  const Tensor weight = net.first.weight;
  const std::vector<float> values = weight.detach().to_vector<float>();
  net.first.weight.set_grad(core::full({4, 3}, 5.0));
  net.to(Device("cuda:0"));
  EXPECT_TRUE(net.first.weight.is_same(weight));
  EXPECT_TRUE(net.first.weight.requires_grad());
  EXPECT_EQ(devices.driver.calls("copy"), 2);  // the transposed weight goes by itself
  EXPECT_EQ(net.first.weight.detach().cpu().to_vector<float>(), values);
  EXPECT_EQ(net.first.weight.grad().cpu().to_vector<float>()[11], 5);
  EXPECT_EQ(net.norm.running_var.cpu().to_vector<float>(), (std::vector<float>{1, 1, 1, 1}));
  EXPECT_TRUE(net.second.weight.detach().cpu().equal(core::from_values(values).view({4, 3}).t()));
  net.to(Device());
  EXPECT_EQ(net.first.weight.detach().to_vector<float>(), values);
}

TEST(ModuleTo, LeavesTheModuleWhereItWasWhenTheDeviceIsFull) {
  const test::OpaqueDevices devices;
  core::set_memory_limit("cuda:0", 4 << 20);
  core::Linear net(2000, 1000);
  EXPECT_THROW(net.to(Device("cuda:0")), core::OutOfMemoryError);
  EXPECT_TRUE(net.weight.device().is_cpu());
  EXPECT_TRUE(net.bias.device().is_cpu());
}

TEST(TransferRing, GivesASlotBackWhenItsCopyIsDone) {
  const test::FakeDevices devices;
  core::Backend& backend = core::backend_for("cuda:0");
  const Tensor there = core::zeros({4}, {.dtype = DType::u8, .device = Device("cuda:0")});
  core::TransferRing ring(backend, {.slot_bytes = 512, .slots = 1});
  for (int i = 0; i < 4; ++i) {
    *ring.slot(0) = static_cast<std::byte>(i + 1);
    const core::TransferRing::Part part[] = {{static_cast<std::byte*>(there.mutable_raw_data()) + i, 0, 1}};
    ring.send(0, part);
  }
  ring.finish();
  EXPECT_EQ(there.cpu().to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 2, 3, 4}));
}

TEST(TransferRing, StagedCopiesComeAfterWhatTheStreamWasGiven) {
  test::FakeDevices devices;
  const Tensor there = core::ones({2000000}).to(Device("cuda:0"));
  const core::cuda::Stream stream = core::cuda::current_stream();
  devices.driver.launch(stream.native(), [&] { static_cast<float*>(there.mutable_raw_data())[1999999] = 5; });
  std::vector<float> host(2000000);
  core::copy_to_host_staged(core::backend_for("cuda:0"), host.data(), there.raw_data(), host.size() * sizeof(float));
  EXPECT_EQ(host[1999999], 5);
  EXPECT_EQ(host[0], 1);
}

}  // namespace

// Loading to devices whose memory the host cannot touch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/bridge.h"
#include "libcore/backend/collectives.h"
#include "libcore/backend/device_registry.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/adam.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/libckpt/bridge/device_kinds.h"
#include "tests/libckpt/bridge/models.h"
#include "tests/support/temp_dir.h"

namespace {

using core::Device;
using core::StateDict;
using core::Tensor;
using testing::HasSubstr;
using testing::StartsWith;

template <class F>
std::string message_of(F function) {
  try {
    function();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

/// Small and large tensors, of which one is a view of another, two are one, and one is strided.
StateDict all_sorts() {
  core::manual_seed(2);
  StateDict state;
  const Tensor whole = core::randn({300, 300});
  state.set("whole", whole);
  state.set("row", whole.select(0, 7));
  state.set("turned", core::randn({5, 4}).t());
  state.set("bias", core::randn({33}));
  state.set("again", state.at("bias"));
  state.set("count", core::tensor(3));
  state.set("none", core::empty({0, 2}));
  state.set("large", core::randn({1300000}));
  state.set("half", core::randn({77}).to(core::DType::bf16));
  return state;
}

void expect_equal(const StateDict& state, const StateDict& wanted, Device device) {
  ASSERT_EQ(state.size(), wanted.size());
  for (const auto& [key, tensor] : wanted) {
    EXPECT_EQ(state.at(key).device(), device) << key;
    EXPECT_EQ(state.at(key).strides(), tensor.strides()) << key;
    EXPECT_TRUE(state.at(key).cpu().equal(tensor)) << key;
  }
}

class DeviceLoad : public testing::TestWithParam<const char*> {
 protected:
  std::string file(const std::string& stem = "net") const { return (dir_.path() / (stem + GetParam())).string(); }
  test::TempDir dir_;
};

TEST_P(DeviceLoad, GivesWhatTheHostGets) {
  ckpt::save(all_sorts(), file(),
             {.codec = std::string_view(GetParam()) == ".ckpt" ? ckpt::Codec::zstd : ckpt::Codec::automatic});
  const StateDict wanted = ckpt::load(file());
  test::for_each_device_kind([&](Device device) {
    expect_equal(ckpt::load(file(), {.map_location = device}), wanted, device);
    ckpt::LoadOptions options{.map_location = device, .ring = {.slot_bytes = 4 << 10, .slots = 2}};
    options.open.check_hashes = true;
    options.open.threads = 4;
    expect_equal(ckpt::load(file(), options), wanted, device);
  });
}

TEST_P(DeviceLoad, KeepsTheTiesOfTheFile) {
  ckpt::save(all_sorts(), file());
  const StateDict here = ckpt::load(file());
  test::for_each_device_kind([&](Device device) {
    const StateDict there = ckpt::load(file(), {.map_location = device});
    for (const auto& [a, unused] : here) {
      for (const auto& [b, also_unused] : here) {
        const bool tied = here.at(a).storage().id() == here.at(b).storage().id();
        EXPECT_EQ(there.at(a).storage().id() == there.at(b).storage().id(), tied) << a << ' ' << b;
      }
    }
  });
}

TEST_P(DeviceLoad, FillsAModuleThatIsThere) {
  test::TwoLayers source;
  ckpt::save(source.state_dict(), file());
  test::for_each_device_kind([&](Device device) {
    test::TwoLayers net;
    net.to(device);
    const void* memory = net.fc1.weight.raw_data();
    const std::uint32_t version = net.fc1.weight.version();
    const ckpt::LoadReport report = ckpt::load_into(net, file());
    EXPECT_EQ(report.loaded, 4U);
    EXPECT_EQ(net.fc1.weight.raw_data(), memory);
    EXPECT_GT(net.fc1.weight.version(), version);
    EXPECT_TRUE(net.fc1.weight.detach().cpu().equal(source.fc1.weight));
    EXPECT_TRUE(net.fc2.bias.detach().cpu().equal(source.fc2.bias));
  });
}

TEST_P(DeviceLoad, WritesWhatADeviceComputedLast) {
  test::FakeDevices devices;
  const Tensor there = core::ones({70000}).to(Device("cuda:0"));
  StateDict state;
  state.set("x", there);
  const core::cuda::Stream side("cuda:0");
  const core::cuda::StreamGuard guard(side);
  devices.driver.launch(side.native(), [&] { static_cast<float*>(there.mutable_raw_data())[69999] = 5; });
  ckpt::save(state, file());
  EXPECT_EQ(ckpt::load(file(), {.map_location = "cpu"}).at("x").to_vector<float>()[69999], 5);
}

INSTANTIATE_TEST_SUITE_P(Formats, DeviceLoad, testing::Values(".ckpt", ".pth", ".safetensors"));

StateDict many_small(int count) {
  StateDict state;
  for (int i = 0; i < count; ++i) state.set("t" + std::to_string(i), core::full({100}, static_cast<float>(i)));
  return state;
}

TEST(DeviceRing, SmallTensorsTravelTogether) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "net.ckpt").string();
  ckpt::save(many_small(500), file);
  const test::FakeDevices devices;
  const StateDict state = ckpt::load(file, {.map_location = "cuda:0"});
  EXPECT_EQ(devices.driver.calls("copy"), 1);
  EXPECT_EQ(devices.driver.calls("allocate"), 1);
  EXPECT_EQ(state.at("t499").cpu().to_vector<float>()[99], 499);
  EXPECT_EQ(state.at("t3").storage().nbytes(), 400U);
}

TEST(DeviceRing, TheHostDoesNotWaitForTheLastCopies) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "net.ckpt").string();
  ckpt::save(many_small(5), file);
  const test::FakeDevices devices;
  const StateDict state = ckpt::load(file, {.map_location = "cuda:0"});
  EXPECT_EQ(devices.driver.calls("stream_synchronize"), 0);
  EXPECT_EQ(devices.driver.calls("device_synchronize"), 0);
  EXPECT_EQ(devices.driver.calls("event_synchronize"), 0);
}

TEST(DeviceRing, TakesNoMorePinnedMemoryThanItsSlots) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "net.ckpt").string();
  ckpt::save(all_sorts(), file);
  const test::FakeDevices devices;
  ckpt::load(file, {.map_location = "cuda:0", .ring = {.slot_bytes = 64 << 10, .slots = 3}});
  EXPECT_LE(devices.driver.calls("allocate_host"), 1 + 3);  // one of the device itself
}

TEST(AbsentDevice, IsReportedWithKeyTagAndCountBeforeAByteIsRead) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "net.ckpt").string();
  {
    const test::OpaqueDevices devices;
    StateDict state;
    state.set("here", core::ones({4}).to(Device("cuda:0")));
    state.set("there", core::ones({4}).to(Device("cuda:1")));
    ckpt::save(state, file);
  }
  core::set_opaque_devices(1);
  const std::uint64_t before = core::cuda::max_memory_allocated("cuda:0");
  EXPECT_EQ(message_of([&] { ckpt::load(file); }),
            file +
                ": 'there' (tagged 'cuda:1', 1 CUDA device here): Attempting to deserialize object on CUDA device 1 "
                "but torch.cuda.device_count() is 1. Please use torch.load with map_location to map your storages "
                "to an existing device.");
  EXPECT_EQ(core::cuda::max_memory_allocated("cuda:0"), before);
  core::set_logical_devices(0);
  EXPECT_THAT(message_of([&] { ckpt::load(file); }),
              StartsWith(file + ": 'here' (tagged 'cuda:0', 0 CUDA devices here): Attempting to deserialize object on "
                                "a CUDA device but torch.cuda.is_available() is False."));
}

TEST(AbsentDevice, OfATrainingStateLeavesEverything) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "run.ckpt").string();
  test::TwoLayers net;
  core::Adam adam(net.parameters(), {});
  {
    const test::OpaqueDevices devices;
    test::TwoLayers there;
    there.to(Device("cuda:1"));
    core::Adam optimizer(there.parameters(), {});
    ckpt::save_training(file, there, optimizer);
  }
  const Tensor before = net.fc1.weight.detach().clone();
  EXPECT_THAT(message_of([&] { ckpt::resume_training(file, net, adam); }),
              HasSubstr("'fc1.weight' (tagged 'cuda:1', 0 CUDA devices here)"));
  EXPECT_TRUE(net.fc1.weight.detach().equal(before));
}

/// The last byte of the file's tensors changed, where hashes see it.
void damage(const std::string& file, std::string_view bytes) {
  std::string content = test::read_file(file);
  const std::size_t at = content.find(bytes);
  ASSERT_NE(at, std::string::npos);
  content[at] = static_cast<char>(content[at] ^ 1);
  test::write_file(file, content);
}

TEST(BrokenLoad, ADamagedTensorIsNamed) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "net.ckpt").string();
  StateDict state;
  state.set("good", core::ones({70000}));
  state.set("bad", core::full({5}, 1234567.0));
  ckpt::save(state, file, {.codec = ckpt::Codec::none});
  const float value = 1234567;
  damage(file, {reinterpret_cast<const char*>(&value), sizeof value});
  test::for_each_device_kind([&](Device device) {
    ckpt::LoadOptions options{.map_location = device};
    options.open.check_hashes = true;
    EXPECT_THAT(message_of([&] { ckpt::load(file, options); }), HasSubstr("'bad': the tensor's bytes are damaged"));
    EXPECT_EQ(core::cuda::memory_allocated(device), 0U);
  });
}

TEST(BrokenLoad, ADeviceWithoutRoomKeepsNothing) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "net.ckpt").string();
  ckpt::save(all_sorts(), file);
  const test::OpaqueDevices devices;
  core::set_memory_limit("cuda:0", 4 << 20);
  EXPECT_THROW(ckpt::load(file, {.map_location = "cuda:0"}), core::OutOfMemoryError);
  EXPECT_EQ(core::cuda::memory_allocated("cuda:0"), 0U);
  core::set_memory_limit("cuda:0", 0);
  EXPECT_EQ(ckpt::load(file, {.map_location = "cuda:0"}).size(), 9U);
}

TEST(BrokenLoad, AFailedCopyIsAnErrorAndTheNextLoadWorks) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "net.ckpt").string();
  ckpt::save(all_sorts(), file);
  const test::OpaqueDevices devices;
  core::inject_faults("cuda:0", {.fail_copy = 2});
  ckpt::LoadOptions options{.map_location = "cuda:0", .ring = {.slot_bytes = 64 << 10}};
  EXPECT_THAT(message_of([&] { ckpt::load(file, options); }), HasSubstr("CUDA error: invalid argument"));
  EXPECT_EQ(core::cuda::memory_allocated("cuda:0"), 0U);
  core::inject_faults("cuda:0", {});
  EXPECT_EQ(ckpt::load(file, options).size(), 9U);
}

/// Losses of three steps on fixed data.
std::vector<float> train(test::TwoLayers& net, core::Optimizer& optimizer) {
  std::vector<float> losses;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = core::full({2, 3}, static_cast<float>(i)).to(net.fc1.weight.device());
    const Tensor loss = net(x).pow(2).sum();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<float>());
  }
  return losses;
}

TEST(ResumeOnADevice, ContinuesTheSameLosses) {
  const test::TempDir dir;
  const std::string file = (dir.path() / "run.ckpt").string();
  const test::OpaqueDevices devices;
  test::TwoLayers net;
  net.to(Device("cuda:0"));
  core::Adam adam(net.parameters(), {.lr = 0.01});
  train(net, adam);
  ckpt::save_training(file, net, adam);
  const std::vector<float> expected = train(net, adam);
  test::TwoLayers other;
  other.to(Device("cuda:1"));
  core::Adam fresh(other.parameters(), {.lr = 0.5});
  ckpt::resume_training(file, other, fresh);
  const core::ParamState& state = fresh.state_of(other.fc1.weight);
  ASSERT_EQ(state.size(), 3U);
  for (const auto& [name, tensor] : state) {
    EXPECT_EQ(tensor.device(), name == "step" ? Device() : Device("cuda:1")) << name;
  }
  EXPECT_EQ(train(other, fresh), expected);
}

}  // namespace

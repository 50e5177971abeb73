// Saves that are written while the tensors change.
#include "libckpt/bridge/save_async.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "libcore/backend/cuda_graph.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/warning.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/random.h"
#include "tests/libckpt/bridge/device_kinds.h"
#include "tests/libckpt/bridge/models.h"
#include "tests/support/temp_dir.h"

namespace {

using core::Device;
using core::StateDict;
using core::Tensor;
using testing::HasSubstr;

/// What a writer that reports progress waits for, so that a test can act while a save is under way.
class Gate {
 public:
  ckpt::SaveOptions options() {
    ckpt::SaveOptions save;
    save.progress = [this](std::uint64_t, std::uint64_t) { opened_.wait(); };
    return save;
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

StateDict state_of(const Tensor& x) {
  StateDict state;
  state.set("x", x);
  return state;
}

float last_of(const std::filesystem::path& file) {
  return ckpt::load(file, {.map_location = "cpu"}).at("x").to_vector<float>().back();
}

class SaveAsync : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path file(const std::string& stem = "net") const { return dir_.path() / (stem + GetParam()); }
  test::TempDir dir_;
};

TEST_P(SaveAsync, WritesTheBytesOfAPlainSave) {
  core::manual_seed(3);
  StateDict state;
  const Tensor whole = core::randn({300, 300});
  state.set("whole", whole);
  state.set("row", whole.select(0, 7));
  state.set("turned", core::randn({5, 4}).t());
  ckpt::save(state, file("plain"));
  ckpt::PendingSave save = ckpt::save_async(state, file());
  whole.fill_(0);
  save.wait();
  EXPECT_TRUE(save.done());
  EXPECT_EQ(test::read_file(file()), test::read_file(file("plain")));
  EXPECT_EQ(test::list_folder(dir_.path()).size(), 2U);
}

TEST_P(SaveAsync, KeepsWhatTheHostHadAtTheCall) {
  const Tensor x = core::ones({70000});
  Gate gate;
  const ckpt::PendingSave save = ckpt::save_async(state_of(x), file(), {.save = gate.options()});
  x.fill_(9);
  gate.open();
  save.wait();
  EXPECT_EQ(last_of(file()), 1);
}

TEST_P(SaveAsync, KeepsWhatADeviceHadAtTheCall) {
  for (const ckpt::SnapshotPlace place :
       {ckpt::SnapshotPlace::automatic, ckpt::SnapshotPlace::device, ckpt::SnapshotPlace::host}) {
    test::FakeDevices devices;
    const Tensor x = core::ones({700000}).to(Device("cuda:0"));
    const core::cuda::Stream stream = core::cuda::current_stream();
    devices.driver.launch(stream.native(), [&] { static_cast<float*>(x.mutable_raw_data())[699999] = 5; });
    const int waits = devices.driver.calls("stream_synchronize");
    Gate gate;
    const ckpt::PendingSave save = ckpt::save_async(state_of(x), file(), {.save = gate.options(), .snapshot = place});
    EXPECT_EQ(devices.driver.calls("stream_synchronize"), waits);
    devices.driver.launch(stream.native(), [&] { static_cast<float*>(x.mutable_raw_data())[699999] = 9; });
    gate.open();
    save.wait();
    core::cuda::synchronize();  // what was launched refers to x
    EXPECT_EQ(last_of(file()), 5);
    EXPECT_EQ(ckpt::open(file()).root.find("x")->as_entry().location,
              std::string_view(GetParam()) == ".safetensors" ? "cpu" : "cuda:0");
  }
}

// It pins memory, copies and asks for events, all of which a capture of every thread's calls would forbid.
TEST_P(SaveAsync, StandsBesideACaptureOfAGraphAndTheCaptureBesideIt) {
  test::FakeDevices devices;
  const Tensor x = core::ones({3000000}).to(Device("cuda:0"));
  Gate gate;
  const ckpt::PendingSave save = ckpt::save_async(state_of(x), file(), {.save = gate.options()});
  core::cuda::Graph graph;
  graph.capture([&] {
    gate.open();
    save.wait();
  });
  EXPECT_TRUE(graph.is_captured());
  EXPECT_EQ(last_of(file()), 1);
}

TEST_P(SaveAsync, KeepsATrainingState) {
  test::TwoLayers net;
  core::Adam adam(net.parameters(), {});
  const Tensor weight = net.fc1.weight.detach();
  net(core::ones({2, 3})).sum().backward();
  adam.step();
  const Tensor before = weight.clone();
  if (std::string_view(GetParam()) == ".safetensors") return;  // holds one state dict
  const ckpt::PendingSave save = ckpt::save_training_async(file(), net, adam, {.epoch = 3});
  adam.step();
  save.wait();
  EXPECT_FALSE(weight.equal(before));
  EXPECT_EQ(ckpt::resume_training(file(), net, adam).epoch, 3);
  EXPECT_TRUE(weight.equal(before));
}

/// A net with buffers, a parameter that gets no gradient and one of several parts, with gradients.
struct WideNet : core::ModuleOf<WideNet> {
  core::Linear wide{300, 700};
  core::BatchNorm1d norm{700};
  core::Linear idle{3, 3};
  void members(core::Members& m) override { m.child("wide", wide).child("norm", norm).child("idle", idle); }
  Tensor forward(const Tensor& x) { return norm(wide(x)); }
};

std::unique_ptr<WideNet> wide_net_with_gradients() {
  core::manual_seed(5);
  auto net = std::make_unique<WideNet>();
  (*net)(core::randn({4, 300})).square().sum().backward();
  return net;
}

TEST(StepAndSave, WritesWhatAStepAndThenASaveWouldAndTakesTheSameStep) {
  const test::TempDir dir;
  const auto plain = wide_net_with_gradients(), net = wide_net_with_gradients();
  core::Adam plain_adam(plain->parameters(), {}), adam(net->parameters(), {});
  for (int step = 1; step <= 3; ++step) {  // the first one makes the state
    plain_adam.step();
    ckpt::save_training(dir.path() / "plain.ckpt", *plain, plain_adam, {.step = step});
    ckpt::PendingSave save = ckpt::step_and_save_async(dir.path() / "net.ckpt", *net, adam, {.step = step});
    net->wide.weight.detach().fill_(0);
    save.wait();
    net->wide.weight.detach().copy_(plain->wide.weight.detach());
    EXPECT_EQ(test::read_file(dir.path() / "net.ckpt"), test::read_file(dir.path() / "plain.ckpt")) << step;
  }
}

TEST(StepAndSave, SavesWhatHooksMakeOfTheParameters) {
  const test::TempDir dir;
  const auto net = wide_net_with_gradients();
  core::SGD sgd(net->parameters(), {.lr = 0.1});
  sgd.register_step_post_hook([&](core::Optimizer&) { net->wide.bias.detach().fill_(7); });
  ckpt::step_and_save_async(dir.path() / "a.ckpt", *net, sgd).wait();
  EXPECT_EQ(ckpt::load(dir.path() / "a.ckpt").at("wide.bias").to_vector<float>().back(), 7);
  core::SGD other(net->parameters(), {.lr = 0.1});
  net->register_state_dict_pre_hook([&](core::Module&, const std::string&, bool) { net->wide.bias.detach().fill_(8); });
  ckpt::step_and_save_async(dir.path() / "b.ckpt", *net, other).wait();
  EXPECT_EQ(ckpt::load(dir.path() / "b.ckpt").at("wide.bias").to_vector<float>().back(), 8);
}

TEST(StepAndSave, SavesNothingWhereTheStepFails) {
  const test::TempDir dir;
  const auto net = wide_net_with_gradients();
  core::SGD sgd(net->parameters(), {.lr = 0.1});
  sgd.register_step_pre_hook([](core::Optimizer&) { throw std::runtime_error("no step today"); });
  EXPECT_THAT([&] { ckpt::step_and_save_async(dir.path() / "a.ckpt", *net, sgd); },
              testing::ThrowsMessage<std::runtime_error>("no step today"));
  EXPECT_TRUE(test::list_folder(dir.path()).empty());
}

TEST(StepAndSave, RefusesAHookThatSavesMeanwhile) {
  const test::TempDir dir;
  const auto net = wide_net_with_gradients();
  core::SGD sgd(net->parameters(), {.lr = 0.1});
  sgd.register_step_post_hook([&](core::Optimizer&) { ckpt::save_async(net->state_dict(), dir.path() / "b.ckpt"); });
  EXPECT_THAT([&] { ckpt::step_and_save_async(dir.path() / "a.ckpt", *net, sgd); },
              testing::ThrowsMessage<core::Error>(HasSubstr("asks for another save")));
  ckpt::save_async(net->state_dict(), dir.path() / "c.ckpt").wait();  // others go on
  EXPECT_EQ(test::list_folder(dir.path()).size(), 1U);
}

TEST_P(SaveAsync, KeepsADevicesParametersAsTheStepLeavesThem) {
  if (std::string_view(GetParam()) == ".safetensors") return;  // holds one state dict
  test::OpaqueDevices devices;
  test::TwoLayers net;
  net.to(Device("cuda:0"));
  core::Adam adam(net.parameters(), {});
  net(core::ones({2, 3}).to(Device("cuda:0"))).sum().backward();
  const ckpt::PendingSave save = ckpt::step_and_save_async(file(), net, adam);
  const Tensor after = net.fc1.weight.detach().cpu();
  save.wait();
  core::cuda::synchronize();
  const Tensor saved = ckpt::load(file(), {.map_location = "cpu"}).at("fc1.weight");
  EXPECT_EQ(saved.to_vector<float>(), after.to_vector<float>());
}

INSTANTIATE_TEST_SUITE_P(Formats, SaveAsync, testing::Values(".ckpt", ".pth", ".safetensors"));

/// kB that the field `name` of the mapping around `data` says: "LazyFree" what the system may take back at any time.
std::size_t mapping_field(const void* data, const std::string& name) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) inside = begin <= address && address < end;
    if (inside && line.starts_with(name + ":")) return std::stoul(line.substr(name.size() + 1));
  }
  return 0;
}

std::size_t lazily_free(const void* data) {
  return mapping_field(data, "LazyFree");
}

/// Whether huge pages lie in the mapping around `block`.
bool has_huge_pages(const void* block) {
  return mapping_field(block, "AnonHugePages") > 0;
}

TEST(SnapshotMemory, KeepsOneBlockThatTheSystemMayHaveBack) {
  constexpr std::size_t kBytes = 8 << 20;
  ckpt::SnapshotMemory memory;
  auto* block = static_cast<std::byte*>(memory.take(kBytes).data());
  std::memset(block, 1, kBytes);
  EXPECT_EQ(lazily_free(block), 0U);
  memory.rest();
  EXPECT_GT(lazily_free(block), kBytes / 1024 / 2);  // the kernel counts the last few pages later
  EXPECT_EQ(memory.take(kBytes - 5).data(), block);
  std::memset(block, 2, kBytes);  // in use again
  EXPECT_EQ(lazily_free(block), 0U);
  EXPECT_EQ(memory.take(kBytes / 2).nbytes(), kBytes);
  EXPECT_LT(memory.take(kBytes / 2 - 1).nbytes(), kBytes);  // too large for that
  EXPECT_GE(memory.take(kBytes * 2).nbytes(), kBytes * 2);
}

TEST(SnapshotMemory, JoinsItsPagesUnlessSomebodyWaits) {
  constexpr std::size_t kBytes = 8 << 20;
  ckpt::SnapshotMemory memory;
  auto* block = static_cast<std::byte*>(memory.take(kBytes).data());
  std::memset(block, 1, kBytes);
  memory.join_pages(true);
  EXPECT_FALSE(has_huge_pages(block));
  memory.join_pages(false);
  if (!has_huge_pages(block)) GTEST_SKIP() << "the system has no huge pages, or gives none on demand";
  memory.rest();
  EXPECT_GT(lazily_free(block), kBytes / 1024 / 2);
  EXPECT_EQ(block[kBytes - 1], std::byte{1});
  EXPECT_TRUE(has_huge_pages(block));
}

TEST(SnapshotMemory, IsThereWhenItWasPrepared) {
  constexpr std::size_t kBytes = 8 << 20;
  constexpr std::size_t kPage = 4096;
  const auto pages_there = [](void* block) {
    std::vector<unsigned char> there(kBytes / kPage);
    EXPECT_EQ(::mincore(block, kBytes, there.data()), 0);
    return std::count_if(there.begin(), there.end(), [](unsigned char page) { return (page & 1) != 0; });
  };
  ckpt::SnapshotMemory untouched, prepared;
  prepared.prepare(kBytes);
  EXPECT_EQ(pages_there(untouched.take(kBytes).data()), 0);
  EXPECT_EQ(pages_there(prepared.take(kBytes).data()), kBytes / kPage);
}

TEST(SnapshotMemory, IsCountedWithoutACopy) {
  const Tensor x = core::ones({3000});
  const Tensor y = core::ones({5});
  ckpt::Snapshot counted(ckpt::SnapshotPlace::nowhere), real;
  for (const Tensor& tensor : {x, y, x.narrow(0, 7, 9)}) {
    counted.of(tensor.storage());
    real.of(tensor.storage());
  }
  EXPECT_GE(counted.host_bytes(), 3005 * sizeof(float));
  EXPECT_EQ(counted.host_bytes(), real.host_bytes());
}

TEST(SnapshotMemory, TheHostIsCopiedInTheSecondHalf) {
  const Tensor x = core::ones({3});
  ckpt::Snapshot snapshot;
  const ckpt::SourcePtr copy = snapshot.of(x.storage());
  snapshot.finish_on_devices();
  x.fill_(2);
  snapshot.finish_on_host();
  x.fill_(3);
  EXPECT_EQ(reinterpret_cast<const float*>(copy->memory().data())[0], 2);
}

TEST(SnapshotMemory, CopiesOfTwoSnapshotsHoldWhatEachSaw) {
  const auto memory = std::make_shared<ckpt::SnapshotMemory>();
  const Tensor x = core::ones({3000});
  const Tensor y = core::ones({5});
  const std::byte* first = nullptr;
  for (float value : {2.0F, 3.0F}) {
    x.fill_(value);
    y.fill_(value + 10);
    ckpt::Snapshot snapshot(ckpt::SnapshotPlace::automatic, memory);
    const ckpt::SourcePtr copy_x = snapshot.of(x.storage());
    const ckpt::SourcePtr copy_y = snapshot.of(y.storage());
    EXPECT_EQ(snapshot.of(x.storage()), copy_x);
    snapshot.finish();
    x.fill_(0);
    y.fill_(0);
    float last = 0;
    copy_x->read(2999 * sizeof last, {reinterpret_cast<std::byte*>(&last), sizeof last});
    EXPECT_EQ(last, value);
    EXPECT_EQ(reinterpret_cast<const float*>(copy_y->memory().data())[4], value + 10);
    EXPECT_THROW(copy_y->read(17, {reinterpret_cast<std::byte*>(&last), sizeof last}), core::Error);
    if (first == nullptr) first = copy_x->memory().data();
    EXPECT_EQ(copy_x->memory().data(), first);
    memory->rest();
  }
}

/// Of more bytes than are copied at once, into memory that is new, that was there, and that is too small by then.
TEST(SnapshotMemory, HoldsAllBytesInNewMemoryAndInOld) {
  const auto memory = std::make_shared<ckpt::SnapshotMemory>();
  for (const std::int64_t count : {786'433, 786'433, 3'000'001}) {
    std::vector<Tensor> tensors;
    for (const std::int64_t size : {count, std::int64_t{3}, std::int64_t{262'144}}) {
      tensors.push_back(core::arange(size).sub_(size));
    }
    ckpt::Snapshot snapshot(ckpt::SnapshotPlace::automatic, memory);
    std::vector<ckpt::SourcePtr> copies;
    for (const Tensor& tensor : tensors) copies.push_back(snapshot.of(tensor.storage()));
    snapshot.finish();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      ASSERT_EQ(copies[i]->size(), tensors[i].storage().nbytes());
      EXPECT_EQ(std::memcmp(copies[i]->memory().data(), tensors[i].raw_data(), copies[i]->size()), 0) << i;
    }
    memory->rest();
  }
}

class Saves : public testing::Test {
 protected:
  std::filesystem::path file(const char* name = "net.ckpt") const { return dir_.path() / name; }
  test::TempDir dir_;
};

TEST_F(Saves, ADefaultHandleIsDone) {
  const ckpt::PendingSave none;
  none.wait();
  EXPECT_TRUE(none.done());
}

TEST_F(Saves, ASecondOneWaitsForTheFirst) {
  const Tensor x = core::ones({70000});
  Gate gate;
  const ckpt::PendingSave first = ckpt::save_async(state_of(x), file(), {.save = gate.options()});
  EXPECT_FALSE(first.done());
  std::atomic<bool> opened = false;
  std::thread second([&] {
    const ckpt::PendingSave save = ckpt::save_async(state_of(x), file());
    EXPECT_TRUE(opened);
    EXPECT_TRUE(first.done());
    save.wait();
  });
  opened = true;
  gate.open();
  second.join();
  EXPECT_EQ(last_of(file()), 1);
}

TEST_F(Saves, GoToHostMemoryWhereTheDeviceHasNoRoom) {
  const test::OpaqueDevices devices;
  core::set_memory_limit("cuda:0", 30 << 20);
  const Tensor x = core::ones({5000000}).to(Device("cuda:0"));
  const std::uint64_t before = core::cuda::memory_allocated("cuda:0");
  EXPECT_THROW(ckpt::save_async(state_of(x), file(), {.snapshot = ckpt::SnapshotPlace::device}),
               core::OutOfMemoryError);
  const ckpt::PendingSave save = ckpt::save_async(state_of(x), file());
  x.fill_(9);
  save.wait();
  EXPECT_EQ(last_of(file()), 1);
  EXPECT_EQ(core::cuda::memory_allocated("cuda:0"), before);
}

TEST_F(Saves, FreeTheCopyWhenTheyAreDone) {
  const test::OpaqueDevices devices;
  const Tensor x = core::ones({70000}).to(Device("cuda:0"));
  const std::uint64_t before = core::cuda::memory_allocated("cuda:0");
  Gate gate;
  const ckpt::PendingSave save = ckpt::save_async(state_of(x), file(), {.save = gate.options()});
  EXPECT_GT(core::cuda::memory_allocated("cuda:0"), before);
  gate.open();
  save.wait();
  EXPECT_EQ(core::cuda::memory_allocated("cuda:0"), before);
}

TEST_F(Saves, AFailureIsThrownByEveryWait) {
  const ckpt::PendingSave save = ckpt::save_async(state_of(core::ones({3})), dir_.path() / "none" / "net.ckpt");
  EXPECT_THROW(save.wait(), core::Error);
  EXPECT_THROW(save.wait(), core::Error);
  EXPECT_TRUE(save.done());
}

TEST_F(Saves, AFailureThatNobodyAsksForIsAWarning) {
  std::vector<std::string> warnings;
  const core::WarningHandler before =
      core::set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  ckpt::save_async(state_of(core::ones({3})), dir_.path() / "none" / "net.ckpt");
  ckpt::save_async(state_of(core::ones({3})), file()).wait();
  core::set_warning_handler(before);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("a save in the background failed: "));
  EXPECT_THAT(warnings[0], HasSubstr("none/net.ckpt"));
}

TEST_F(Saves, ABrokenDeviceIsAnErrorOfWait) {
  const test::OpaqueDevices devices;
  const Tensor x = core::ones({70000}).to(Device("cuda:0"));
  core::inject_faults("cuda:0", {.fail_copy = 0});
  const ckpt::PendingSave save = ckpt::save_async(state_of(x), file());
  EXPECT_THROW(save.wait(), core::Error);
  EXPECT_TRUE(test::list_folder(dir_.path()).empty());
}

using SavesDeathTest = Saves;

TEST_F(SavesDeathTest, AProcessThatEndsFinishesThem) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const char* folder = std::getenv("CKPT_SAVES_FOLDER");  // set for the process that ends
  const std::filesystem::path target = folder != nullptr ? folder : dir_.path();
  ::setenv("CKPT_SAVES_FOLDER", target.c_str(), 1);
  EXPECT_EXIT(
      {
        ckpt::save_async(state_of(core::ones({700000})), target / "net.ckpt");
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  ::unsetenv("CKPT_SAVES_FOLDER");
  if (folder == nullptr) {
    EXPECT_EQ(last_of(file()), 1);
  }
}

}  // namespace

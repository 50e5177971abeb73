// What must hold between files and a real GPU. Without a device every test skips and says so; with
// CORE_LOGICAL_DEVICES=opaque:2 they run on memory of the host that the host cannot touch.
#include <gtest/gtest.h>

#include "libckpt/bridge.h"
#include "libcore/backend/device_registry.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/foreach_copy.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/support/temp_dir.h"

namespace {

using core::Device;
using core::StateDict;
using core::Tensor;

const Device kGpu("cuda:0");

struct GpuIo : testing::Test {
  void SetUp() override {
    if (core::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  std::string file(const char* name = "net.ckpt") const { return (dir_.path() / name).string(); }
  test::TempDir dir_;
};

/// Tensors of every size from nothing to several slots of a ring.
StateDict every_size() {
  core::manual_seed(5);
  StateDict state;
  int i = 0;
  for (const std::int64_t size : {0, 1, 3, 127, 128, 129, 1000, 65535, 65536, 70000, 1048576, 3000001}) {
    state.set("t" + std::to_string(i++), core::randn({size}));
  }
  return state;
}

TEST_F(GpuIo, FilesComeBackAsTheyWent) {
  const StateDict state = every_size();
  for (const char* name : {"net.ckpt", "net.pth", "net.safetensors"}) {
    ckpt::save(state, file(name));
    const StateDict there = ckpt::load(file(name), {.map_location = kGpu});
    ckpt::save(there, file(name));
    for (const auto& [key, tensor] : ckpt::load(file(name), {.map_location = "cpu"})) {
      EXPECT_TRUE(tensor.equal(state.at(key))) << name << ' ' << key;
      EXPECT_TRUE((there.at(key) * 2).cpu().equal(state.at(key) * 2)) << name << ' ' << key;
    }
  }
}

TEST_F(GpuIo, ValuesAreThereForTheNextKernelWithoutAWait) {
  ckpt::save(every_size(), file());
  for (int round = 0; round < 20; ++round) {
    const StateDict there = ckpt::load(file(), {.map_location = kGpu, .ring = {.slot_bytes = 64 << 10, .slots = 3}});
    const Tensor sum = there.at("t11").sum();  // enqueued behind the last copy
    EXPECT_EQ(sum.item<float>(), there.at("t11").sum().item<float>());
  }
}

TEST_F(GpuIo, ManyTensorsMoveThereAndBackTogether) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 3000; ++i) tensors.push_back(core::full({1 + i % 700}, static_cast<float>(i)));
  const std::vector<Tensor> back = core::to_device(core::to_device(tensors, kGpu), Device());
  for (std::size_t i = 0; i < tensors.size(); ++i) ASSERT_TRUE(back[i].equal(tensors[i])) << i;
}

TEST_F(GpuIo, ASaveKeepsWhatItWasGivenWhileTrainingGoesOn) {
  const Tensor x = core::ones({20000000}).to(kGpu);
  StateDict state;
  state.set("x", x);
  for (const ckpt::SnapshotPlace place : {ckpt::SnapshotPlace::device, ckpt::SnapshotPlace::host}) {
    x.fill_(1);
    const ckpt::PendingSave save = ckpt::save_async(state, file(), {.snapshot = place});
    for (int i = 0; i < 10; ++i) x.add_(1);
    save.wait();
    EXPECT_TRUE(ckpt::load(file(), {.map_location = "cpu"}).at("x").equal(core::ones({20000000})));
  }
}

}  // namespace

// Saving from and loading to a device whose memory the host cannot touch, in every format that the bridge writes.
#include <gtest/gtest.h>

#include "libckpt/bridge.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/module/linear.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/temp_dir.h"

namespace {

using core::Device;
using core::Tensor;

class OpaqueFiles : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { core::set_opaque_devices(2); }
  void TearDown() override { core::set_logical_devices(0); }
};

TEST_P(OpaqueFiles, KeepWhatADeviceHolds) {
  const test::TempDir folder;
  const std::string file = (folder.path() / ("net" + std::string(GetParam()))).string();
  core::Linear net(3, 2);
  const std::vector<float> weight = net.weight.detach().to_vector<float>();
  net.to(Device("cuda:1"));
  ckpt::save(net.state_dict(), file);
  for (const char* place : {"cpu", "cuda:0"}) {
    const core::StateDict loaded = ckpt::load(file, {.map_location = place});
    EXPECT_EQ(loaded.at("weight").device(), Device(place));
    EXPECT_EQ(loaded.at("weight").to_vector<float>(), weight);
  }
  core::Linear other(3, 2);
  other.to(Device("cuda:0"));
  ckpt::load_into(other, file);
  EXPECT_EQ(other.weight.device(), Device("cuda:0"));
  EXPECT_EQ(other.weight.detach().to_vector<float>(), weight);
}

INSTANTIATE_TEST_SUITE_P(Formats, OpaqueFiles, testing::Values(".ckpt", ".pth", ".safetensors"));

TEST(OpaqueTraining, StateComesBackToItsDevice) {
  core::set_opaque_devices(1);
  {
    const Tensor transposed = core::arange(6).view({2, 3}).to(Device("cuda:0")).t();
    const test::TempDir folder;
    const std::string file = (folder.path() / "view.pth").string();
    core::StateDict state;
    state.set("x", transposed);
    ckpt::save(state, file);
    EXPECT_EQ(ckpt::load(file).at("x").device(), Device("cuda:0"));
    EXPECT_TRUE(ckpt::load(file).at("x").equal(transposed));
  }
  core::set_logical_devices(0);
}

}  // namespace

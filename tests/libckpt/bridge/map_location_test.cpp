#include "libckpt/bridge/map_location.h"

#include <gtest/gtest.h>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"

namespace {

using ckpt::MapLocation;

std::string failure_of(const MapLocation& map, const char* tag) {
  try {
    map.device(tag);
    return "no error";
  } catch (const core::Error& error) {
    return error.what();
  }
}

class MapLocationTest : public testing::Test {
 protected:
  void SetUp() override { core::set_logical_devices(2); }
  void TearDown() override { core::set_logical_devices(0); }
};

TEST_F(MapLocationTest, NothingGivenFollowsTheTag) {
  EXPECT_EQ(MapLocation().device("cuda:1").str(), "cuda:1");
  EXPECT_EQ(MapLocation().device("cpu").str(), "cpu");
}

TEST_F(MapLocationTest, OneDeviceTakesAll) {
  EXPECT_EQ(MapLocation("cpu").device("cuda:1").str(), "cpu");
  EXPECT_EQ(MapLocation("cuda").device("cpu").str(), "cuda:0");
}

TEST_F(MapLocationTest, TableKeysAreExact) {
  MapLocation map(MapLocation::Table{{"cuda", "cpu"}, {"cuda:1", "cuda:0"}});
  EXPECT_EQ(map.target("cuda:1"), "cuda:0");
  EXPECT_EQ(map.target("cuda:10"), "cuda:10");
  EXPECT_EQ(map.target("cuda"), "cpu");
}

TEST_F(MapLocationTest, AFunctionMayLeaveTheTag) {
  MapLocation map(MapLocation::Function([](std::string_view tag) { return tag == "npu:0" ? "cpu" : ""; }));
  EXPECT_EQ(map.device("npu:0").str(), "cpu");
  EXPECT_EQ(map.device("cuda:1").str(), "cuda:1");
}

TEST_F(MapLocationTest, MissingDevicesGetTheTextOfTorchLoad) {
  EXPECT_EQ(
      failure_of({}, "cuda:3"),
      "Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 2. Please use torch.load "
      "with map_location to map your storages to an existing device.");
  core::set_logical_devices(0);
  EXPECT_EQ(
      failure_of({}, "cuda:0"),
      "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running "
      "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to "
      "the CPU.");
  EXPECT_EQ(failure_of({}, "foo"),
            "don't know how to restore data location of torch.storage.UntypedStorage (tagged with foo)");
}

}  // namespace

#include "libcore/base/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"

namespace {

using core::Device;
using core::DeviceType;

std::string failure_of(const char* text) {
  try {
    Device device{text};
    return "no error";
  } catch (const core::Error& error) {
    return error.what();
  }
}

TEST(Device, PrintsWhatItParsed) {
  EXPECT_EQ(Device("cpu").str(), "cpu");
  EXPECT_EQ(Device("cuda").str(), "cuda");
  EXPECT_EQ(Device("cuda:1").str(), "cuda:1");
  EXPECT_EQ(Device("cpu:0").str(), "cpu:0");
}

TEST(Device, ReprNamesTypeAndIndex) {
  EXPECT_EQ(Device("cuda").repr(), "device(type='cuda')");
  EXPECT_EQ(Device("cuda:1").repr(), "device(type='cuda', index=1)");
}

TEST(Device, EqualityIsLiteral) {
  EXPECT_EQ(Device("cuda:0"), Device(DeviceType::cuda, 0));
  EXPECT_FALSE(Device("cuda") == Device("cuda:0"));
  EXPECT_FALSE(Device("cpu") == Device("cpu:0"));
}

TEST(Device, RefusesMalformedIndexes) {
  EXPECT_EQ(failure_of("cuda:01"), "Invalid device string: 'cuda:01'");
  EXPECT_EQ(failure_of("cuda:"), "Invalid device string: 'cuda:'");
  EXPECT_EQ(failure_of("cuda:-1"), "Invalid device string: 'cuda:-1'");
  EXPECT_EQ(failure_of("cuda:1:2"), "Invalid device string: 'cuda:1:2'");
  EXPECT_EQ(failure_of(""), "Device string must not be empty");
}

TEST(Device, RefusesIndexesAbove127) {
  EXPECT_EQ(Device("cuda:127").index(), 127);
  EXPECT_EQ(failure_of("cuda:128"), "Could not parse device index '128' in device string 'cuda:128'");
  EXPECT_EQ(failure_of("cuda:99999999999"),
            "Could not parse device index '99999999999' in device string 'cuda:99999999999'");
}

TEST(Device, ListsKnownTypesForAnUnknownWord) {
  EXPECT_THAT(failure_of("gpu"), testing::HasSubstr("Expected one of cpu, cuda, ipu, xpu"));
  EXPECT_THAT(failure_of("gpu"), testing::EndsWith("at start of device string: gpu"));
}

TEST(Device, NegativeIndexInTheConstructor) {
  EXPECT_THROW(Device(DeviceType::cuda, -1), core::Error);
}

}  // namespace

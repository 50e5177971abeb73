// ckpt devices, on logical devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/cli/program.h"
#include "tests/support/temp_dir.h"
#include "tools/run/transfer.h"

namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class CliDevices : public ::testing::Test {
 protected:
  test::Outcome run(const char* logical, const std::vector<std::string>& arguments) const {
    return test::run_ckpt(dir_.path(), arguments, {.in_child = [&] {
                            ::setenv("CORE_LOGICAL_DEVICES", logical, 1);
                            ::unsetenv("CUDA_VISIBLE_DEVICES");
                          }});
  }
  test::TempDir dir_;
};

TEST_F(CliDevices, ListsLogicalDevicesAndSaysWhatTheyAre) {
  const test::Outcome done = run("host:2", {"devices"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("Devices of process: 2 visible"));
  EXPECT_THAT(done.out, HasSubstr("logical, host"));
}

TEST_F(CliDevices, PrintsJson) {
  const test::Outcome done = run("host:2", {"devices", "--json"});
  EXPECT_THAT(done.out, StartsWith("{\n  \"schema\": 2,"));
  EXPECT_THAT(done.out, HasSubstr("\"device\": \"cuda:1\""));
  EXPECT_THAT(done.out, HasSubstr("\"logical\": true"));
  EXPECT_THAT(run("host:2", {"devices", "--jsonl"}).out, HasSubstr("{\"of\":\"devices\",\"device\":\"cuda:1\""));
}

TEST_F(CliDevices, SaysHowToGetSomeWhereThereAreNone) {
  if (const test::Outcome done = run("host:0", {"devices"}); done.code == 0) {
    EXPECT_THAT(done.out, HasSubstr("No devices were found\nCORE_LOGICAL_DEVICES=4 gives"));
    EXPECT_EQ(run("host:0", {"devices", "--measure"}).code, 5);
  }
}

TEST_F(CliDevices, MeasuresWhatMovingDataCosts) {
  const test::Outcome done = run("host:1", {"devices", "--measure"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("Moving data to and from cuda:0\n  its memory is host memory"));
  EXPECT_THAT(done.out, HasSubstr("FROM PINNED"));
  EXPECT_THAT(done.out, HasSubstr("1,024 tensors of 4.0 KiB: "));
  EXPECT_THAT(done.out, HasSubstr(" together (core::to_device); the same bytes as one tensor: "));
  EXPECT_THAT(done.out, HasSubstr("\nfrom pinned: "));
  EXPECT_THAT(done.out, HasSubstr(" GB/s (off by at most "));
  EXPECT_THAT(done.out, HasSubstr("break-even: "));
  EXPECT_THAT(run("host:1", {"devices"}).out, Not(HasSubstr("Moving data")));
}

TEST(CostModel, IsTheLineThatTheTimesLieOn) {
  // 10 us and 50 GB/s
  const cli::CostModel model = cli::fit({4096, 1 << 20, 1 << 30}, {10.08192e-6, 30.97152e-6, 21484.83648e-6});
  EXPECT_NEAR(model.latency, 10e-6, 1e-12);
  EXPECT_NEAR(model.bytes_per_second, 50e9, 1);
  EXPECT_LT(model.error, 1e-9);
}

TEST(CostModel, NeverBeginsBelowZeroAndSaysHowFarOffItIs) {
  const cli::CostModel model = cli::fit({1000, 2000}, {1e-6, 4e-6});
  EXPECT_EQ(model.latency, 0);
  EXPECT_NEAR(model.bytes_per_second, 1000 / 1.2e-6, 1);
  EXPECT_NEAR(model.error, 0.4, 1e-9);
}

TEST_F(CliDevices, SayWhatIsMissingWithoutTheirProgram) {
  const test::Outcome done =
      test::run_ckpt(dir_.path(), {"devices"}, {.in_child = [] { ::setenv("CKPT_RUN", "/nonexistent/ckpt-run", 1); }});
  EXPECT_EQ(done.code, 3);
  EXPECT_EQ(done.err,
            "ckpt: models are run by the program ckpt-run, and '/nonexistent/ckpt-run', which CKPT_RUN names, cannot "
            "be it: it does not exist\n");
}

}  // namespace

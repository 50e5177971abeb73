// A system that gives no threads or no processes: work goes on with those that there are, or ends with one line.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/files.h"
#include "tests/cli/scarce_system.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"

using testing::HasSubstr;
using namespace test;

TEST(FewThreads, WorkIsDoneByThoseThatTheSystemGives) {
  TempDir dir;
  std::vector<std::pair<std::string, ckpt::Value>> items;
  for (int i = 0; i < 40; ++i) {
    items.emplace_back("w" + std::to_string(i), tensor(std::vector<float>(5000, static_cast<float>(i))));
  }
  write_checkpoint(dir.path() / "net.safetensors", dict(std::move(items)));
  ASSERT_EQ(run_ckpt(dir.path(), {"convert", "-j", "4", "--codec", "zstd", "net.safetensors", "whole.ckpt"}).code, 0);
  for (const char* first : {"1", "2", "3"}) {
    RunOptions few = where({{"CKPT_FAIL_THREADS", first}});
    Outcome done =
        run_ckpt(dir.path(), {"convert", "-f", "-j", "4", "--codec", "zstd", "net.safetensors", "net.ckpt"}, few);
    EXPECT_EQ(done.code, 0) << first << done.err << done.signal;
    EXPECT_EQ(read_file(dir.path() / "net.ckpt"), read_file(dir.path() / "whole.ckpt"));
    for (std::vector<std::string> command : {std::vector<std::string>{"verify", "net.ckpt"},
                                             {"hash", "net.ckpt"},
                                             {"stat", "net.ckpt"},
                                             {"diff", "net.ckpt", "net.safetensors"}}) {
      command.insert(command.begin() + 1, {"-j", "4"});
      done = run_ckpt(dir.path(), command, few);
      EXPECT_EQ(done.code, 0) << command[0] << done.err << done.signal;
      EXPECT_EQ(done.err, "");
    }
  }
}

TEST(FewProcesses, OneLineWhereTheHelperCannotBeStarted) {
  TempDir dir;
  Hdf5Maker maker(dir.path() / "a.h5");
  maker.floats("fc/weight", {2, 3});
  maker.close();
  expect_refused(dir, {"ls", "a.h5"}, 4, "a.h5", "cannot start", where({{"CKPT_FAIL_PROCESSES", "1"}}));
}

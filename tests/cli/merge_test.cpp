// ckpt merge: models combined by the methods of mergekit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using testing::HasSubstr;
using namespace test;

namespace {

class MergeCommand : public testing::Test {
 protected:
  MergeCommand() {
    write_checkpoint(dir_.path() / "base.pth", dict({{"w", tensor({0, 0, 0})}}));
    write_checkpoint(dir_.path() / "a.pth", dict({{"w", tensor({1, 2, 0})}}));
    write_checkpoint(dir_.path() / "b.pth", dict({{"w", tensor({3, -2, 1})}}));
  }

  Outcome run(const std::vector<std::string>& words) const { return run_ckpt(dir_.path(), words); }
  std::string values(const std::string& file) const { return run({"cat", file, "w"}).out; }

  TempDir dir_;
};

TEST_F(MergeCommand, MergesByEveryMethod) {
  Outcome outcome = run({"merge", "--weights", "0.25,0.75", "a.pth", "b.pth", "-o", "out.pth"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("out.pth: 1 tensor merged over 2 files by linear"));
  EXPECT_THAT(values("out.pth"), HasSubstr("2.5000, -1.0000,  0.7500"));
  for (const char* method : {"task-arithmetic", "ties", "dare-linear", "dare-ties"}) {
    outcome = run({"merge", "--method", method, "--base", "base.pth", "a.pth", "b.pth", "-f", "-o", "out.pth"});
    ASSERT_EQ(outcome.code, 0) << method << outcome.err;
  }
  EXPECT_EQ(run({"merge", "--method", "slerp", "-t", "0.3", "a.pth", "b.pth", "-o", "arc.pth"}).code, 0);
}

TEST_F(MergeCommand, CountsForPrograms) {
  const Outcome outcome = run({"merge", "--json", "--dry-run", "a.pth", "b.pth", "-o", "out.pth"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const ckpt::JsonDocument json = ckpt::JsonDocument::parse(outcome.out);
  EXPECT_EQ(json.root().at("method").as_text(), "linear");
  EXPECT_EQ(json.root().at("merged").as_integer(), 1);
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "out.pth"));
}

TEST_F(MergeCommand, SaysWhatAMethodNeeds) {
  expect_refused(dir_, {"merge", "--method", "ties", "a.pth", "b.pth", "-o", "out.pth"}, 2, "--method ties",
                 "needs the common base: --base FILE");
  expect_refused(dir_, {"merge", "--base", "base.pth", "a.pth", "b.pth", "-o", "out.pth"}, 2, "--method linear",
                 "takes no --base");
  expect_refused(dir_, {"merge", "--method", "mean", "a.pth", "b.pth", "-o", "out.pth"}, 2, "'mean'", "dare-ties");
  write_checkpoint(dir_.path() / "other.pth", dict({{"w", tensor({1, 2})}}));
  expect_refused(dir_, {"merge", "a.pth", "other.pth", "-o", "out.pth"}, 3, "other.pth",
                 "'w' is float32 [2] where the first has float32 [3]");
}

}  // namespace

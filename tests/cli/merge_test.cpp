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

TEST_F(MergeCommand, StacksRunsOfLayers) {
  auto model = [](float start) {
    return dict({{"embed", tensor({start})},
                 {"model.layers.0.w", tensor({start + 1})},
                 {"model.layers.1.w", tensor({start + 2})},
                 {"model.layers.2.w", tensor({start + 3})},
                 {"norm", tensor({start})}});
  };
  write_checkpoint(dir_.path() / "one.safetensors", model(10));
  write_checkpoint(dir_.path() / "two.safetensors", model(20));
  const Outcome outcome = run({"merge", "--method", "passthrough", "--layers", "0-2,1-3,0-1", "one.safetensors",
                               "two.safetensors", "one.safetensors", "-o", "deep.pth"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("5 layers 'model.layers.' from 3 runs"));
  EXPECT_THAT(outcome.err, HasSubstr("has to say 5 layers"));
  EXPECT_THAT(outcome.err, HasSubstr("2 tensors outside of the layers differ between the files ('embed', ...)"));
  EXPECT_THAT(names_in(dir_.path() / "deep.pth"),
              testing::ElementsAre("embed", "model.layers.0.w", "model.layers.1.w", "model.layers.2.w",
                                   "model.layers.3.w", "model.layers.4.w", "norm"));
  const std::vector<std::string> expected = {"11", "12", "22", "23", "11"};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_THAT(run({"cat", "deep.pth", "model.layers." + std::to_string(i) + ".w"}).out, HasSubstr(expected[i]));
  }
  expect_refused(dir_, {"merge", "--method", "passthrough", "--layers", "0-4", "one.safetensors", "-o", "out.pth"}, 2,
                 "one.safetensors", "has no layer 3 ('model.layers.' goes to 2)");
  expect_refused(dir_, {"merge", "--method", "passthrough", "--layers", "0-2", "a.pth", "-o", "out.pth"}, 2, "a.pth",
                 "no key has the number of a layer");
  expect_refused(dir_, {"merge", "--method", "passthrough", "--layers", "2", "a.pth", "-o", "out.pth"}, 2, "'2'",
                 "no run of layers");
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

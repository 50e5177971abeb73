// 'ckpt latest' and 'ckpt gc' on folders of training runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/files.h"
#include "tests/libckpt/run/step_samples.h"

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

namespace {

void save_steps(const TempDir& dir, const std::vector<double>& accuracies) {
  fs::create_directories(dir.path() / "a");
  for (std::size_t i = 0; i < accuracies.size(); ++i) {
    save_step(dir.path() / "a" / ("step-" + std::to_string(i + 1) + ".ckpt"), {{"val_acc", accuracies[i]}});
  }
}

}  // namespace

TEST(Latest, PrintsThePathAloneForAnotherCommand) {
  TempDir dir;
  save_steps(dir, {0.1, 0.2, 0.3});
  damage(dir.path() / "a/step-3.ckpt");
  Outcome any = run_ckpt(dir.path(), {"latest", "a"});
  EXPECT_EQ(any.out, "a/step-3.ckpt\n") << "its structure is whole";
  Outcome valid = run_ckpt(dir.path(), {"latest", "--valid", "a"});
  EXPECT_EQ(valid.code, 0);
  EXPECT_EQ(valid.out, "a/step-2.ckpt\n");
  EXPECT_THAT(valid.err, HasSubstr("ckpt: a/step-3.ckpt: skipped: w: "));
  EXPECT_EQ(run_ckpt(dir.path(), {"latest", "--valid", "-q", "a"}).err, "");
}

TEST(Latest, NoneThereAndNoneValidAreDifferentAnswers) {
  TempDir dir;
  fs::create_directories(dir.path() / "a");
  Outcome none = run_ckpt(dir.path(), {"latest", "a"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "ckpt: a: no checkpoint of a run is there\n");
  fs::create_directories(dir.path() / "a" / "checkpoint-500");
  expect_refused(dir, {"latest", "a"}, 3, "a: ", "the one checkpoint there is not valid");
  expect_refused(dir, {"gc", "--keep-last", "1", "a"}, 3, "a: ", "so none is removed");
  expect_refused(dir, {"latest", "b"}, 4, "b: ", "cannot be read");
}

TEST(Latest, JsonSaysWhatWasSkippedAndIgnored) {
  TempDir dir;
  save_steps(dir, {0.1, 0.2});
  write_file(dir.path() / "a/step-3.ckpt", "");
  write_file(dir.path() / "a/best.ckpt", "");
  Outcome outcome = run_ckpt(dir.path(), {"latest", "--valid", "--json", "a"});
  ckpt::JsonDocument document = ckpt::JsonDocument::parse(outcome.out);
  EXPECT_EQ(document.root().at("path").as_text(), "a/step-2.ckpt");
  EXPECT_EQ(document.root().at("step").as_integer(), 2);
  EXPECT_EQ(document.root().at("checksums").as_text(), "all");
  EXPECT_EQ(document.root().at("skipped").items().at(0).at("step").as_integer(), 3);
  EXPECT_EQ(document.root().at("ignored").items().at(0).at("name").as_text(), "best.ckpt");
  EXPECT_EQ(outcome.err, "");
}

TEST(Gc, DryRunSaysWhatGcDoes) {
  TempDir dir;
  save_steps(dir, {0.1, 0.9, 0.3, 0.2});
  const Names words = {"gc", "a", "--keep-last", "1", "--keep-best", "val_acc"};
  Names dry = words;
  dry.emplace_back("--dry-run");
  Outcome before = run_ckpt(dir.path(), dry);
  EXPECT_EQ(before.code, 0);
  EXPECT_THAT(before.out, HasSubstr("a/step-1.ckpt: would be removed, "));
  EXPECT_EQ(list_folder(dir.path() / "a").size(), 4U);
  Outcome outcome = run_ckpt(dir.path(), words);
  EXPECT_THAT(outcome.out, HasSubstr("a/step-4.ckpt: kept: the last valid one\n"));
  EXPECT_THAT(outcome.out, HasSubstr("a/step-3.ckpt: removed, "));
  EXPECT_THAT(outcome.out, HasSubstr("a/step-2.ckpt: kept: best val_acc: 0.9\n"));
  EXPECT_THAT(outcome.out, HasSubstr("a: 2 kept, 2 removed, "));
  EXPECT_EQ(list_folder(dir.path() / "a"), (Names{"step-2.ckpt", "step-4.ckpt"}));
}

TEST(Gc, SaysWhichStepNeedsAnother) {
  TempDir dir;
  ckpt::Run run(dir.path() / "a", {.save = {.durable = false, .codec = ckpt::Codec::none}, .dedupe = true});
  for (float step : {1, 2, 3}) {
    run.save(static_cast<std::int64_t>(step), checkpoint(dict({{"body", tensor(std::vector<float>(2000, 7))},
                                                               {"head", tensor(std::vector<float>(2000, step))}})));
  }
  std::string listed = run_ckpt(dir.path(), {"ls", "a/step-000000003.ckpt"}).out;
  EXPECT_THAT(listed, testing::AllOf(HasSubstr("body"), HasSubstr("head")));
  Outcome dry = run_ckpt(dir.path(), {"gc", "a", "--keep-last", "1", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out,
              HasSubstr("a/step-000000001.ckpt: kept: 'step-000000003.ckpt' needs 1 of its tensors, 7.8 KiB\n"));
  EXPECT_THAT(dry.out, HasSubstr("a/step-000000002.ckpt: would be removed"));
  EXPECT_EQ(run_ckpt(dir.path(), {"gc", "-q", "a", "--keep-last", "1"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"verify", "--deep", "a/step-000000003.ckpt"}).code, 0);
  fs::rename(dir.path() / "a/step-000000003.ckpt", dir.path() / "moved.ckpt");
  Outcome moved = run_ckpt(dir.path(), {"ls", "moved.ckpt"});
  EXPECT_EQ(moved.code, 3);
  EXPECT_EQ(
      moved.err,
      "ckpt: moved.ckpt: 1 of its 2 tensors lie in 'step-000000001.ckpt', which is not beside it; the two belong in "
      "one folder\n");
}

TEST(SharedSteps, WhatOthersNeedIsNotEditedInPlace) {
  TempDir dir;
  ckpt::Run run(dir.path() / "a", {.save = {.durable = false, .codec = ckpt::Codec::none}, .dedupe = true});
  for (float step : {1, 2}) {
    run.save(static_cast<std::int64_t>(step), checkpoint(dict({{"body", tensor(std::vector<float>(2000, 7))},
                                                               {"head", tensor(std::vector<float>(2000, step))}})));
  }
  const std::string first = "a/step-000000001.ckpt";
  const std::string before = test::read_file(dir.path() / first);
  const Outcome cast = run_ckpt(dir.path(), {"cast", "--in-place", "--to", "f16", first});
  EXPECT_EQ(cast.code, 3);
  EXPECT_EQ(cast.err,
            "ckpt: a/step-000000001.ckpt: 'step-000000002.ckpt' needs 1 of its tensors, 7.8 KiB, and this edit "
            "would change or drop some; name another file with -o, or make a whole file of that one first "
            "('ckpt convert')\n");
  EXPECT_EQ(test::read_file(dir.path() / first), before);
  EXPECT_EQ(run_ckpt(dir.path(), {"cast", "-q", "--to", "f16", first, "-o", "half.ckpt"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"add-prefix", "-q", "--in-place", "--prefix", "p.", first}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"cast", "-q", "--in-place", "--to", "f16", "a/step-000000002.ckpt"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"verify", "--deep", first, "a/step-000000002.ckpt"}).code, 0);
}

TEST(Gc, WhichEndIsTheBestIsAskedWhereItIsNotPlain) {
  TempDir dir;
  save_steps(dir, {0.1, 0.9});
  expect_refused(dir, {"gc", "a", "--keep-best", "reward"}, 2, "'reward'", "'reward:min' or 'reward:max'");
  expect_refused(dir, {"gc", "a", "--keep-best", "reward:max"}, 2, "a: ", "no checkpoint has a metric 'reward'");
  expect_refused(dir, {"gc", "a"}, 2, "", "say what stays");
  expect_refused(dir, {"gc", "a", "--keep-last", "0"}, 2, "--keep-last", "from 1 on");
  EXPECT_EQ(run_ckpt(dir.path(), {"gc", "a", "--keep-best", "val_acc:min"}).code, 0);
  EXPECT_EQ(list_folder(dir.path() / "a").size(), 2U) << "the worst as the best, and the last";
}

TEST(Gc, RemovesNothingWhereTheOrderIsAGuess) {
  TempDir dir;
  for (const char* name : {"gen_epoch_1.pth", "gen_epoch_2.pth", "disc_epoch_1.pth"}) save_step(dir.path() / name);
  expect_refused(dir, {"gc", ".", "--keep-last", "1"}, 2, "'gen_epoch_*'", "2 families of names");
  EXPECT_EQ(run_ckpt(dir.path(), {"gc", ".", "--keep-last", "1", "--pattern", "gen_*"}).code, 0);
  EXPECT_EQ(list_folder(dir.path()), (Names{"disc_epoch_1.pth", "gen_epoch_2.pth"}));
}

TEST(Gc, JsonListsKeptAndRemoved) {
  TempDir dir;
  save_steps(dir, {0.1, 0.9, 0.3});
  std::uint64_t size = fs::file_size(dir.path() / "a/step-1.ckpt") + fs::file_size(dir.path() / "a/step-2.ckpt");
  ckpt::JsonDocument document =
      ckpt::JsonDocument::parse(run_ckpt(dir.path(), {"gc", "a", "--keep-last", "1", "--json"}).out);
  EXPECT_EQ(document.root().at("bytes_freed").as_unsigned(), size);
  EXPECT_EQ(document.root().at("kept").items().size(), 1U);
  EXPECT_EQ(document.root().at("removed").items().at(1).at("path").as_text(), "a/step-1.ckpt");
}

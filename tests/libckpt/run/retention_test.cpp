// What stays of a run and what goes: never the last good checkpoint, never what is not surely one.

#include "libckpt/run/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "tests/libckpt/io/fault.h"
#include "tests/libckpt/run/step_samples.h"
#include "tests/support/message_of.h"

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

namespace {

std::uint64_t collect(const TempDir& dir, const ckpt::Retention& keep) {
  return ckpt::carry_out(ckpt::plan_retention(ckpt::find_steps(dir.path()), keep));
}

void save_steps(const TempDir& dir, const std::vector<double>& losses) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    save_step(dir.path() / ("step-" + std::to_string(i + 1) + ".ckpt"), {{"loss", losses[i]}});
  }
}

std::string why(const ckpt::RetentionPlan& plan, const std::string& name) {
  for (const ckpt::PlannedStep& step : plan.steps) {
    if (step.file.path.filename() == name) return step.stays ? step.why : "goes";
  }
  return "not there";
}

}  // namespace

TEST(Retention, KeepsTheNewestAndSaysWhatWasFreed) {
  TempDir dir;
  save_steps(dir, {5, 4, 3, 2});
  std::uint64_t size = fs::file_size(dir.path() / "step-1.ckpt");
  EXPECT_EQ(collect(dir, {.keep_last = 2}), 2 * size);
  EXPECT_EQ(list_folder(dir.path()), (Names{"step-3.ckpt", "step-4.ckpt"}));
}

TEST(Retention, ADamagedNewestCountsForNothing) {
  TempDir dir;
  save_steps(dir, {5, 4, 3, 2});
  damage(dir.path() / "step-4.ckpt");
  ckpt::RetentionPlan plan = ckpt::plan_retention(ckpt::find_steps(dir.path()), {.keep_last = 1});
  EXPECT_THAT(why(plan, "step-4.ckpt"), HasSubstr("not valid, and not counted: w: "));
  EXPECT_EQ(why(plan, "step-3.ckpt"), "the last valid one");
  ckpt::carry_out(plan);
  EXPECT_EQ(list_folder(dir.path()), (Names{"step-3.ckpt", "step-4.ckpt"}));
}

TEST(Retention, WithNoneValidNothingGoes) {
  TempDir dir;
  save_steps(dir, {5, 4, 3});
  for (const char* name : {"step-1.ckpt", "step-2.ckpt", "step-3.ckpt"}) damage(dir.path() / name);
  EXPECT_THAT(message_of([&] { collect(dir, {.keep_last = 1}); }),
              HasSubstr("none of the 3 checkpoints there is valid"));
  EXPECT_EQ(list_folder(dir.path()).size(), 3U);
}

TEST(Retention, TheBestIsTheLowestOrTheHighestAndOfEqualOnesTheNewest) {
  const std::vector<double> losses = {9, 1, 1, 5, 2};
  auto kept = [&](ckpt::Best best) {
    TempDir dir;
    save_steps(dir, losses);
    collect(dir, {.keep_last = 1, .keep_best = "loss", .best = best});
    return list_folder(dir.path());
  };
  EXPECT_EQ(kept(ckpt::Best::lowest), (Names{"step-3.ckpt", "step-5.ckpt"}));
  EXPECT_EQ(kept(ckpt::Best::highest), (Names{"step-1.ckpt", "step-5.ckpt"}));
}

TEST(Retention, ADamagedBestStaysAndTheNextBestToo) {
  TempDir dir;
  save_steps(dir, {1, 2, 9, 9});
  damage(dir.path() / "step-1.ckpt");
  ckpt::Retention keep{.keep_last = 1, .keep_best = "loss", .best = ckpt::Best::lowest};
  ckpt::RetentionPlan plan = ckpt::plan_retention(ckpt::find_steps(dir.path()), keep);
  EXPECT_TRUE(plan.found_metric);
  EXPECT_THAT(why(plan, "step-1.ckpt"), HasSubstr("best loss: 1.0, but not valid: "));
  EXPECT_EQ(why(plan, "step-2.ckpt"), "best loss: 2.0");
  EXPECT_EQ(why(plan, "step-3.ckpt"), "goes");
}

TEST(Retention, WhatCannotBeOpenedMayBeTheBest) {
  TempDir dir;
  save_steps(dir, {1, 2, 3});
  fs::resize_file(dir.path() / "step-1.ckpt", 5000);
  auto why_stays = [&](const ckpt::Retention& keep) {
    return why(ckpt::plan_retention(ckpt::find_steps(dir.path()), keep), "step-1.ckpt");
  };
  EXPECT_THAT(why_stays({.keep_last = 1, .keep_best = "loss"}), HasSubstr("its loss is not known: the file is cut"));
  EXPECT_EQ(why_stays({.keep_last = 1}), "goes");
}

TEST(Retention, AMetricThatNoneHasIsSaid) {
  TempDir dir;
  save_steps(dir, {1, 2});
  EXPECT_FALSE(ckpt::plan_retention(ckpt::find_steps(dir.path()), {.keep_best = "acc"}).found_metric);
}

TEST(Retention, WhatIsNotSurelyACheckpointStays) {
  TempDir dir;
  for (const char* name : {"epoch_3.pth", "epoch_4.pth", "epoch_5.pth"}) save_step(dir.path() / name);
  write_file(dir.path() / "epoch_1.pth", "my notes on the first epoch");
  write_file(dir.path() / "notes.txt", "more notes");
  save_step(dir.path() / "best.pth");
  fs::create_symlink("epoch_3.pth", dir.path() / "chosen.pth");
  collect(dir, {.keep_last = 1});
  EXPECT_EQ(list_folder(dir.path()),
            (Names{"best.pth", "chosen.pth", "epoch_1.pth", "epoch_3.pth", "epoch_5.pth", "notes.txt"}));
}

TEST(Retention, FoldersGoWholeUnlessSomethingForeignIsInThem) {
  TempDir dir;
  for (int step : {100, 200, 300}) {
    fs::path folder = dir.path() / ("checkpoint-" + std::to_string(step));
    fs::create_directories(folder / "global_step");
    save_step(folder / "model.safetensors");
    write_file(folder / "trainer_state.json", "{}");
    write_file(folder / "global_step" / "rng_state_0.pth", "");
  }
  write_file(dir.path() / "checkpoint-100" / "global_step" / "plot.png", "");
  ckpt::RetentionPlan plan = ckpt::plan_retention(ckpt::find_steps(dir.path()), {.keep_last = 1});
  EXPECT_THAT(why(plan, "checkpoint-100"), HasSubstr("it holds 'global_step/plot.png'"));
  EXPECT_GT(ckpt::carry_out(plan), fs::file_size(dir.path() / "checkpoint-300" / "model.safetensors"));
  EXPECT_EQ(list_folder(dir.path()), (Names{"checkpoint-100", "checkpoint-300"}));
}

TEST(Retention, FoldersWithLinksOrDeepOnesStay) {
  TempDir dir;
  for (int step : {1, 2, 3}) {
    fs::path folder = dir.path() / ("checkpoint-" + std::to_string(step));
    fs::create_directories(folder);
    save_step(folder / "model.safetensors");
  }
  fs::create_symlink("/tmp", dir.path() / "checkpoint-1" / "data.json");
  fs::create_directories(dir.path() / "checkpoint-2" / "a/b/c/d");
  ckpt::RetentionPlan plan = ckpt::plan_retention(ckpt::find_steps(dir.path()), {.keep_last = 1});
  EXPECT_THAT(why(plan, "checkpoint-1"), HasSubstr("it holds 'data.json'"));
  EXPECT_THAT(why(plan, "checkpoint-2"), HasSubstr("it holds 'a/b/c/d/...'"));
}

/// After a kill at any call a folder is there whole, or is none any more, and the next collection takes what is left.
TEST(Retention, KilledAtAnyCallNoHalfFolderIsSeen) {
  bool killed = true;
  int calls = 0;
  for (; killed; ++calls) {
    TempDir dir;
    for (const char* name : {"checkpoint-1", "checkpoint-2", "checkpoint-3"}) {
      fs::create_directories(dir.path() / name);
      save_step(dir.path() / name / "model.safetensors");
      write_file(dir.path() / name / "config.json", "{}");
    }
    int status = fault::run_child([&] {
      fault::Injection injection(calls, 0);
      collect(dir, {.keep_last = 1});
    });
    killed = WIFSIGNALED(status);
    EXPECT_TRUE(ckpt::check_step(dir.path() / "checkpoint-3", ckpt::CheckDepth::every_byte).valid);
    for (const char* name : {"checkpoint-1", "checkpoint-2"}) {
      if (!fs::exists(dir.path() / name)) continue;
      EXPECT_EQ(list_folder(dir.path() / name), (Names{"config.json", "model.safetensors"}));
      EXPECT_TRUE(fs::exists(dir.path() / "checkpoint-2")) << "the oldest goes first";
    }
    collect(dir, {.keep_last = 1});
    EXPECT_EQ(list_folder(dir.path()), Names{"checkpoint-3"}) << "killed at call " << calls;
  }
  EXPECT_GT(calls, 8);
}

TEST(Retention, ShardsGoWithTheirIndexUnlessAnotherNamesThem) {
  TempDir dir;
  auto save_set = [&](const std::string& name) {
    ckpt::Checkpoint model = checkpoint(dict({{"a", tensor({1, 2})}, {"b", tensor({3, 4})}}));
    ckpt::save(model, dir.path() / (name + ".safetensors.index.json"),
               {.format = "safetensors-sharded", .durable = false, .shards = 2});
  };
  save_set("step-1");
  save_set("step-2");
  Names before = list_folder(dir.path());
  collect(dir, {.keep_last = 1});
  EXPECT_EQ(list_folder(dir.path()).size(), before.size() / 2);
  EXPECT_TRUE(ckpt::check_step(dir.path() / "step-2.safetensors.index.json", ckpt::CheckDepth::every_byte).valid);

  save_set("step-3");
  fs::copy_file(dir.path() / "step-2.safetensors.index.json", dir.path() / "chosen.safetensors.index.json");
  collect(dir, {.keep_last = 1});
  EXPECT_TRUE(ckpt::check_step(dir.path() / "chosen.safetensors.index.json", ckpt::CheckDepth::every_byte).valid);
}

TEST(Retention, WhatChangedSinceItWasLookedAtStays) {
  TempDir dir;
  save_steps(dir, {3, 2, 1});
  ckpt::RetentionPlan plan = ckpt::plan_retention(ckpt::find_steps(dir.path()), {.keep_last = 1});
  save_step(dir.path() / "step-1.ckpt");
  EXPECT_THAT(message_of([&] { ckpt::carry_out(plan); }), HasSubstr("'step-1.ckpt' (it was changed meanwhile"));
  EXPECT_EQ(list_folder(dir.path()), (Names{"step-1.ckpt", "step-3.ckpt"}));
  save_steps(dir, {3, 2, 1});
  plan = ckpt::plan_retention(ckpt::find_steps(dir.path()), {.keep_last = 1});
  save_step(dir.path() / "step-3.ckpt");
  EXPECT_THAT(message_of([&] { ckpt::carry_out(plan); }), HasSubstr("so nothing was removed"));
  EXPECT_EQ(list_folder(dir.path()).size(), 3U);
}

TEST(Retention, WhatKilledProgramsLeftGoesToo) {
  TempDir dir;
  save_steps(dir, {3, 2});
  write_file(dir.path() / (".step-9.ckpt.ckpt-tmp-00000000-1-0123456789abcdef"), "half");
  fs::path folder = dir.path() / ".checkpoint-9.ckpt-tmp-00000000-1-0123456789abcdef";
  fs::create_directories(folder / "below");
  write_file(folder / "below" / "model.safetensors", "half");
  collect(dir, {.keep_last = 2});
  EXPECT_EQ(list_folder(dir.path()), (Names{"step-1.ckpt", "step-2.ckpt"}));
}

TEST(Retention, AtLeastOneStays) {
  TempDir dir;
  EXPECT_THAT(message_of([&] { collect(dir, {.keep_last = 0}); }), HasSubstr("always stays"));
  EXPECT_EQ(collect(dir, {.keep_last = 1}), 0U);
}

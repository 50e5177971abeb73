// Steps of a run that store what did not change once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/analyze/diff.h"
#include "libckpt/format/shared_tensors.h"
#include "libckpt/reindex.h"
#include "libckpt/transform/prefix.h"
#include "libcore/base/error.h"
#include "tests/libckpt/run/step_samples.h"
#include "tests/support/message_of.h"

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

namespace {

constexpr std::size_t kFrozen = 100'000;

std::vector<float> counted(std::size_t count, float first) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i) / 7);
  return values;
}

/// A frozen body and a head that is trained.
ckpt::Checkpoint model(float head, float body = 0) {
  return checkpoint(dict({{"body", tensor(counted(kFrozen, body))},
                          {"tied", tensor(counted(2'000, 5))},
                          {"head", tensor(counted(3'000, head))},
                          {"small", tensor({1, 2})}}));
}

class SharedSteps : public ::testing::Test {
 protected:
  ckpt::Run run(std::optional<ckpt::Retention> keep = {}) const {
    return ckpt::Run(folder(),
                     {.save = {.durable = false, .codec = ckpt::Codec::none}, .dedupe = true, .retention = keep});
  }
  fs::path folder() const { return dir_.path() / "a"; }
  std::uintmax_t size_of(int step) const { return fs::file_size(run().path_of(step)); }
  void expect_model(const fs::path& file, float head, float body = 0) const {
    ckpt::Checkpoint read = ckpt::open(file, {.check_hashes = true});
    ckpt::DiffResult found = ckpt::diff(read, model(head, body));
    EXPECT_TRUE(found.differences.empty()) << file;
    EXPECT_TRUE(ckpt::verify(file).damage.empty()) << file;
  }
  Names names() const { return names_of(run().steps().steps); }

  TempDir dir_;
};

TEST_F(SharedSteps, WhatDidNotChangeIsStoredOnce) {
  for (int step : {1, 2, 3}) run().save(step, model(static_cast<float>(step)), {{"acc", step / 10.0}});
  EXPECT_GT(size_of(1), kFrozen * 4);
  EXPECT_LT(size_of(2), 40'000U);
  EXPECT_LT(size_of(3), 40'000U);
  for (int step : {1, 2, 3}) expect_model(run().path_of(step), static_cast<float>(step));
  EXPECT_EQ(run().latest()->step, 3);
  std::vector<ckpt::NeededFile> needed = ckpt::needed_files(run().path_of(3));
  ASSERT_EQ(needed.size(), 1U) << "the file that holds them, not the one in between";
  EXPECT_EQ(needed[0].name, "step-000000001.ckpt");
  EXPECT_EQ(needed[0].tensors, 2U);
  EXPECT_EQ(needed[0].bytes, (kFrozen + 2'000) * 4);
  EXPECT_TRUE(ckpt::needed_files(run().path_of(1)).empty());
}

TEST_F(SharedSteps, ATensorThatChangesBackIsHeldByWhoHasIt) {
  run().save(1, model(1, 10));
  run().save(2, model(2, 20));
  run().save(3, model(3, 20));
  EXPECT_GT(size_of(2), kFrozen * 4);
  EXPECT_LT(size_of(3), 40'000U);
  for (const ckpt::NeededFile& needed : ckpt::needed_files(run().path_of(3))) {
    EXPECT_EQ(needed.bytes, needed.name == "step-000000002.ckpt" ? kFrozen * 4 : 8'000U) << needed.name;
  }
  expect_model(run().path_of(3), 3, 20);
}

TEST_F(SharedSteps, RetentionKeepsWhatAStepNeedsAndSaysSo) {
  for (int step : {1, 2, 3, 4}) run(ckpt::Retention{.keep_last = 1}).save(step, model(static_cast<float>(step)));
  EXPECT_EQ(names(), (Names{"step-000000004.ckpt", "step-000000001.ckpt"}));
  ckpt::RetentionPlan plan = ckpt::plan_retention(run().steps(), {.keep_last = 1});
  EXPECT_EQ(plan.steps[1].why, "'step-000000004.ckpt' needs 2 of its tensors, 398 KiB");
  run(ckpt::Retention{.keep_last = 1}).save(5, model(5, 50));  // needs the two thousand of step 1 still
  EXPECT_EQ(names(), (Names{"step-000000005.ckpt", "step-000000001.ckpt"}));
  ckpt::Run(folder(), {.retention = ckpt::Retention{.keep_last = 1}}).save(6, model(6, 60));
  EXPECT_EQ(names(), Names{"step-000000006.ckpt"}) << "a whole one needs none";
}

TEST_F(SharedSteps, WhatOtherFilesOfTheFolderNeedStaysToo) {
  run().save(1, model(1));
  run().save(2, model(2));
  fs::rename(run().path_of(2), folder() / "best.ckpt");  // no step any more
  ckpt::Run(folder(), {.retention = ckpt::Retention{.keep_last = 1}}).save(3, model(3, 30));
  EXPECT_EQ(names(), (Names{"step-000000003.ckpt", "step-000000001.ckpt"}));
  expect_model(folder() / "best.ckpt", 2);
}

TEST_F(SharedSteps, AChainOfNeedsStays) {
  run().save(1, model(1, 10));
  run().save(2, model(2, 20));  // needs "tied" of 1
  run().save(3, model(3, 20));  // needs "body" of 2
  ckpt::carry_out(ckpt::plan_retention(run().steps(), {.keep_last = 1}));
  EXPECT_EQ(names(), (Names{"step-000000003.ckpt", "step-000000002.ckpt", "step-000000001.ckpt"}));
  for (int step : {2, 3}) expect_model(run().path_of(step), static_cast<float>(step), 20);
}

TEST_F(SharedSteps, AStepThatOthersNeedIsNotSavedOver) {
  run().save(1, model(1));
  run().save(2, model(2));
  std::string before = read_file(run().path_of(1));
  EXPECT_THAT(message_of([&] { ckpt::Run(folder()).save(1, model(9)); }),
              HasSubstr("it is not saved again: 'step-000000002.ckpt' needs 2 of its tensors, 398 KiB"));
  EXPECT_EQ(read_file(run().path_of(1)), before);
  run().save(2, model(7));  // nobody needs that one, and it finds them in 1 again
  EXPECT_LT(size_of(2), 40'000U);
  expect_model(run().path_of(2), 7);
}

TEST_F(SharedSteps, AloneAStepSaysWhereItsTensorsAre) {
  run().save(1, model(1));
  run().save(2, model(2));
  fs::path alone = dir_.path() / "alone.ckpt";
  fs::copy_file(run().path_of(2), alone);
  const std::string sentence =
      "2 of its 4 tensors lie in 'step-000000001.ckpt', which is not beside it; the two belong in one folder";
  EXPECT_THAT(message_of([&] { ckpt::open(alone); }), HasSubstr(sentence));
  EXPECT_THAT(message_of([&] { ckpt::verify(alone); }), HasSubstr(sentence));
  EXPECT_THAT(ckpt::check_step(alone, ckpt::CheckDepth::structure).why, HasSubstr(sentence));
  EXPECT_EQ(ckpt::check_step(alone, ckpt::CheckDepth::structure).valid, false);
  fs::copy(folder(), dir_.path() / "b", fs::copy_options::recursive);
  expect_model(dir_.path() / "b" / run().path_of(2).filename(), 2);
}

TEST_F(SharedSteps, AnotherFileInThePlaceOfTheOneIsSaid) {
  run().save(1, model(1));
  run().save(2, model(2));
  ckpt::save(model(1, 77), run().path_of(1), {.durable = false});
  EXPECT_THAT(message_of([&] { ckpt::open(run().path_of(2)); }),
              HasSubstr("2 of its 4 tensors lay in 'step-000000001.ckpt', which holds others now"));
  write_file(run().path_of(1), "no checkpoint");
  try {
    ckpt::open(run().path_of(2));
    FAIL() << "opened";
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("step-000000001.ckpt: the file is cut"));
  }
}

TEST_F(SharedSteps, TensorsAreFoundHoweverTheOtherFileIsPacked) {
  run().save(1, model(1));
  run().save(2, model(2));
  ckpt::Checkpoint first = ckpt::open(run().path_of(1));
  ckpt::save(ckpt::add_prefix(first), run().path_of(1), {.durable = false, .codec = ckpt::Codec::fast});
  expect_model(run().path_of(2), 2);
}

TEST_F(SharedSteps, DamageInTheOtherFileIsFoundAndNotPassedOn) {
  run().save(1, model(1));
  run().save(2, model(2));
  std::string bytes = read_file(run().path_of(1));
  bytes[bytes.size() / 2] ^= 1;  // of the body
  write_file(run().path_of(1), bytes);
  ckpt::VerifyResult found = ckpt::verify(run().path_of(2));
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_EQ(found.damage[0].subject, "body");
  run().save(3, model(3));
  EXPECT_GT(size_of(3), kFrozen * 4) << "stored anew";
  expect_model(run().path_of(3), 3);
}

TEST_F(SharedSteps, CopiesAndEditsAreWhole) {
  run().save(1, model(1));
  run().save(2, model(2));
  ckpt::Checkpoint second = ckpt::open(run().path_of(2));
  ckpt::save(second, dir_.path() / "whole.ckpt");
  expect_model(dir_.path() / "whole.ckpt", 2);
  ckpt::save(second, dir_.path() / "whole.pth");
  EXPECT_TRUE(ckpt::diff(ckpt::open(dir_.path() / "whole.pth"), model(2)).differences.empty());
  EXPECT_THAT(message_of([&] { ckpt::reindex(run().path_of(2), {}); }),
              HasSubstr("some of its tensors lie in 'step-000000001.ckpt'; make a whole file of it first"));
  ckpt::save(ckpt::add_prefix(second), run().path_of(2), {.in_place = true});
  EXPECT_TRUE(ckpt::needed_files(run().path_of(2)).empty());
  fs::remove(run().path_of(1));
  EXPECT_TRUE(ckpt::verify(run().path_of(2)).damage.empty());
}

TEST_F(SharedSteps, WhatCannotShareSaysSo) {
  EXPECT_THAT(message_of([&] { ckpt::Run(folder(), {.extension = ".pth", .dedupe = true}); }),
              HasSubstr("steps that share tensors are .ckpt files"));
  run().save(1, model(1));
  ckpt::Run parity(folder(), {.save = {.durable = false, .parity = 0.05}, .dedupe = true});
  EXPECT_THAT(message_of([&] { parity.save(2, model(2)); }), HasSubstr("parity data covers one file"));
  EXPECT_EQ(names(), Names{"step-000000001.ckpt"});
  write_file(run().path_of(3), "damaged");  // the newest, from which nothing is shared
  run().save(4, model(4));
  expect_model(run().path_of(4), 4);
}

}  // namespace

// Run: what is saved, and which checkpoint is the newest to go on from.

#include "libckpt/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libcore/base/error.h"
#include "tests/libckpt/run/step_samples.h"
#include "tests/support/message_of.h"

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST(Run, SavesAStepAndFindsIt) {
  TempDir dir;
  ckpt::Run run(dir.path() / "runs" / "a");
  EXPECT_FALSE(run.latest()) << "no folder yet";
  ckpt::StepFile saved = run.save(1200, small_model(), {{"val_loss", 0.25}});
  run.save(300, small_model());
  EXPECT_EQ(saved.path.filename(), "step-000001200.ckpt");
  std::optional<ckpt::StepFile> last = run.latest();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->path, saved.path);
  EXPECT_EQ(last->step, 1200);
  ckpt::Checkpoint read = ckpt::open(last->path);
  EXPECT_EQ(read.metadata, (std::vector<std::pair<std::string, std::string>>{{"metric.val_loss", "0.25"}}));
  EXPECT_EQ(ckpt::find_metric(read, "val_loss"), 0.25);
}

TEST(Run, EveryFormatKeepsMetricsOrSaysThatItCannot) {
  for (const char* extension : {".ckpt", ".safetensors", ".pth", ".npz", ".gguf", ".h5"}) {
    SCOPED_TRACE(extension);
    TempDir dir;
    ckpt::Run run(dir.path(), {.extension = extension});
    run.save(1, small_model());
    std::string said = message_of([&] { run.save(2, small_model(), {{"acc", 0.5}}); });
    ckpt::StepFile last = *run.latest();
    if (said == "no error") {
      EXPECT_EQ(ckpt::find_metric(ckpt::open(last.path), "acc"), 0.5);
    } else {
      EXPECT_THAT(said, HasSubstr("has no place for metrics"));
      EXPECT_EQ(last.step, 1) << "nothing was written";
    }
  }
}

TEST(Run, LatestSkipsWhatIsDamagedAndSaysSo) {
  TempDir dir;
  ckpt::Run run(dir.path());
  for (int step : {1, 2, 3}) run.save(step, small_model());
  damage(run.path_of(3));
  write_file(run.path_of(4), "");
  ckpt::Report report;
  EXPECT_EQ(run.latest(ckpt::CheckDepth::every_byte, {.report = &report})->step, 2);
  ASSERT_EQ(report.warnings.size(), 2U);
  EXPECT_THAT(report.warnings[0], HasSubstr("'step-000000004.ckpt' is skipped: "));
  EXPECT_THAT(report.warnings[1], HasSubstr("'step-000000003.ckpt' is skipped: w: "));
  EXPECT_EQ(run.latest(ckpt::CheckDepth::structure)->step, 3) << "its structure is whole";
}

TEST(Run, NoneValidIsAnErrorAndNotAFreshStart) {
  TempDir dir;
  ckpt::Run run(dir.path());
  run.save(1, small_model());
  run.save(2, small_model());
  damage(run.path_of(1));
  damage(run.path_of(2));
  try {
    run.latest();
    FAIL() << "found one";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
    EXPECT_THAT(error.what(), HasSubstr("none of the 2 checkpoints there is valid; the newest, 'step-000000002.ckpt'"));
  }
}

TEST(Run, OnlyItsOwnNamesAreItsSteps) {
  TempDir dir;
  ckpt::Run run(dir.path());
  run.save(1, small_model());
  save_step(dir.path() / "epoch_9.ckpt");
  save_step(dir.path() / "step-000000002-backup.ckpt");
  EXPECT_EQ(names_of(run.steps().steps), Names{"step-000000001.ckpt"});
}

TEST(Run, KeepsTheLastAndTheBest) {
  TempDir dir;
  ckpt::Run run(dir.path(), {.retention = ckpt::Retention{.keep_last = 2, .keep_best = "acc"}});
  const std::vector<double> values = {0.1, 0.9, 0.3, 0.2, 0.5};
  for (std::size_t i = 0; i < values.size(); ++i) {
    run.save(static_cast<std::int64_t>(i), small_model(), {{"acc", values[i]}});
  }
  EXPECT_EQ(list_folder(dir.path()), (Names{"step-000000001.ckpt", "step-000000003.ckpt", "step-000000004.ckpt"}));
}

TEST(Run, AStepSavedAfterARunWasSetBackStays) {
  TempDir dir;
  ckpt::Run run(dir.path(), {.retention = ckpt::Retention{.keep_last = 1}});
  run.save(500, small_model());
  run.save(100, small_model());
  EXPECT_EQ(names_of(run.steps().steps), (Names{"step-000000500.ckpt", "step-000000100.ckpt"}));
}

TEST(Run, RefusesWhatIsNoStepAndNoFormat) {
  TempDir dir;
  EXPECT_THAT(message_of([&] { ckpt::Run(dir.path()).save(-1, small_model()); }), HasSubstr("a step is a count"));
  EXPECT_THAT(message_of([&] { ckpt::Run(dir.path(), {.extension = ".txt"}); }), HasSubstr("of no format"));
  EXPECT_THAT(message_of([&] { ckpt::Run(dir.path(), {.extension = ".safetensors.index.json"}); }),
              HasSubstr("a step is one file"));
}

TEST(Metrics, AreReadFromTheValuesOfFilesWithoutMetadata) {
  using ckpt::Value;
  Value metrics = dict({{"acc", Value::real(0.5)}, {"nan", Value::real(std::nan(""))}});
  ckpt::Checkpoint file = checkpoint(dict({{"best_acc1", Value::integer(76)}, {"metrics", metrics}}));
  EXPECT_EQ(ckpt::find_metric(file, "best_acc1"), 76);
  EXPECT_EQ(ckpt::find_metric(file, "acc"), 0.5);
  EXPECT_FALSE(ckpt::find_metric(file, "nan"));
  EXPECT_FALSE(ckpt::find_metric(file, "loss"));
  file.metadata = {{"acc", "0.75"}};
  EXPECT_EQ(ckpt::find_metric(file, "acc"), 0.75);
  file.metadata = {{"acc", "high"}};
  EXPECT_FALSE(ckpt::find_metric(file, "high"));
}

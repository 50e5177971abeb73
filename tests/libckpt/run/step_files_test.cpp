// Which files of a folder are the checkpoints of a run, and in which order.

#include "libckpt/run/step_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/run/step_name.h"
#include "libcore/base/error.h"
#include "tests/libckpt/run/step_samples.h"
#include "tests/support/message_of.h"

using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

namespace {

std::string read_of(const std::string& name) {
  std::optional<ckpt::detail::StepName> read = ckpt::detail::read_step_name(name);
  if (!read) return "none";
  std::string text = read->family;
  for (std::int64_t counter : read->counters) text += " " + std::to_string(counter);
  return text;
}

void touch(const TempDir& dir, const Names& names) {
  for (const std::string& name : names) write_file(dir.path() / name, "");
}

std::string refusal(const TempDir& dir, const std::string& pattern = "") {
  return message_of([&] { ckpt::find_steps(dir.path(), pattern); });
}

}  // namespace

TEST(StepName, ReadsWhatPeopleCallCheckpoints) {
  EXPECT_EQ(read_of("step-000001200.ckpt"), "step-* 1200");
  EXPECT_EQ(read_of("epoch_12.pth"), "epoch_* 12");
  EXPECT_EQ(read_of("checkpoint-500"), "checkpoint-* 500");
  EXPECT_EQ(read_of("model_0010.pth.tar"), "model_* 10");
  EXPECT_EQ(read_of("Epoch12.h5"), "Epoch* 12");
  EXPECT_EQ(read_of("epoch=3-step=2814.ckpt"), "epoch=*-step=* 3 2814");
  EXPECT_EQ(read_of("epoch=02-val_loss=0.25.ckpt"), "epoch=*-val_loss=*.* 2");
  EXPECT_EQ(read_of("resnet50_epoch_7.pt"), "resnet50_epoch_* 7");
  EXPECT_EQ(read_of("llama-7b-step-100.safetensors"), "llama-7b-step-* 100");
  EXPECT_EQ(read_of("step-5.safetensors.index.json"), "step-* 5");
}

TEST(StepName, NumbersThatCountNothing) {
  EXPECT_EQ(read_of("best.pth"), "none");
  EXPECT_EQ(read_of("llama-7b.pth"), "none");
  EXPECT_EQ(read_of("loss0.25.pth"), "none");
  EXPECT_EQ(read_of("step-99999999999999999999.ckpt"), "none");
}

TEST(FindSteps, OrdersByNumberNotByName) {
  TempDir dir;
  touch(dir, {"epoch_9.pth", "epoch_10.pth", "epoch_2.pth", "best.pth", "log_3.txt", ".epoch_11.pth"});
  ckpt::StepFiles found = ckpt::find_steps(dir.path());
  EXPECT_EQ(names_of(found.steps), (Names{"epoch_10.pth", "epoch_9.pth", "epoch_2.pth"}));
  ASSERT_EQ(found.ignored.size(), 1U);
  EXPECT_EQ(found.ignored[0].name, "best.pth");
}

TEST(FindSteps, StepsOfLaterEpochsCountAfterThoseOfEarlierOnes) {
  TempDir dir;
  touch(dir, {"epoch=1-step=900.ckpt", "epoch=2-step=10.ckpt"});  // a count that begins anew in each epoch
  EXPECT_EQ(names_of(ckpt::find_steps(dir.path()).steps), (Names{"epoch=2-step=10.ckpt", "epoch=1-step=900.ckpt"}));
}

TEST(FindSteps, NamesThatCountComeBeforeOtherNumbers) {
  TempDir dir;
  touch(dir, {"epoch_1.pth", "resnet50.pth"});
  ckpt::StepFiles found = ckpt::find_steps(dir.path());
  EXPECT_EQ(names_of(found.steps), Names{"epoch_1.pth"});
  EXPECT_EQ(found.ignored[0].name, "resnet50.pth");
}

TEST(FindSteps, RefusesAnOrderThatWouldBeAGuess) {
  TempDir dir;
  touch(dir, {"gen_epoch_1.pth", "gen_epoch_2.pth", "disc_epoch_1.pth"});
  EXPECT_THAT(refusal(dir), HasSubstr("2 families of names"));
  EXPECT_THAT(refusal(dir, "*epoch*"), HasSubstr("2 families of names"));
  EXPECT_EQ(names_of(ckpt::find_steps(dir.path(), "gen_*.pth").steps), (Names{"gen_epoch_2.pth", "gen_epoch_1.pth"}));
  touch(dir, {"gen_epoch_01.pth"});
  EXPECT_THAT(refusal(dir, "gen_*"), HasSubstr("have the same number"));
}

TEST(FindSteps, AFamilyIsItsOwnPattern) {
  TempDir dir;
  touch(dir, {"step_1.ckpt", "step_2.ckpt", "step_2-v1.ckpt"});
  EXPECT_EQ(names_of(ckpt::find_steps(dir.path(), "step_*").steps), (Names{"step_2.ckpt", "step_1.ckpt"}));
  EXPECT_EQ(names_of(ckpt::find_steps(dir.path(), "step_*-v1").steps), Names{"step_2-v1.ckpt"});
}

TEST(FindSteps, FoldersCountAlsoWhenTheirSaveNeverFinished) {
  TempDir dir;
  fs::create_directories(dir.path() / "checkpoint-500");
  fs::create_directories(dir.path() / "checkpoint-1000");
  fs::create_directories(dir.path() / "images_7");
  save_step(dir.path() / "checkpoint-500" / "model.safetensors");
  EXPECT_EQ(names_of(ckpt::find_steps(dir.path()).steps), (Names{"checkpoint-1000", "checkpoint-500"}));
}

TEST(FindSteps, AFileWithoutExtensionIsToldByItsContent) {
  TempDir dir;
  save_step(dir.path() / "saved.pth");
  fs::rename(dir.path() / "saved.pth", dir.path() / "model_7");
  write_file(dir.path() / "model_8", "notes");
  EXPECT_EQ(names_of(ckpt::find_steps(dir.path()).steps), Names{"model_7"});
}

TEST(FindSteps, LinksAreNamedAndNotFollowed) {
  TempDir dir;
  touch(dir, {"epoch_1.pth"});
  fs::create_symlink("epoch_1.pth", dir.path() / "epoch_9.pth");
  ckpt::StepFiles found = ckpt::find_steps(dir.path());
  EXPECT_EQ(names_of(found.steps), Names{"epoch_1.pth"});
  EXPECT_THAT(found.links, ElementsAre(std::pair<std::string, std::string>("epoch_9.pth", "epoch_1.pth")));
}

TEST(FindSteps, AMissingFolderIsAnErrorOfTheSystem) {
  TempDir dir;
  EXPECT_THAT(message_of([&] { ckpt::find_steps(dir.path() / "none"); }), HasSubstr("cannot be read"));
}

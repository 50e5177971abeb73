#include "libckpt/transform/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/transform/glob.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Value;
using testing::ElementsAre;
using namespace test;

namespace {

ckpt::Checkpoint training_file() {
  Value optimizer = dict({{"state", dict({{"0", state_dict({"exp_avg"})}})},
                          {"param_groups", Value::list({dict({{"lr", Value::real(0.1)}})})}});
  return checkpoint(dict({{"epoch", Value::integer(3)},
                          {"model", state_dict({"fc.weight", "fc.bias", "bn.weight"}, {"", "fc", "bn"})},
                          {"optimizer", optimizer}}));
}

std::string message_of(const ckpt::SelectOptions& options) {
  try {
    ckpt::select(training_file(), options);
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST(GlobMatch, StarCrossesDots) {
  EXPECT_TRUE(ckpt::glob_match("*.bias", "layer.0.bias"));
  EXPECT_TRUE(ckpt::glob_match("layer.*.w", "layer.0.1.w"));
  EXPECT_TRUE(ckpt::glob_match("**", ""));
  EXPECT_FALSE(ckpt::glob_match("layer.*.w", "layer.w"));
  EXPECT_FALSE(ckpt::glob_match("fc", "fc.weight"));
}

TEST(GlobMatch, KnowsQuestionMarksSetsAndEscapes) {
  EXPECT_TRUE(ckpt::glob_match("fc?.[wb]*", "fc1.weight"));
  EXPECT_TRUE(ckpt::glob_match("l[0-3]", "l2"));
  EXPECT_FALSE(ckpt::glob_match("l[!0-3]", "l2"));
  EXPECT_TRUE(ckpt::glob_match("a\\*", "a*"));
  EXPECT_FALSE(ckpt::glob_match("a\\*", "ab"));
  EXPECT_TRUE(ckpt::glob_match("a[b", "a[b"));
  EXPECT_FALSE(ckpt::glob_match("fc?", "fc"));
}

TEST(Select, IncludesADictByItsName) {
  ckpt::SelectChanges changes;
  ckpt::Checkpoint kept = ckpt::select(training_file(), {.include = {"model"}}, &changes);
  EXPECT_THAT(names(kept), ElementsAre("model.fc.weight", "model.fc.bias", "model.bn.weight"));
  EXPECT_EQ(kept.root.as_dict().items.size(), 1u);
  EXPECT_EQ(changes.tensors, 4u);
  EXPECT_EQ(changes.tensors_kept, 3u);
  EXPECT_EQ(changes.values, 2u);
  EXPECT_EQ(changes.values_kept, 0u);
}

TEST(Select, ExcludeWinsAndVersionsFollow) {
  ckpt::Checkpoint kept = ckpt::select(training_file(), {.include = {"model.*", "epoch"}, .exclude = {"model.bn.*"}});
  EXPECT_THAT(names(kept), ElementsAre("model.fc.weight", "model.fc.bias"));
  EXPECT_EQ(kept.root.find("epoch")->as_integer(), 3);
  EXPECT_THAT(modules(*kept.root.find("model")), ElementsAre("", "fc"));
}

TEST(Select, ExcludeAloneKeepsTheRest) {
  ckpt::Checkpoint kept = ckpt::select(training_file(), {.exclude = {"optimizer"}});
  EXPECT_THAT(names(kept), ElementsAre("model.fc.weight", "model.fc.bias", "model.bn.weight"));
  EXPECT_NE(kept.root.find("epoch"), nullptr);
  EXPECT_EQ(kept.root.find("optimizer"), nullptr);
}

TEST(Select, InsideOneDictTheRestStays) {
  ckpt::Checkpoint kept = ckpt::select(training_file(), {.include = {"*.bias"}, .at = "model"});
  EXPECT_THAT(names(kept), ElementsAre("model.fc.bias", "optimizer.state.0.exp_avg"));
}

TEST(Select, NamesAPatternThatMatchesNothing) {
  EXPECT_EQ(message_of({.include = {"modle.*"}}), "no name matches 'modle.*'; did you mean 'model.*'?");
  EXPECT_EQ(message_of({.exclude = {"*"}}), "nothing would be left");
  EXPECT_EQ(message_of({}), "name what to include or to exclude");
}

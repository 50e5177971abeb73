#include "libckpt/transform/rename.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using testing::ElementsAre;
using namespace test;

namespace {

std::string message_of(const ckpt::Checkpoint& file, const ckpt::RenameOptions& options) {
  try {
    ckpt::rename_keys(file, options);
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST(RenameKeys, RenamesByTableAndKeepsTheRest) {
  ckpt::KeyChanges changes;
  ckpt::Checkpoint file = checkpoint(state_dict({"fc1.weight", "fc1.bias"}));
  ckpt::Checkpoint renamed = ckpt::rename_keys(file, {.table = {{"fc1.weight", "enc.w"}}}, &changes);
  EXPECT_THAT(names(renamed), ElementsAre("enc.w", "fc1.bias"));
  EXPECT_EQ(changes.renamed.size(), 1u);
}

TEST(RenameKeys, SwapsTwoKeys) {
  ckpt::Checkpoint file = checkpoint(state_dict({"a", "b"}));
  ckpt::Checkpoint swapped = ckpt::rename_keys(file, {.table = {{"a", "b"}, {"b", "a"}}});
  EXPECT_EQ(swapped.root.find("b")->identity(), file.root.find("a")->identity());
  EXPECT_EQ(swapped.root.find("a")->identity(), file.root.find("b")->identity());
}

TEST(RenameKeys, RefusesCollisionsUnknownNamesAndContradictions) {
  ckpt::Checkpoint file = checkpoint(state_dict({"a", "b"}));
  EXPECT_EQ(message_of(file, {.table = {{"a", "b"}}}), "keys 'a' and 'b' would both become 'b'");
  EXPECT_EQ(message_of(file, {.table = {{"nope", "x"}, {"a", "c"}}}),
            "the file does not have the keys to rename: 'nope'");
  EXPECT_EQ(message_of(file, {.table = {{"a", "x"}, {"a", "y"}}}),
            "the table names 'a' twice, once to become 'x' and once 'y'");
}

TEST(RenameKeys, LetsUnknownNamesPassWhenAsked) {
  ckpt::Checkpoint file = checkpoint(state_dict({"a"}));
  EXPECT_THAT(names(ckpt::rename_keys(file, {.table = {{"nope", "x"}, {"a", "c"}}, .allow_unknown = true})),
              ElementsAre("c"));
}

TEST(RenameKeys, VersionsFollowAModuleThatMovesWhole) {
  ckpt::Checkpoint file =
      checkpoint(state_dict({"net.bn.weight", "net.bn.bias", "head.w", "head.b"}, {"", "net", "net.bn", "head"}));
  ckpt::Checkpoint moved = ckpt::rename_keys(
      file, {.table = {{"net.bn.weight", "body.bn.weight"}, {"net.bn.bias", "body.bn.bias"}, {"head.w", "tail.w"}}});
  EXPECT_THAT(modules(moved.root), ElementsAre("", "body", "body.bn", "head"));
}

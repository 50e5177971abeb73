// Keys of an optimizer in the same flat dict as the model's follow them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/transform/prefix.h"
#include "libckpt/transform/rename.h"
#include "libckpt/transform/rules.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Checkpoint;
using testing::ElementsAre;

namespace {

Checkpoint flat(const std::vector<std::string>& keys) {
  return test::checkpoint(test::state_dict(keys));
}

const Checkpoint kBare = flat({"module.fc.weight", "module.fc.bias", "optimizer.state.module.fc.weight.exp_avg",
                               "optimizer.param_groups.module.fc.weight.lr"});
const Checkpoint kSections = flat({"model.module.fc.weight", "optimizer.state.module.fc.weight.exp_avg"});

}  // namespace

TEST(FlatOptimizer, KeysBesideTheModelsLoseThePrefixAndGetItBack) {
  Checkpoint plain = ckpt::strip_prefix(kBare);
  EXPECT_THAT(test::names(plain), ElementsAre("fc.weight", "fc.bias", "optimizer.state.fc.weight.exp_avg",
                                              "optimizer.param_groups.fc.weight.lr"));
  EXPECT_EQ(ckpt::add_prefix(plain).root, kBare.root);
}

TEST(FlatOptimizer, NamesHaveNoSectionOfTheModel) {
  EXPECT_THAT(test::names(ckpt::strip_prefix(kSections, {.prefix = "model"})),
              ElementsAre("module.fc.weight", "optimizer.state.module.fc.weight.exp_avg"));
  EXPECT_THAT(test::names(ckpt::strip_prefix(kSections, {.prefix = "model.module"})),
              ElementsAre("fc.weight", "optimizer.state.fc.weight.exp_avg"));
  EXPECT_THAT(test::names(ckpt::strip_prefix(kSections, {.anywhere = true})),
              ElementsAre("model.fc.weight", "optimizer.state.fc.weight.exp_avg"));
}

TEST(FlatOptimizer, FollowsATableAndRules) {
  ckpt::RenameOptions table{.table = {{"model.module.fc.weight", "model.head.weight"}}};
  auto renamed = ElementsAre("model.head.weight", "optimizer.state.head.weight.exp_avg");
  EXPECT_THAT(test::names(ckpt::rename_keys(kSections, table)), renamed);
  ckpt::Rules rules = ckpt::parse_rules("[[rule]]\nrename = 'model.module.fc.*'\nto = 'model.head.*'\n", "test");
  EXPECT_THAT(test::names(ckpt::apply_rules(kSections, rules)), renamed);
}

TEST(FlatOptimizer, AModuleCalledStateIsNoOptimizer) {
  Checkpoint model = flat({"module.a.weight", "module.state.proj.weight", "module.cell.state.b"});
  EXPECT_THAT(test::names(ckpt::strip_prefix(model)), ElementsAre("a.weight", "state.proj.weight", "cell.state.b"));
  EXPECT_THAT(test::names(ckpt::add_prefix(model, {.prefix = "x"})),
              ElementsAre("x.module.a.weight", "x.module.state.proj.weight", "x.module.cell.state.b"));
}

TEST(FlatOptimizer, TwoStatesOfOneNameAreRefused) {
  Checkpoint file = flat({"module.w", "w.x", "optimizer.state.module.w.step", "optimizer.state.w.x.step"});
  ckpt::RenameOptions table{.table = {{"module.w", "v"}, {"w.x", "v"}}};
  EXPECT_THROW(ckpt::rename_keys(file, table), core::Error);
}

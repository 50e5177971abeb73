// The names of parameters in optimizer states follow the keys of the model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/transform/optimizer.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/rename.h"
#include "libckpt/transform/rules.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Checkpoint;
using ckpt::Value;
using test::dict;
using testing::ElementsAre;

namespace {

/// State keyed by names, as PyTorch's get_optimizer_state_dict gives it.
Value named_optimizer(const std::string& name) {
  Value group = dict({{"lr", Value::real(0.1)}, {"params", Value::list({Value::text(name)})}});
  return dict(
      {{"state", dict({{name, dict({{"exp_avg", test::tensor({2})}})}})}, {"param_groups", Value::list({group})}});
}

/// The same in flat keys, as a distributed checkpoint has it.
Value flat_optimizer(const std::string& name) {
  return dict({{"state." + name + ".exp_avg", test::tensor({2})}, {"param_groups." + name + ".lr", Value::real(0.1)}});
}

Checkpoint training(const std::string& name, Value optimizer) {
  return test::checkpoint(dict({{"model", test::state_dict({name})}, {"optimizer", std::move(optimizer)}}));
}

const Checkpoint kNamed = training("module.fc.weight", named_optimizer("module.fc.weight"));
const Checkpoint kFlat = training("module.fc.weight", flat_optimizer("module.fc.weight"));

}  // namespace

TEST(OptimizerKeys, StateKeyedByNamesLosesThePrefixWithTheModel) {
  Checkpoint plain = ckpt::strip_prefix(kNamed);
  EXPECT_THAT(test::names(plain), ElementsAre("model.fc.weight", "optimizer.state.fc.weight.exp_avg"));
  EXPECT_EQ(ckpt::value_at(plain.root, "optimizer.param_groups.0.params.0").as_text(), "fc.weight");
  EXPECT_EQ(ckpt::add_prefix(plain).root, kNamed.root);
}

TEST(OptimizerKeys, FlatKeysLoseThePrefixWithTheModel) {
  Checkpoint plain = ckpt::strip_prefix(kFlat);
  EXPECT_THAT(test::names(plain), ElementsAre("model.fc.weight", "optimizer.state.fc.weight.exp_avg"));
  EXPECT_NE(plain.root.find("optimizer")->find("param_groups.fc.weight.lr"), nullptr);
  EXPECT_EQ(ckpt::add_prefix(plain).root, kFlat.root);
}

TEST(OptimizerKeys, FollowATableAndRules) {
  ckpt::Rules rules = ckpt::parse_rules("[[rule]]\nrename = 'module.*'\nto = '*'\n", "test");
  ckpt::RenameOptions table{.table = {{"module.fc.weight", "fc.weight"}}};
  for (const Checkpoint* file : {&kNamed, &kFlat}) {
    Value plain = ckpt::strip_prefix(*file).root;
    EXPECT_EQ(ckpt::rename_keys(*file, table).root, plain);
    EXPECT_EQ(ckpt::apply_rules(*file, rules).root, plain);
  }
}

TEST(OptimizerKeys, FlatKeysBecomeNumbersAndNamesForAnOptimizer) {
  Value flat = dict({{"state.b.w.exp_avg", test::tensor({1})},
                     {"state.b.w.nested.slot", test::tensor({2})},
                     {"state.a.exp_avg", test::tensor({3})},
                     {"param_groups.b.w.lr", Value::real(0.1)},
                     {"param_groups.a.lr", Value::real(0.1)},
                     {"param_groups.frozen.lr", Value::real(0.5)}});
  Checkpoint file = test::checkpoint(dict({{"optimizer", flat}}));
  Checkpoint numbered = ckpt::rekey_optimizers(file, ckpt::OptimizerKeys::index);
  EXPECT_THAT(test::names(numbered),
              ElementsAre("optimizer.state.0.exp_avg", "optimizer.state.0.nested.slot", "optimizer.state.1.exp_avg"));
  Value groups = dict({{"lr", Value::real(0.1)},
                       {"params", Value::list({Value::integer(0), Value::integer(1)})},
                       {"param_names", Value::list({Value::text("b.w"), Value::text("a")})}});
  EXPECT_EQ(ckpt::value_at(numbered.root, "optimizer.param_groups.0"), groups);
  EXPECT_EQ(ckpt::value_at(numbered.root, "optimizer.param_groups.1.params.0"), Value::integer(2));
  EXPECT_THAT(
      test::names(ckpt::rekey_optimizers(file, ckpt::OptimizerKeys::name)),
      ElementsAre("optimizer.state.b.w.exp_avg", "optimizer.state.b.w.nested.slot", "optimizer.state.a.exp_avg"));
}

TEST(OptimizerKeys, AMovedFlatOptimizerStaysFlat) {
  Checkpoint moved = ckpt::move_optimizers(kFlat, "cuda:0");
  EXPECT_THAT(test::names(moved), ElementsAre("model.module.fc.weight", "optimizer.state.module.fc.weight.exp_avg"));
  EXPECT_EQ(ckpt::list_entries(moved.root)[1].entry->location, "cuda:0");
}

TEST(OptimizerKeys, StayWhenOneDictWasNamed) {
  Checkpoint plain = ckpt::strip_prefix(kNamed, {.at = "model"});
  EXPECT_EQ(*plain.root.find("optimizer"), *kNamed.root.find("optimizer"));
}

TEST(OptimizerKeys, TwoStatesOfOneNameAreRefused) {
  Value state = dict({{"module.a", dict({{"step", Value::integer(1)}})}, {"a", dict({{"step", Value::integer(2)}})}});
  Value group = dict({{"params", Value::list({Value::text("module.a"), Value::text("a")})}});
  Value optimizer = dict({{"state", state}, {"param_groups", Value::list({group})}});
  try {
    ckpt::strip_prefix(training("module.a", optimizer));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::collision);
    EXPECT_THAT(error.message(), testing::HasSubstr("'module.a' and 'a'"));
  }
}

TEST(OptimizerKeys, ASlotWithADotFollowsToo) {
  Value optimizer = dict(
      {{"state.module.fc.weight.basis.0", test::tensor({2})}, {"param_groups.module.fc.weight.lr", Value::real(0.1)}});
  Checkpoint plain =
      ckpt::rename_keys(training("module.fc.weight", optimizer), {.table = {{"module.fc.weight", "head.weight"}}});
  EXPECT_THAT(test::names(plain), ElementsAre("model.head.weight", "optimizer.state.head.weight.basis.0"));
}

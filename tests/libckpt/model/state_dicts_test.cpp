#include "libckpt/state_dicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/hint.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

namespace {

using ckpt::StateDictKind;
using ckpt::StateDictRef;
using ckpt::Value;
using test::dict;
using test::state_dict;
using testing::ElementsAre;

Value no_groups() {
  return Value::list({});
}

std::string model_of(const Value& root, const std::string& path = "") {
  return ckpt::choose_state_dict(root, path).name;
}

ckpt::HintedError error_of(const Value& root, const std::string& path = "") {
  try {
    ckpt::choose_state_dict(root, path);
  } catch (const core::Error& error) {
    return {error.code(), error.message(), ckpt::hint_of(error)};
  }
  return {core::ErrorCode::internal, "no error", {}};
}

std::vector<std::string> kinds_of(const Value& root) {
  std::vector<std::string> out;
  for (const StateDictRef& ref : ckpt::list_state_dicts(root)) {
    out.push_back(ref.name + ": " + std::string(ckpt::name(ref.kind)) + (ref.in_object ? ", in an object" : ""));
  }
  return out;
}

}  // namespace

TEST(StateDicts, KindsFollowTheStructureAndTheWordsOfThePath) {
  Value optimizer = dict({{"state", dict({{"0", state_dict({"exp_avg"})}})}, {"param_groups", no_groups()}});
  Value flat = state_dict({"state.w.exp_avg", "param_groups.w.lr"});
  ckpt::Object object;
  object.symbol = "net.Settings";
  object.form = ckpt::Object::Form::instance;
  object.state = state_dict({"mean"});
  object.has_state = true;
  Value root = dict({{"model", state_dict({"w"})},
                     {"schema", state_dict({"w"})},
                     {"state_dict_ema", dict({{"shadow", state_dict({"w"})}})},
                     {"swa-model", state_dict({"w"})},
                     {"ema_optimizer", optimizer},
                     {"optimizers", Value::list({optimizer})},
                     {"flat", flat},
                     {"lr_schedulers", Value::list({state_dict({"best"})})},
                     {"settings", Value::object(object)}});
  EXPECT_THAT(kinds_of(root),
              ElementsAre("model: model", "schema: model", "state_dict_ema.shadow: ema", "swa-model: ema",
                          "ema_optimizer.state.0: optimizer", "optimizers.0.state.0: optimizer", "flat: optimizer",
                          "lr_schedulers.0: scheduler", "settings: model, in an object"));
  std::vector<std::string> weights;
  for (const StateDictRef& ref : ckpt::list_weights(root)) weights.push_back(ref.name);
  EXPECT_THAT(weights, ElementsAre("model", "schema", "state_dict_ema.shadow", "swa-model"));
}

TEST(StateDicts, RefsPointIntoTheTree) {
  Value root = dict({{"epoch", Value::integer(3)}, {"nets", Value::list({state_dict({"a", "b"})})}});
  std::vector<StateDictRef> found = ckpt::list_state_dicts(root);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].tensors, 2U);
  EXPECT_EQ(found[0].value, &ckpt::value_at(root, "nets.0"));
  EXPECT_EQ(found[0].dict, &found[0].value->as_dict());
  EXPECT_EQ(found[0].path, (std::vector<Value>{Value::text("nets"), Value::integer(0)}));
}

TEST(OptimizerState, IsADictWithStateAndAListOfGroups) {
  EXPECT_TRUE(ckpt::is_optimizer_state(dict({{"state", dict({})}, {"param_groups", no_groups()}})));
  EXPECT_TRUE(ckpt::is_optimizer_state(dict({{"state", dict({})}, {"param_groups", Value::tuple({})}})));
  EXPECT_FALSE(ckpt::is_optimizer_state(dict({{"state", dict({})}})));
  EXPECT_FALSE(ckpt::is_optimizer_state(dict({{"state", Value()}, {"param_groups", no_groups()}})));
  EXPECT_FALSE(ckpt::is_optimizer_state(state_dict({"state", "param_groups"})));
  EXPECT_FALSE(ckpt::is_optimizer_state(no_groups()));
}

TEST(OptimizerState, FlatStateHasKeysOfBothKindsAndNoOthers) {
  auto is_flat = [](const std::vector<std::string>& keys) {
    return ckpt::is_flat_optimizer_state(state_dict(keys).as_dict());
  };
  EXPECT_TRUE(is_flat({"state.fc.w.exp_avg", "param_groups.fc.w.lr"}));
  EXPECT_FALSE(is_flat({"state.fc.w.exp_avg"}));
  EXPECT_FALSE(is_flat({"state.fc.w.exp_avg", "param_groups.fc.w.lr", "fc.w"}));
  EXPECT_FALSE(is_flat({"state.w", "param_groups.lr"}));
  EXPECT_FALSE(is_flat({}));
}

TEST(OptimizerState, IsListedOutermostFirst) {
  Value inner = dict({{"state", dict({})}, {"param_groups", no_groups()}});
  Value outer = dict({{"state", dict({{"base", inner}})}, {"param_groups", no_groups()}});
  Value root = dict({{"optimizer", outer}, {"more", Value::list({inner})}});
  std::vector<std::string> names;
  for (const ckpt::OptimizerStateRef& ref : ckpt::list_optimizer_states(root)) names.push_back(ref.name);
  EXPECT_THAT(names, ElementsAre("optimizer", "more.0"));
}

TEST(ChooseStateDict, ARootOfTensorsIsTheModelUnlessMoreLieBelow) {
  Value model = state_dict({"a", "b", "c"});
  EXPECT_EQ(model_of(model), "");
  EXPECT_EQ(model_of(dict({{"best_acc1", test::tensor({1})}, {"model", model}})), "model");
  ckpt::Dict with_extra = model.as_dict();
  with_extra.items.emplace_back(Value::text("bn._extra_state"), state_dict({"scale"}));
  EXPECT_EQ(model_of(Value::dict(with_extra)), "");
  EXPECT_EQ(model_of(dict({})), "");  // of a model without parameters
}

TEST(ChooseStateDict, TakesTheOneOfAUsualName) {
  EXPECT_EQ(model_of(dict({{"loss", state_dict({"w"})}, {"net", state_dict({"a"})}})), "net");
  Value same = state_dict({"a"});
  EXPECT_EQ(model_of(dict({{"last", same}, {"best", same}})), "last");
}

TEST(ChooseStateDict, TakesAnAverageWhereNothingElseIs) {
  EXPECT_EQ(model_of(dict({{"state_dict_ema", state_dict({"a"})}})), "state_dict_ema");
  EXPECT_EQ(model_of(dict({{"ema", state_dict({"a", "n"})}, {"weights_", state_dict({"a"})}})), "weights_");
}

TEST(ChooseStateDict, TakesWhatIsNamedOrTheModelBelowIt) {
  Value inner = dict({{"model", state_dict({"a"})}, {"ema", state_dict({"a"})}});
  Value root = dict({{"run", inner}, {"other", state_dict({"b"})}, {"empty", dict({})}, {"epoch", Value::integer(1)}});
  EXPECT_EQ(model_of(root, "run.ema"), "run.ema");
  EXPECT_EQ(model_of(root, "run"), "run.model");
  EXPECT_EQ(model_of(root, "empty"), "empty");
  core::Error error = error_of(root, "epoch");
  EXPECT_EQ(error.code(), core::ErrorCode::key);
  EXPECT_EQ(error.message(), "'epoch' has no state dict of a model");
}

TEST(ChooseStateDict, ListsTheFirstOfManyCandidates) {
  ckpt::Dict many;
  for (int i = 0; i < 5000; ++i) many.items.emplace_back(Value::text("m" + std::to_string(i)), state_dict({"w"}));
  ckpt::HintedError error = error_of(Value::dict(std::move(many)));
  EXPECT_THAT(error.message(), testing::HasSubstr("'m7' (1 tensor) and 4,992 more"));
  EXPECT_EQ(error.hint().value().options.at(0).name, "m0");
}

TEST(ChooseStateDict, ListsTheCandidatesInsteadOfGuessing) {
  Value root = dict({{"g", state_dict({"a", "b"})}, {"d", state_dict({"a"})}});
  ckpt::HintedError error = error_of(root);
  EXPECT_EQ(error.code(), core::ErrorCode::usage);
  EXPECT_EQ(error.message(), "several state dicts: 'g' (2 tensors), 'd' (1 tensor)");
  ASSERT_TRUE(error.hint());
  EXPECT_EQ(error.hint()->text, "name one, as in {}");
  ASSERT_EQ(error.hint()->options.size(), 1U);
  EXPECT_EQ(error.hint()->options[0].option, ckpt::Hint::Option::part);
  EXPECT_EQ(error.hint()->options[0].name, "g");
  EXPECT_FALSE(ckpt::find_model(root));
  error = error_of(dict({{"run", root}}), "run");
  EXPECT_THAT(error.message(), testing::HasSubstr("'run.g' (2 tensors)"));
}

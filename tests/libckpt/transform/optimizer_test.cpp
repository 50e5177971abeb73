#include "libckpt/transform/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "tests/libckpt/transform/views.h"

using ckpt::NameEvidence;
using ckpt::OptimizerKeys;
using ckpt::OptimizerParam;
using ckpt::OptimizerState;
using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

core::Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "no error"};
}

Value shaped(const core::Shape& shape, const std::string& location = "cpu") {
  ckpt::Entry entry = float_entry(std::vector<float>(static_cast<std::size_t>(shape.numel())), location);
  entry.shape = shape;
  return Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

Value model(const std::vector<std::pair<std::string, core::Shape>>& tensors) {
  std::vector<std::pair<std::string, Value>> items;
  for (const auto& [name, shape] : tensors) items.emplace_back(name, shaped(shape));
  return dict(std::move(items));
}

/// weight [3, 2], bias [3], running_mean [3], head.weight [2, 3], head.bias [2].
Value usual_model() {
  return model(
      {{"fc.weight", {3, 2}}, {"fc.bias", {3}}, {"bn.running_mean", {3}}, {"head.weight", {2, 3}}, {"head.bias", {2}}});
}

Value adam(const core::Shape& shape, const std::string& location = "cpu") {
  return dict(
      {{"step", shaped({}, location)}, {"exp_avg", shaped(shape, location)}, {"exp_avg_sq", shaped(shape, location)}});
}

Value ints(const std::vector<std::int64_t>& numbers) {
  Value::List list;
  for (std::int64_t n : numbers) list.push_back(Value::integer(n));
  return Value::list(std::move(list));
}

Value group(const std::vector<std::int64_t>& params, std::vector<std::pair<std::string, Value>> settings = {}) {
  settings.emplace_back("params", ints(params));
  return dict(std::move(settings));
}

Value optimizer(const std::vector<std::pair<std::int64_t, Value>>& states, Value::List groups) {
  ckpt::Dict state;
  for (const auto& [key, value] : states) state.items.emplace_back(Value::integer(key), value);
  return dict({{"state", Value::dict(std::move(state))}, {"param_groups", Value::list(std::move(groups))}});
}

Value usual_optimizer() {
  return optimizer({{0, adam({3, 2})}, {1, adam({3})}, {2, adam({2, 3})}, {3, adam({2})}}, {group({0, 1, 2, 3})});
}

ckpt::Checkpoint training(Value net, Value state) {
  return checkpoint(dict({{"epoch", Value::integer(1)}, {"model", std::move(net)}, {"optimizer", std::move(state)}}));
}

std::vector<std::string> names_of(const OptimizerState& state) {
  std::vector<std::string> out;
  for (const OptimizerParam& param : state.params) out.push_back(param.name);
  return out;
}

}  // namespace

TEST(Optimizer, NumbersFollowTheModelWithoutItsBuffers) {
  std::vector<OptimizerState> found = ckpt::describe_optimizers(training(usual_model(), usual_optimizer()));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].at, "optimizer");
  EXPECT_FALSE(found[0].by_name);
  EXPECT_THAT(names_of(found[0]), ElementsAre("fc.weight", "fc.bias", "head.weight", "head.bias"));
  EXPECT_EQ(found[0].params[0].evidence, NameEvidence::shape);
  EXPECT_EQ(found[0].params[0].bytes, 4u + 24u + 24u);
  EXPECT_EQ(found[0].params[0].slots[1].name, "exp_avg");
}

TEST(Optimizer, AModelInSeveralPartsIsTheSectionThatHoldsThem) {
  Value parts = dict({{"fc", model({{"weight", {3, 2}}})}, {"head", model({{"weight", {2, 3}}})}});
  Value state = optimizer({{0, adam({3, 2})}, {1, adam({2, 3})}}, {group({0, 1})});
  OptimizerState found = ckpt::describe_optimizers(training(parts, state)).front();
  EXPECT_THAT(names_of(found), ElementsAre("fc.weight", "head.weight"));
}

TEST(Optimizer, GroupsWithAndWithoutWeightDecayAreRecognised) {
  Value state =
      optimizer({{0, adam({3, 2})}, {1, adam({2, 3})}, {2, adam({3})}, {3, adam({2})}}, {group({0, 1}), group({2, 3})});
  OptimizerState found = ckpt::describe_optimizers(training(usual_model(), state)).front();
  EXPECT_THAT(names_of(found), ElementsAre("fc.weight", "head.weight", "fc.bias", "head.bias"));
  EXPECT_EQ(found.params[2].group, 1u);
}

TEST(Optimizer, FrozenParametersAreFoundByShape) {
  Value state = optimizer({{0, adam({2, 3})}, {1, adam({2})}}, {group({0, 1})});
  OptimizerState found = ckpt::describe_optimizers(training(usual_model(), state)).front();
  EXPECT_THAT(names_of(found), ElementsAre("head.weight", "head.bias"));
}

TEST(Optimizer, SaysWhenSeveralFit) {
  Value net = model({{"a.w", {2, 2}}, {"b.w", {2, 2}}, {"c.w", {4, 2}}});
  Value state = optimizer({{0, adam({2, 2})}, {1, adam({4, 2})}}, {group({0, 1})});
  OptimizerState found = ckpt::describe_optimizers(training(net, state)).front();
  EXPECT_EQ(found.params[0].evidence, NameEvidence::ambiguous);
  EXPECT_EQ(found.params[0].candidates, "'a.w' or 'b.w'");
  EXPECT_EQ(found.params[1].name, "c.w");
  core::Error error = error_of([&] { ckpt::rekey_optimizers(training(net, state), OptimizerKeys::name); });
  EXPECT_EQ(error.code(), core::ErrorCode::refused);
  EXPECT_THAT(error.message(), HasSubstr("1 of 2 parameters without a certain name: 0 ('a.w' or 'b.w')"));
}

TEST(Optimizer, WithoutStateTheOrderIsAllThereIs) {
  Value state = optimizer({}, {group({0, 1, 2, 3})});
  OptimizerState found = ckpt::describe_optimizers(training(usual_model(), state)).front();
  EXPECT_EQ(found.params[3].name, "head.bias");
  EXPECT_EQ(found.params[3].evidence, NameEvidence::order);
}

TEST(Optimizer, SaysWhenNothingFits) {
  Value state = optimizer({{0, adam({9, 9})}}, {group({0})});
  OptimizerState found = ckpt::describe_optimizers(training(usual_model(), state)).front();
  EXPECT_EQ(found.params[0].evidence, NameEvidence::unknown);
  EXPECT_THAT(found.note, HasSubstr("1 parameters that do not fit the 4 of the model"));
  found = ckpt::describe_optimizers(checkpoint(usual_optimizer())).front();
  EXPECT_EQ(found.at, "");
  EXPECT_THAT(found.note, HasSubstr("no state dict stands beside it"));
  Value net = usual_model();
  found = ckpt::describe_optimizers(checkpoint(usual_optimizer()), {.model = &net}).front();
  EXPECT_THAT(names_of(found), ElementsAre("fc.weight", "fc.bias", "head.weight", "head.bias"));
}

TEST(Optimizer, TiedWeightsCountOnce) {
  Value weight = shaped({4, 2});
  Value net = dict({{"emb.weight", weight}, {"out.weight", weight}, {"out.bias", shaped({4})}});
  Value state = optimizer({{0, adam({4, 2})}, {1, adam({4})}}, {group({0, 1})});
  EXPECT_THAT(names_of(ckpt::describe_optimizers(training(net, state)).front()), ElementsAre("emb.weight", "out.bias"));
}

TEST(Optimizer, RekeysToNamesAndBack) {
  ckpt::Checkpoint file = training(usual_model(), usual_optimizer());
  ckpt::OptimizerChanges changes;
  ckpt::Checkpoint named = ckpt::rekey_optimizers(file, OptimizerKeys::name, {}, &changes);
  EXPECT_EQ(changes.params, 4u);
  EXPECT_NE(ckpt::value_at(named.root, "optimizer.state").find("head.bias"), nullptr);
  EXPECT_EQ(ckpt::value_at(named.root, "optimizer.param_groups.0.params").as_list()[2].as_text(), "head.weight");
  EXPECT_TRUE(ckpt::describe_optimizers(named).front().by_name);
  ckpt::Checkpoint back = ckpt::rekey_optimizers(named, OptimizerKeys::index);
  EXPECT_EQ(ckpt::value_at(back.root, "optimizer.state"), ckpt::value_at(file.root, "optimizer.state"));
  EXPECT_EQ(ckpt::value_at(back.root, "optimizer.param_groups.0.params"), ints({0, 1, 2, 3}));
  EXPECT_EQ(ckpt::value_at(back.root, "optimizer.param_groups.0.param_names").as_list()[1].as_text(), "fc.bias");
  OptimizerState found = ckpt::describe_optimizers(back).front();
  EXPECT_EQ(found.params[1].evidence, NameEvidence::param_names);
}

TEST(Optimizer, DropLeavesEverythingElse) {
  ckpt::Checkpoint file = training(usual_model(), usual_optimizer());
  ckpt::Checkpoint rest = ckpt::drop_optimizers(file);
  EXPECT_EQ(rest.root, dict({{"epoch", Value::integer(1)}, {"model", ckpt::value_at(file.root, "model")}}));
  ckpt::Checkpoint lightning = checkpoint(
      dict({{"state_dict", usual_model()}, {"optimizer_states", Value::list({usual_optimizer(), usual_optimizer()})}}));
  EXPECT_EQ(ckpt::drop_optimizers(lightning).root.as_dict().items.size(), 1u);
  EXPECT_EQ(error_of([] { ckpt::drop_optimizers(checkpoint(usual_optimizer())); }).code(), core::ErrorCode::refused);
  EXPECT_EQ(error_of([] { ckpt::drop_optimizers(checkpoint(usual_model())); }).code(), core::ErrorCode::key);
  EXPECT_EQ(error_of([&] { ckpt::drop_optimizers(file, {.at = "model"}); }).code(), core::ErrorCode::key);
}

TEST(Optimizer, MoveTouchesTheStateAloneAndLeavesCountersOnTheCpu) {
  ckpt::Checkpoint moved = ckpt::move_optimizers(training(usual_model(), usual_optimizer()), "cuda:1");
  EXPECT_EQ(ckpt::value_at(moved.root, "optimizer.state.0.exp_avg").as_entry().location, "cuda:1");
  EXPECT_EQ(ckpt::value_at(moved.root, "optimizer.state.0.step").as_entry().location, "cpu");
  EXPECT_EQ(ckpt::value_at(moved.root, "model.fc.weight").as_entry().location, "cpu");
  Value fused = optimizer({{0, adam({2}, "cpu")}}, {group({0}, {{"fused", Value::boolean(true)}})});
  moved = ckpt::move_optimizers(checkpoint(fused), "cuda:1");
  EXPECT_EQ(ckpt::value_at(moved.root, "state.0.step").as_entry().location, "cuda:1");
  Value there = optimizer({{0, adam({2}, "cuda:0")}}, {group({0})});
  moved = ckpt::move_optimizers(checkpoint(there), "cpu");
  EXPECT_EQ(ckpt::value_at(moved.root, "state.0.step").as_entry().location, "cpu");
  EXPECT_EQ(error_of([&] { ckpt::move_optimizers(checkpoint(there), "nowhere!"); }).code(), core::ErrorCode::usage);
}

TEST(Optimizer, StateThatContradictsItsGroupsIsCorrupt) {
  auto refused = [](Value state) {
    return error_of([&] { ckpt::describe_optimizers(checkpoint(std::move(state))); }).code();
  };
  EXPECT_EQ(refused(optimizer({{5, adam({2})}}, {group({0})})), core::ErrorCode::corrupt);
  EXPECT_EQ(refused(optimizer({{0, adam({2})}}, {group({0, 0})})), core::ErrorCode::corrupt);
  EXPECT_EQ(refused(optimizer({}, {dict({{"lr", Value::real(1)}})})), core::ErrorCode::corrupt);
}

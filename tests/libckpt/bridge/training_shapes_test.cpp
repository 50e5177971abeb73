// Every command has one answer on which dict of a training file is the model, whatever shape the file has.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>

#include "libckpt/analyze/why.h"
#include "libckpt/bridge/module_state.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/publish.h"
#include "libcore/base/error.h"
#include "libcore/module/linear.h"
#include "libcore/module/module.h"
#include "tests/libckpt/transform/trees.h"

namespace {

using ckpt::Value;
using test::dict;
using test::state_dict;
using Places = std::set<std::string>;

struct OneLayer : core::ModuleOf<OneLayer> {
  core::Linear fc{2, 1};
  void members(core::Members& m) override { m.child("fc", fc); }
};

Value matrix() {
  ckpt::Entry entry = test::float_entry({1, 2});
  entry.shape = core::Shape{1, 2};
  return Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

/// Of OneLayer in DataParallel.
Value weights() {
  return dict({{"module.fc.weight", matrix()}, {"module.fc.bias", test::tensor({3})}});
}

Value optimizer() {
  Value group =
      dict({{"params", Value::list({Value::integer(0)})}, {"param_names", Value::list({Value::text("fc.weight")})}});
  ckpt::Dict state;
  state.items.emplace_back(Value::integer(0), state_dict({"exp_avg"}));
  return dict({{"state", Value::dict(std::move(state))}, {"param_groups", Value::list({group})}});
}

Value optimizer_by_name() {
  Value group = dict({{"params", Value::list({Value::text("module.fc.weight")})}});
  Value state = dict({{"module.fc.weight", state_dict({"exp_avg"})}});
  return dict({{"state", state}, {"param_groups", Value::list({group})}});
}

Value flat_optimizer() {
  return dict({{"state.module.fc.weight.exp_avg", matrix()}, {"param_groups.module.fc.weight.lr", Value::real(0.1)}});
}

Value lightning() {
  Value callback = dict({{"best_model_score", test::tensor({0.5})}});
  return dict({{"epoch", Value::integer(3)},
               {"state_dict", weights()},
               {"callbacks", dict({{"ModelCheckpoint", callback}})},
               {"optimizer_states", Value::list({optimizer()})},
               {"lr_schedulers", Value::list({state_dict({"best"})})}});
}

struct Shape {
  const char* name;
  Value root;
  std::string model;                          ///< where the choice takes it
  Places stripped;                            ///< dicts whose keys lose 'module.'
  std::optional<core::ErrorCode> error = {};  ///< instead of `model`
};

class TrainingShapes : public testing::TestWithParam<Shape> {
 protected:
  ckpt::Checkpoint file_ = test::checkpoint(GetParam().root);

  /// The place that `answer` says, or the code and text of its error.
  std::string said_by(const std::function<std::string()>& answer) const {
    try {
      return answer();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), GetParam().error);
      return error.message();
    }
  }

  static Places changed(const ckpt::KeyChanges& changes) {
    Places places;
    for (const ckpt::KeyChange& change : changes.renamed) places.insert(change.state_dict);
    return places;
  }
};

std::vector<Shape> shapes() {
  using core::ErrorCode;
  Value plateau = state_dict({"best"});  // ReduceLROnPlateau keeps the best loss as the tensor that it was
  return {
      {"plain", weights(), "", {""}},
      {"state_dict", dict({{"epoch", Value::integer(3)}, {"state_dict", weights()}}), "state_dict", {"state_dict"}},
      {"model_and_ema", dict({{"model", weights()}, {"ema", weights()}}), "model", {"model", "ema"}},
      {"training",
       dict({{"model", weights()}, {"optimizer", optimizer()}, {"scheduler", plateau}}),
       "model",
       {"model"}},
      {"best_accuracy", dict({{"net", weights()}, {"best_acc1", test::tensor({76})}}), "net", {"net"}},
      {"lightning", lightning(), "state_dict", {"state_dict"}},
      {"named_optimizer", dict({{"model", weights()}, {"optimizer", optimizer_by_name()}}), "model", {"model"}},
      {"flat_optimizer",
       dict({{"model", weights()}, {"optimizer", flat_optimizer()}}),
       "model",
       {"model", "optimizer"}},
      {"two_models",
       dict({{"generator", weights()}, {"discriminator", weights()}}),
       "",
       {"generator", "discriminator"},
       ErrorCode::usage},
      {"optimizer_only", optimizer(), "", {}, ErrorCode::key},
      {"flat_optimizer_only", flat_optimizer(), "", {""}, ErrorCode::key},
  };
}

INSTANTIATE_TEST_SUITE_P(All, TrainingShapes, testing::ValuesIn(shapes()),
                         [](const auto& shape) { return std::string(shape.param.name); });

}  // namespace

TEST_P(TrainingShapes, EveryCommandTakesTheSameDict) {
  std::string chosen = said_by([&] { return ckpt::choose_state_dict(file_.root, "").name; });
  if (!GetParam().error) {
    EXPECT_EQ(chosen, GetParam().model);
  }
  EXPECT_EQ(said_by([&] { return ckpt::publish(file_, {.ema = "off"}).source; }), chosen);
  EXPECT_EQ(said_by([&] {
              OneLayer model;
              return ckpt::load_into(model, file_).path;
            }),
            chosen);
  EXPECT_EQ(said_by([&] { return ckpt::key_list_of(file_, "file").at; }), chosen);
  // Only an edit asks where an average of the model would be left as it is.
  if (std::string(GetParam().name) == "model_and_ema") {
    EXPECT_THROW(ckpt::add_prefix(file_), core::Error);
    return;
  }
  ckpt::KeyChanges added;
  said_by([&] {
    ckpt::add_prefix(file_, {}, &added);
    return std::string();
  });
  if (!GetParam().error) {
    EXPECT_TRUE(changed(added).contains(chosen));
  }
}

TEST_P(TrainingShapes, StripPrefixTakesAllWeightsAndTheNamesOfTheOptimizer) {
  ckpt::KeyChanges changes;
  ckpt::strip_prefix(file_, {}, &changes);
  EXPECT_EQ(changed(changes), GetParam().stripped);
}

TEST_P(TrainingShapes, WhyDiagnosesTheSameDict) {
  if (GetParam().error) return;  // it looks at every candidate, where others ask
  ckpt::KeyList wanted = ckpt::key_list_of(state_dict({"fc.weight", "fc.bias"}).as_dict(), "OneLayer");
  wanted.keys[0].shape = core::Shape{1, 2};
  for (const std::vector<ckpt::KeyList>& lists : {std::vector<ckpt::KeyList>{}, {wanted}}) {
    ckpt::Diagnosis diagnosis = ckpt::why({.checkpoint = &file_, .subject = "file"}, {.wanted = lists});
    EXPECT_EQ(ckpt::path_text(diagnosis.place), GetParam().model);
  }
}

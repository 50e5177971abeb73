// Plain values: set in their kind, given another one, added and removed; and what is refused.

#include "libckpt/transform/set_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "libckpt/analyze/plain_values.h"
#include "libckpt/integer_text.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Value;
using core::ErrorCode;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

Value integer(std::int64_t value) {
  return Value::integer(value);
}

Value group(const Value& betas) {
  return dict({{"lr", Value::real(0.1)}, {"betas", betas}, {"params", Value::list({integer(0)})}});
}

/// As PyTorch saves it: both groups hold one tuple object; two names for one dict are what Python calls an alias.
Value training() {
  Value betas = Value::tuple({Value::real(0.9), Value::real(0.999)});
  Value settings = dict({{"lr", Value::real(0.5)}, {"steps", Value::list({integer(1), integer(2)})}});
  ckpt::Dict state;
  state.items.emplace_back(integer(0), dict({{"step", integer(7)}, {"exp_avg", tensor({1, 2})}}));
  return dict({{"epoch", integer(11)},
               {"best", Value::real(0.91)},
               {"note", Value::text("first")},
               {"done", Value::boolean(false)},
               {"scheduler", Value()},
               {"model", dict({{"fc.weight", tensor({1, 2, 3})}, {"fc.scale", Value::real(2)}})},
               {"optimizer",
                dict({{"state", Value::dict(state)}, {"param_groups", Value::list({group(betas), group(betas)})}})},
               {"args", settings},
               {"config", settings},
               {"tags", Value::set({integer(1)})}});
}

ckpt::ValueEdits setting(const std::vector<std::string>& pairs, bool create = false) {
  ckpt::ValueEdits edits;
  edits.create = create;
  for (const std::string& pair : pairs) edits.set.push_back(ckpt::parse_value_to_set(pair));
  return edits;
}

Value after(const ckpt::ValueEdits& edits, std::vector<ckpt::ValueChange>* changes = nullptr) {
  return ckpt::set_values(checkpoint(training()), edits, changes).root;
}

Value set_to(const std::string& key, const std::string& text) {
  return ckpt::value_at(after(setting({key + "=" + text})), ckpt::parse_value_to_set(key + "=").key);
}

std::string text_at(const Value& root, const std::string& path) {
  return ckpt::value_text(ckpt::value_at(root, path));
}

void expect_refused(const ckpt::ValueEdits& edits, ErrorCode code, const std::string& part) {
  try {
    after(edits);
    ADD_FAILURE() << "nothing was thrown; expected: " << part;
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

void expect_refused(const std::string& pair, const std::string& part) {
  expect_refused(setting({pair}), ErrorCode::usage, part);
}

}  // namespace

TEST(SetValues, KeepTheirKindAndTheirPlace) {
  std::vector<ckpt::ValueChange> changes;
  Value root = after(setting({"epoch=12", "best=1", "note=12", "done=true", "optimizer.state.0.step=8"}), &changes);
  EXPECT_EQ(ckpt::value_at(root, "epoch"), integer(12));
  EXPECT_EQ(ckpt::value_at(root, "best"), Value::real(1));
  EXPECT_EQ(ckpt::value_at(root, "note"), Value::text("12"));
  EXPECT_EQ(ckpt::value_at(root, "done"), Value::boolean(true));
  EXPECT_EQ(ckpt::value_at(root, "optimizer.state.0.step"), integer(8));
  ASSERT_EQ(changes.size(), 5U);
  EXPECT_EQ(changes[0].key, "epoch");
  EXPECT_EQ(*changes[0].from, integer(11));
  EXPECT_EQ(*changes[0].to, integer(12));
  EXPECT_EQ(root.as_dict().items[0].first, Value::text("epoch"));
  EXPECT_EQ(root.as_dict().items.size(), training().as_dict().items.size());
}

TEST(SetValues, ReadsNumbersExactly) {
  EXPECT_EQ(set_to("best", "0.1").as_real(), 0.1);
  EXPECT_EQ(set_to("best", "-1e-4").as_real(), -1e-4);
  EXPECT_EQ(set_to("best", "+2.5").as_real(), 2.5);
  EXPECT_EQ(set_to("best", "5e-324").as_real(), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(set_to("best", "1.7976931348623157e308").as_real(), std::numeric_limits<double>::max());
  EXPECT_EQ(set_to("best", "-inf").as_real(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(set_to("best", "nan").as_real()));
  EXPECT_TRUE(std::signbit(set_to("best", "-0.0").as_real()));
  EXPECT_EQ(set_to("epoch", "-9223372036854775808"), integer(std::numeric_limits<std::int64_t>::min()));
  EXPECT_EQ(set_to("epoch", "+7"), integer(7));
  for (const char* text : {"", "0x10", "1.5.", "1 ", "nan(1)", "1_0", "+-1", "one"}) {
    expect_refused("best=" + std::string(text), "'best' is a float, and '" + std::string(text) + "' is none");
  }
  expect_refused("best=1e999", "is past the range of one");
  expect_refused("best=-1e-999", "is past the range of one");
}

TEST(SetValues, IntegersOfAnyLengthAreThoseOfPython) {
  auto bytes = [](const std::string& text) {
    Value value = set_to("epoch", text);
    EXPECT_EQ(value.kind(), Value::Kind::big_integer) << text;
    EXPECT_EQ(ckpt::detail::integer_text(value), text);
    std::vector<int> out;
    for (std::byte b : value.as_bytes()) out.push_back(std::to_integer<int>(b));
    return out;
  };
  // int.to_bytes(n, 'little', signed=True) of Python, as short as it can be
  EXPECT_THAT(bytes("9223372036854775808"), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0x80, 0));
  EXPECT_THAT(bytes("-9223372036854775809"), ElementsAre(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff));
  EXPECT_THAT(bytes("-1180591620717411303424"), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0xc0));
  EXPECT_THAT(bytes("1180591620717411303424"), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0x40));
  bytes("1000000000000000000000000000000000000000000000000000000000000000000001");
  EXPECT_EQ(set_to("epoch", std::string(40, '0') + "5"), integer(5));
  EXPECT_EQ(ckpt::detail::integer_text(set_to("epoch", std::string(4300, '9'))), std::string(4300, '9'));
  expect_refused("epoch=" + std::string(4301, '9'), "'epoch' is an int");
}

TEST(SetValues, RefuseTextOfAnotherKind) {
  expect_refused("epoch=soon", "'epoch' is an int, and 'soon' is none; 'epoch:text=soon' would make it a text");
  expect_refused("epoch=1.0", "'epoch' is an int, and '1.0' is none");
  expect_refused("epoch=", "'epoch' is an int, and '' is none");
  expect_refused("done=1", "'done' is a bool, and '1' is neither true nor false");
  expect_refused("note=\xff", "is no UTF-8");
  expect_refused("note:int=x", "'note' is to become an int, and 'x' is none");
  expect_refused("epoch:none=5", "'epoch' is to become a none, and '5' is none");
}

TEST(SetValues, GetAnotherKindWhenItIsSaid) {
  EXPECT_EQ(set_to("epoch:float", "1"), Value::real(1));
  EXPECT_EQ(set_to("epoch:text", "a:b=c"), Value::text("a:b=c"));
  EXPECT_EQ(set_to("note:none", ""), Value());
  EXPECT_EQ(set_to("best:bool", "False"), Value::boolean(false));
  EXPECT_EQ(set_to("scheduler:int", "5"), integer(5));
  expect_refused("scheduler=5", "'scheduler' is None, so say which kind it gets (int, float, bool, text or none)");
}

TEST(SetValues, LeaveTensorsAndContainersAlone) {
  expect_refused("model.fc.weight=1", "'model.fc.weight' is a tensor of shape [3]; 'ckpt set' changes plain values");
  expect_refused("model.fc.weight:float=1", "is a tensor of shape [3]");
  expect_refused("optimizer:none=", "'optimizer' is a dict of 2 items; name a value in it");
  expect_refused("args.steps=5", "'args.steps' is a list of 2 items");
  expect_refused("tags.0=5", "'tags.0' is in a set");
  EXPECT_EQ(set_to("model.fc.scale", "3"), Value::real(3));
}

TEST(SetValues, AScalarTensorIsATensor) {
  auto entry = std::make_shared<ckpt::Entry>(float_entry({1}));
  entry->shape = {};
  ckpt::Checkpoint file = checkpoint(dict({{"step", Value::tensor(entry)}}));
  try {
    ckpt::set_values(file, setting({"step=5"}));
    ADD_FAILURE();
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'step' is a tensor of shape []; 'ckpt set' changes plain values"));
  }
}

TEST(SetValues, ATupleIsReplacedOnlyWhereItIsNamed) {
  Value root = after(setting({"optimizer.param_groups.0.betas.0=0.8", "optimizer.param_groups.0.betas.1=0.99"}));
  EXPECT_EQ(text_at(root, "optimizer.param_groups.0.betas"), "(0.8, 0.99)");
  EXPECT_EQ(text_at(root, "optimizer.param_groups.1.betas"), "(0.9, 0.999)");
  ckpt::Checkpoint top = checkpoint(Value::tuple({integer(1), Value::tuple({integer(2), dict({{"a", integer(3)}})})}));
  EXPECT_EQ(ckpt::value_text(ckpt::set_values(top, setting({"0=5", "1.0=6", "1.1.a=7"})).root), "(5, (6, {'a': 7}))");
}

TEST(SetValues, OneObjectInTwoPlacesShowsItInBoth) {
  std::vector<ckpt::ValueChange> changes;
  Value root = after(setting({"args.lr=0.25", "config.steps.1=9"}), &changes);
  for (const char* place : {"args", "config"}) {
    EXPECT_EQ(ckpt::value_text(ckpt::value_at(root, place)), "{'lr': 0.25, 'steps': [1, 9]}") << place;
  }
  EXPECT_EQ(ckpt::value_at(root, "args").identity(), ckpt::value_at(root, "config").identity());
  EXPECT_EQ(changes.size(), 2U);
  expect_refused(setting({"args.lr=1", "config.lr=2"}), ErrorCode::usage,
                 "'args.lr' and 'config.lr' are one value under two names");
}

TEST(SetValues, NoChangeIsNone) {
  std::vector<ckpt::ValueChange> changes;
  after(setting({"epoch=11", "best=0.91", "note=first"}), &changes);
  EXPECT_TRUE(changes.empty());
  ckpt::Checkpoint file = checkpoint(dict({{"a", Value::real(std::nan(""))}, {"zero", Value::real(0)}}));
  ckpt::set_values(file, setting({"a=nan", "zero=-0.0"}), &changes);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].key, "zero");
}

TEST(SetValues, NewOnesNeedToBeAskedForAndAKind) {
  std::vector<ckpt::ValueChange> changes;
  Value root =
      after(setting({"seed:int=3", "args.name:text=a", "optimizer.state.1:none=", "epoch=12"}, true), &changes);
  EXPECT_EQ(root.as_dict().items.back().first, Value::text("seed"));
  EXPECT_EQ(text_at(root, "config.name"), "'a'");
  EXPECT_EQ(ckpt::value_at(root, "optimizer.state").as_dict().items.back().first, integer(1));
  EXPECT_FALSE(changes[0].from);
  EXPECT_EQ(*changes[0].to, integer(3));
  expect_refused(setting({"epohc=3"}), ErrorCode::key, "did you mean 'epoch'?");
  expect_refused(setting({"seed=3"}, true), ErrorCode::usage, "'seed' is new, so say which kind it gets");
  expect_refused(setting({"nowhere.seed:int=3"}, true), ErrorCode::key, "no 'nowhere' in the file");
  expect_refused(setting({"args.steps.7:int=3"}, true), ErrorCode::usage, "a new key such as '7' needs a dict");
  expect_refused(setting({"seed:int=3", "seed:int=4"}, true), ErrorCode::usage, "'seed' is named twice");
}

TEST(SetValues, AreRemoved) {
  std::vector<ckpt::ValueChange> changes;
  ckpt::ValueEdits edits = setting({"args.steps.1=9"});
  edits.unset = {"note", "args.steps.0", "scheduler"};
  Value root = after(edits, &changes);
  EXPECT_EQ(root.find("note"), nullptr);
  EXPECT_EQ(root.find("scheduler"), nullptr);
  EXPECT_EQ(text_at(root, "config.steps"), "[9]");
  ASSERT_EQ(changes.size(), 4U);
  EXPECT_EQ(*changes[1].from, Value::text("first"));
  EXPECT_FALSE(changes[1].to);
}

TEST(SetValues, RefuseToRemoveWhatIsNoPlainValue) {
  auto expect_kept = [](const std::string& key, ErrorCode code, const std::string& part) {
    expect_refused(ckpt::ValueEdits{.set = {}, .unset = {key}, .create = false, .at = {}}, code, part);
  };
  expect_kept("optimizer", ErrorCode::usage, "holds 1 tensor; 'ckpt select' leaves tensors out");
  expect_kept("model.fc.weight", ErrorCode::usage, "is a tensor of shape [3]");
  expect_kept("optimizer.param_groups.0.betas.0", ErrorCode::usage, "is an item of a tuple");
  expect_kept("tags.0", ErrorCode::usage, "is in a set");
  expect_kept("nots", ErrorCode::key, "did you mean 'note'?");
  expect_kept("", ErrorCode::usage, "empty");
  ckpt::ValueEdits both = setting({"args.lr=1"});
  both.unset = {"config"};
  after(both);  // another name of it stays
  both.unset = {"args"};
  expect_refused(both, ErrorCode::usage, "'args.lr' is set, and 'args' removed with it");
  both.unset = {"args", "args"};
  expect_refused(both, ErrorCode::usage, "'args' is named twice");
}

TEST(SetValues, AnObjectIsReplacedButNotChangedInside) {
  ckpt::Object scalar;
  scalar.symbol = "numpy.float64";
  ckpt::Checkpoint file = checkpoint(dict({{"best", Value::object(scalar)}}));
  EXPECT_EQ(*ckpt::set_values(file, setting({"best:float=0.5"})).root.find("best"), Value::real(0.5));
  for (const auto& [pair, part] : {std::pair("best=0.5", "is an object of 'numpy.float64', so say which kind it gets"),
                                   std::pair("best.x=1", "whose parts are left as they are")}) {
    try {
      ckpt::set_values(file, setting({pair}));
      ADD_FAILURE() << pair;
    } catch (const core::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  }
}

TEST(SetValues, BeginWhereTheyAreTold) {
  ckpt::ValueEdits edits = setting({"param_groups.1.lr=1e-3"});
  edits.at = "optimizer";
  std::vector<ckpt::ValueChange> changes;
  Value root = after(edits, &changes);
  EXPECT_EQ(ckpt::value_at(root, "optimizer.param_groups.1.lr"), Value::real(1e-3));
  EXPECT_EQ(changes[0].key, "optimizer.param_groups.1.lr");
  edits.at = "optimiser";
  expect_refused(edits, ErrorCode::key, "did you mean 'optimizer'?");
}

TEST(SetValues, TextOfTheFileIsNamedAsSuch) {
  ckpt::Checkpoint file = checkpoint(training());
  file.metadata = {{"license", "MIT"}};
  try {
    ckpt::set_values(file, setting({"license=GPL"}));
    ADD_FAILURE();
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'license' is text of the file, not a value in it; 'ckpt meta' changes that"));
  }
}

TEST(SetValues, AreWrittenAsKeyKindAndText) {
  ckpt::ValueToSet value = ckpt::parse_value_to_set("a:b:float=x=y");
  EXPECT_EQ(value.key, "a:b");
  EXPECT_EQ(value.kind, ckpt::PlainKind::real);
  EXPECT_EQ(value.text, "x=y");
  EXPECT_EQ(ckpt::parse_value_to_set("a:b=").key, "a:b");
  for (const char* text : {"epoch", "=5", ":int=5", ""}) {
    EXPECT_THROW(ckpt::parse_value_to_set(text), core::Error) << text;
  }
}

// Objects of unknown classes: which there are, a tree without them, and what a report says when a part is taken.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/transform/drop_objects.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Value;
using test::dict;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

Value object(const std::string& symbol, Value state = Value()) {
  ckpt::Object made;
  made.symbol = symbol;
  made.form = ckpt::Object::Form::instance;
  made.has_state = !state.is_null();
  made.state = std::move(state);
  return Value::object(std::move(made));
}

const Value kSettings = object("argparse.Namespace", dict({{"net", object("my.Net")}, {"lr", Value::real(1)}}));
const Value kTree = dict({{"w", test::tensor({1})},
                          {"plain", object("argparse.Namespace", dict({{"lr", Value::real(1)}}))},
                          {"args", kSettings},
                          {"losses", Value::list({object("my.Loss"), Value::integer(2)})}});

std::vector<std::string> outline(const std::vector<ckpt::ForeignObject>& objects) {
  std::vector<std::string> out;
  for (const ckpt::ForeignObject& found : objects) out.push_back(found.name + " " + found.symbol);
  return out;
}

}  // namespace

TEST(ForeignObjects, TheOutermostObjectIsNamedWithTheClassThatIsUnknown) {
  EXPECT_THAT(outline(ckpt::list_foreign_objects(kTree)), ElementsAre("args my.Net", "losses.0 my.Loss"));
  EXPECT_THAT(ckpt::list_foreign_objects(*kTree.find("plain")), IsEmpty());
  EXPECT_THAT(outline(ckpt::list_foreign_objects(object("my.Net"))), ElementsAre(" my.Net"));
}

TEST(ForeignObjects, ClassesAreListedOnceAndPlainDataHasNone) {
  EXPECT_THAT(ckpt::list_classes(kTree), ElementsAre("argparse.Namespace", "my.Net", "my.Loss"));
  EXPECT_THAT(ckpt::list_classes(test::state_dict({"a", "b"}, {"", "a"})), IsEmpty());
  ckpt::Dict counter;
  counter.type = "collections.Counter";
  EXPECT_THAT(ckpt::list_classes(Value::dict(counter)), ElementsAre("collections.Counter"));
}

TEST(ForeignObjects, ADroppedObjectLeavesADictAndBecomesNoneInAList) {
  Value left = ckpt::drop_objects(kTree, ckpt::list_foreign_objects(kTree));
  EXPECT_EQ(left, dict({{"w", *kTree.find("w")},
                        {"plain", *kTree.find("plain")},
                        {"losses", Value::list({Value(), Value::integer(2)})}}));
}

TEST(ForeignObjects, AReportAboutAPartSpeaksOfNothingElse) {
  ckpt::Report whole;
  whole.foreign = {"my.Net", "my.Loss"};
  whole.globals = {"argparse.Namespace", "my.Net", "my.Loss"};
  whole.modules = {"my.Module"};
  whole.module_dicts = {&whole};
  whole.warnings = {"the file is large", ckpt::unknown_class_text("my.Net"), ckpt::unknown_class_text("my.Loss"),
                    ckpt::weights_only_text(whole.globals), ckpt::pickled_module_text("my.Module")};
  ckpt::Report part = whole;
  ckpt::narrow_report(part, *kTree.find("losses"));
  EXPECT_THAT(part.foreign, ElementsAre("my.Loss"));
  EXPECT_THAT(part.warnings, ElementsAre("the file is large", ckpt::unknown_class_text("my.Loss"),
                                         ckpt::weights_only_text({"my.Loss"})));
  ckpt::narrow_report(whole, *kTree.find("w"));
  EXPECT_THAT(whole.warnings, ElementsAre("the file is large"));
}

#include "libckpt/checkpoint.h"

#include <gtest/gtest.h>

#include "libckpt/children.h"
#include "libcore/base/error.h"

namespace {

using ckpt::Dict;
using ckpt::Value;
using Items = std::vector<std::pair<Value, Value>>;

Value text(const char* value) {
  return Value::text(value);
}
Value dict(Items items) {
  Dict out;
  out.items = std::move(items);
  return Value::dict(std::move(out));
}
Value tensor() {
  return Value::tensor(std::make_shared<const ckpt::Entry>());
}

/// A training file: tensors at several depths, under text and integer keys, in lists and objects.
Value training_file() {
  ckpt::Object object;
  object.symbol = "torch.nn.Parameter";
  object.form = ckpt::Object::Form::call;
  object.args = Value::tuple({tensor()});
  return dict(
      {{text("epoch"), Value::integer(3)},
       {text("model"), dict({{text("fc.weight"), tensor()}, {text("fc.bias"), tensor()}})},
       {text("optimizer"), dict({{text("state"), dict({{Value::integer(0), dict({{text("avg"), tensor()}})}})}})},
       {text("rng"), Value::list({Value(), tensor()})},
       {text("wrapped"), Value::object(object)}});
}

TEST(Checkpoint, ListsTensorsInFileOrderWithDottedNames) {
  std::vector<std::string> names;
  for (const ckpt::NamedEntry& entry : ckpt::list_entries(training_file())) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"model.fc.weight", "model.fc.bias", "optimizer.state.0.avg", "rng.1",
                                             "wrapped.0"}));
}

TEST(Checkpoint, AVisitSeesWhatAListHas) {
  const Value root = training_file();
  const std::vector<ckpt::NamedEntry> listed = ckpt::list_entries(root);
  std::size_t at = 0;
  ckpt::visit_tensors(root, [&](std::string_view name, const Value& tensor) {
    ASSERT_LT(at, listed.size());
    EXPECT_EQ(name, listed[at].name);
    EXPECT_EQ(tensor.entry_ptr(), listed[at].entry);
    EXPECT_EQ(name, ckpt::path_text(listed[at].path));
    ++at;
  });
  EXPECT_EQ(at, listed.size());
}

TEST(Checkpoint, NamesThatAVisitKeepsAreThoseOfTheTree) {
  const Value root = Value::dict({{"deep", Value::dict({{"weight", tensor()}})}, {"bias", tensor()}, {3, tensor()}});
  std::vector<std::pair<std::string_view, bool>> seen;
  ckpt::visit_named_tensors(root, [&](std::string_view name, bool kept, const Value& /*tensor*/) {
    if (kept) {
      EXPECT_EQ(name.data(), root.as_dict().items[1].first.as_text().data());
    }
    seen.emplace_back(kept ? name : "", kept);
  });
  EXPECT_EQ(seen, (std::vector<std::pair<std::string_view, bool>>{{"", false}, {"bias", true}, {"", false}}));
}

TEST(Checkpoint, PathsKeepTheKindOfTheirSteps) {
  auto entries = ckpt::list_entries(training_file());
  ASSERT_EQ(entries[2].path.size(), 4U);
  EXPECT_TRUE(entries[2].path[2] == Value::integer(0));
  EXPECT_TRUE(entries[0].path[1] == text("fc.weight"));
}

TEST(Checkpoint, BareTensorHasAnEmptyName) {
  auto entries = ckpt::list_entries(tensor());
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].name, "");
  EXPECT_TRUE(entries[0].path.empty());
}

TEST(ValueAt, FollowsKeysIndexesAndDots) {
  Value root = training_file();
  EXPECT_EQ(&ckpt::value_at(root, ""), &root);
  EXPECT_EQ(&ckpt::value_at(root, "model"), root.find("model"));
  EXPECT_EQ(&ckpt::value_at(root, "model.fc.bias"), root.find("model")->find("fc.bias"));
  EXPECT_TRUE(ckpt::value_at(root, "rng.0").is_null());
  EXPECT_TRUE(ckpt::value_at(root, "optimizer.state.0.avg").is(Value::Kind::tensor));
}

TEST(ValueAt, LongestKeyWins) {
  Value root = dict({{text("a"), dict({{text("b"), Value::integer(1)}})}, {text("a.b"), Value::integer(2)}});
  EXPECT_EQ(ckpt::value_at(root, "a.b").as_integer(), 2);
}

TEST(ValueAt, SaysWhatIsThereInstead) {
  try {
    ckpt::value_at(training_file(), "modle");
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::key);
    EXPECT_THAT(error.message(), testing::HasSubstr("'modle'"));
    EXPECT_THAT(error.message(), testing::HasSubstr("'epoch', 'model', 'optimizer'"));
  }
  EXPECT_THROW(ckpt::value_at(training_file(), "rng.2"), core::Error);
  EXPECT_THROW(ckpt::value_at(Value::integer(1), "a"), core::Error);
}

TEST(StepText, IsWhatPythonShows) {
  EXPECT_EQ(ckpt::step_text(text("fc")), "fc");
  EXPECT_EQ(ckpt::step_text(Value::integer(-3)), "-3");
  EXPECT_EQ(ckpt::step_text(Value::boolean(true)), "True");
  EXPECT_EQ(ckpt::step_text(Value()), "None");
  EXPECT_EQ(ckpt::step_text(Value::tuple({Value::integer(1), text("a")})), "(1, a)");
}

TEST(ModuleVersions, ComeFromTheMetadataOfAStateDict) {
  Value modules = dict({{text(""), dict({{text("version"), Value::integer(1)}})},
                        {text("bn"), dict({{text("version"), Value::integer(2)}})},
                        {text("odd"), dict({})}});
  Dict state_dict;
  state_dict.attributes = dict({{text("_metadata"), modules}});
  using Versions = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(ckpt::module_versions(state_dict), (Versions{{"", 1}, {"bn", 2}}));
  EXPECT_TRUE(ckpt::module_versions(Dict()).empty());
}

}  // namespace

#include "libckpt/transform/map_location.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Value;
using testing::ElementsAre;
using namespace test;

namespace {

std::vector<std::string> locations(const ckpt::Checkpoint& file) {
  std::vector<std::string> out;
  for (const ckpt::NamedEntry& entry : ckpt::list_entries(file.root)) out.push_back(entry.entry->location);
  return out;
}

ckpt::Checkpoint on(const std::vector<std::string>& tags) {
  std::vector<std::pair<std::string, Value>> items;
  for (const std::string& tag : tags) items.emplace_back("t" + std::to_string(items.size()), tensor({1}, tag));
  return checkpoint(dict(std::move(items)));
}

core::ErrorCode code_of(const ckpt::MapLocationOptions& options) {
  try {
    ckpt::map_location(on({"cpu"}), options);
  } catch (const core::Error& error) {
    return error.code();
  }
  return core::ErrorCode::internal;
}

Value device(Value::List args) {
  ckpt::Object object;
  object.symbol = "torch.device";
  object.form = ckpt::Object::Form::call;
  object.args = Value::tuple(std::move(args));
  return Value::object(std::move(object));
}

}  // namespace

TEST(MapLocation, SendsEverythingToOneDeviceExceptMeta) {
  ckpt::LocationChanges changes;
  ckpt::Checkpoint moved = ckpt::map_location(on({"cuda:0", "cuda:1", "cpu", "meta"}), {.to = "cpu"}, &changes);
  EXPECT_THAT(locations(moved), ElementsAre("cpu", "cpu", "cpu", "meta"));
  EXPECT_EQ(changes.tensors, 4u);
  EXPECT_EQ(changes.changed, 2u);
}

TEST(MapLocation, MatchesTagsExactly) {
  EXPECT_THAT(locations(ckpt::map_location(on({"cuda:1", "cuda:10", "cuda"}), {.map = {{"cuda:1", "cpu"}}})),
              ElementsAre("cpu", "cuda:10", "cuda"));
}

TEST(MapLocation, MapsAllAtOnceSoThatASwapWorks) {
  ckpt::Checkpoint swapped =
      ckpt::map_location(on({"cuda:0", "cuda:1"}), {.map = {{"cuda:0", "cuda:1"}, {"cuda:1", "cuda:0"}}});
  EXPECT_THAT(locations(swapped), ElementsAre("cuda:1", "cuda:0"));
}

TEST(MapLocation, KeepsSharedStoragesSharedAndTheirTagRight) {
  auto storage = std::make_shared<const ckpt::Storage>(ckpt::Storage{core::DType::u8, bytes_of({1, 2}), "cuda:1"});
  ckpt::Entry whole = float_entry({1, 2}, "cuda:1");
  whole.view = ckpt::View{storage, 0, core::Shape{1}};
  ckpt::Entry second = float_entry({2}, "cuda:1");
  second.view = ckpt::View{storage, 1, core::Shape{1}};
  Value a = Value::tensor(std::make_shared<ckpt::Entry>(whole));
  Value b = Value::tensor(std::make_shared<ckpt::Entry>(second));
  ckpt::Checkpoint moved = ckpt::map_location(checkpoint(dict({{"a", a}, {"alias", a}, {"b", b}})), {.to = "cpu"});
  const ckpt::Entry& first = moved.root.find("a")->as_entry();
  EXPECT_EQ(first.view->storage, moved.root.find("b")->as_entry().view->storage);
  EXPECT_EQ(first.view->storage->location, "cpu");
  EXPECT_EQ(first.bytes, whole.bytes);
  EXPECT_EQ(moved.root.find("a")->identity(), moved.root.find("alias")->identity());
}

TEST(MapLocation, ChangesDeviceValuesToo) {
  ckpt::Checkpoint file = checkpoint(dict({{"w", tensor({1}, "cuda:1")},
                                           {"device", device({Value::text("cuda"), Value::integer(1)})},
                                           {"other", device({Value::text("cpu")})}}));
  ckpt::LocationChanges changes;
  ckpt::Checkpoint moved = ckpt::map_location(file, {.map = {{"cuda:1", "cuda:0"}}}, &changes);
  EXPECT_EQ(*moved.root.find("device"), device({Value::text("cuda"), Value::integer(0)}));
  EXPECT_EQ(*moved.root.find("other"), device({Value::text("cpu")}));
  EXPECT_EQ(changes.device_values, 1u);
}

TEST(MapLocation, ActsBelowAPathOnly) {
  ckpt::Checkpoint file = checkpoint(
      dict({{"model", dict({{"w", tensor({1}, "cuda:0")}})}, {"ema", dict({{"w", tensor({1}, "cuda:0")}})}}));
  EXPECT_THAT(locations(ckpt::map_location(file, {.to = "cpu", .at = "ema"})), ElementsAre("cuda:0", "cpu"));
}

TEST(MapLocation, AcceptsRareBackends) {
  EXPECT_THAT(locations(ckpt::map_location(on({"npu:3", "foo:1"}), {.map = {{"npu:3", "cpu"}, {"foo:1", "foo:0"}}})),
              ElementsAre("cpu", "foo:0"));
}

TEST(MapLocation, RefusesWhatIsNoDevice) {
  EXPECT_EQ(code_of({.to = "cuda:x"}), core::ErrorCode::usage);
  EXPECT_EQ(code_of({.to = "cuad:1"}), core::ErrorCode::usage);
  EXPECT_EQ(code_of({.map = {{"cuda:0", ""}}}), core::ErrorCode::usage);
  EXPECT_EQ(code_of({.map = {{"cuda:0", "cpu"}, {"cuda:0", "cuda:1"}}}), core::ErrorCode::usage);
  EXPECT_EQ(code_of({.to = "cpu", .map = {{"cuda:0", "cpu"}}}), core::ErrorCode::usage);
  EXPECT_EQ(code_of({}), core::ErrorCode::usage);
}

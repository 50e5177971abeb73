#include "libckpt/bridge/module_state.h"

#include <gtest/gtest.h>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/uninitialized.h"
#include "tests/libckpt/bridge/models.h"
#include "tests/support/temp_dir.h"

namespace {

using test::TempDir;

class EveryFormat : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path file(const char* stem) const { return dir_.path() / (std::string(stem) + GetParam()); }
  TempDir dir_;
};

TEST_P(EveryFormat, StateDictComesBackBitForBitAndInOrder) {
  core::manual_seed(1);
  test::TwoLayers model;
  ckpt::save(model.state_dict(), file("net"));
  core::StateDict loaded = ckpt::load(file("net"));
  ASSERT_EQ(loaded.size(), 4U);
  for (const auto& [key, tensor] : model.state_dict()) EXPECT_TRUE(loaded.at(key).equal(tensor)) << key;
}

TEST_P(EveryFormat, LoadedStateFitsAFreshModel) {
  core::manual_seed(1);
  test::TwoLayers model;
  ckpt::save(model.state_dict(), file("net"));
  test::TwoLayers other;
  EXPECT_EQ(other.load_state_dict(ckpt::load(file("net"))).str(), "<All keys matched successfully>");
  EXPECT_TRUE(other.fc2.weight.equal(model.fc2.weight));
}

/// One tensor that is cut into pieces, many that lie side by side in a block, some alone.
core::StateDict large_state() {
  core::manual_seed(3);
  core::StateDict state;
  state.set("large", core::randint(0, 256, {70 << 20}, {.dtype = core::DType::u8}));
  for (int i = 0; i < 40; ++i) state.set("small." + std::to_string(i), core::randn({1000 + i, 300}));
  state.set("scalar", core::tensor(7.0F));
  state.set("empty", core::zeros({0, 3}));
  return state;
}

TEST_P(EveryFormat, SeveralThreadsLoadWhatOneDoes) {
  const core::StateDict state = large_state();
  ckpt::save(state, file("net"), {.durable = false, .codec = ckpt::Codec::none});
  for (unsigned threads : {1U, 4U}) {
    for (ckpt::Io io : {ckpt::Io::automatic, ckpt::Io::direct}) {
      const core::StateDict loaded = ckpt::load(file("net"), {.open = {.threads = threads, .io = io}});
      ASSERT_EQ(loaded.size(), state.size());
      for (const auto& [key, tensor] : state) EXPECT_TRUE(loaded.at(key).equal(tensor)) << key << ", " << threads;
      EXPECT_NE(loaded.at("small.1").storage().id(), loaded.at("small.2").storage().id());
    }
  }
}

TEST_P(EveryFormat, DamageInATensorThatIsReadInPiecesIsNamed) {
  if (file("net").extension() == ".safetensors") GTEST_SKIP() << "it has no checksums";
  ckpt::save(large_state(), file("net"), {.durable = false, .codec = ckpt::Codec::none});
  std::string bytes = test::read_file(file("net"));
  bytes[60 << 20] ^= 1;
  test::write_file(file("net"), bytes);
  try {
    ckpt::load(file("net"), {.open = {.threads = 4}});
    ADD_FAILURE() << "it was loaded";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
    EXPECT_NE(std::string(error.what()).find("'large'"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::Values(".ckpt", ".pth", ".safetensors"));

class KeepingFormat : public EveryFormat {};

TEST_P(KeepingFormat, ModuleVersionsComeBack) {
  test::Normed model;
  ckpt::save(model.state_dict(), file("net"));
  core::StateDict loaded = ckpt::load(file("net"));
  EXPECT_EQ(loaded.keys(), model.state_dict().keys());
  EXPECT_EQ(loaded.versions(), model.state_dict().versions());
  EXPECT_EQ(loaded.version("bn"), 2);
}

TEST_P(KeepingFormat, TiedTensorsShareMemoryAgain) {
  test::Tied model;
  ckpt::save(model.state_dict(), file("tied"));
  core::StateDict loaded = ckpt::load(file("tied"));
  EXPECT_EQ(loaded.at("first.weight").storage().id(), loaded.at("second.weight").storage().id());
  EXPECT_NE(loaded.at("first.bias").storage().id(), loaded.at("second.bias").storage().id());
}

TEST_P(KeepingFormat, ViewsKeepTheirStrides) {
  core::StateDict state;
  core::Tensor base = core::arange(12).reshape({3, 4});
  state.set("transposed", base.t());
  state.set("row", base.select(0, 1));
  ckpt::save(state, file("views"));
  core::StateDict loaded = ckpt::load(file("views"));
  EXPECT_TRUE(loaded.at("transposed").equal(base.t()));
  EXPECT_EQ(loaded.at("transposed").strides(), (core::Shape{1, 4}));
  EXPECT_TRUE(loaded.at("row").equal(base.select(0, 1)));
  EXPECT_EQ(loaded.at("row").storage().id(), loaded.at("transposed").storage().id());
}

TEST_P(KeepingFormat, DevicesAreTagsInTheFileAndDevicesWhenLoaded) {
  core::set_logical_devices(2);
  {
    core::StateDict state;
    state.set("w", core::ones({2, 2}, {.device = "cuda:1"}));
    ckpt::save(state, file("placed"));
    EXPECT_EQ(ckpt::list_entries(ckpt::open(file("placed")).root)[0].entry->location, "cuda:1");
    EXPECT_EQ(ckpt::load(file("placed")).at("w").device().str(), "cuda:1");
    EXPECT_EQ(ckpt::load(file("placed"), {.map_location = "cpu"}).at("w").device().str(), "cpu");
  }
  core::set_logical_devices(0);
  EXPECT_THROW(ckpt::load(file("placed")), core::Error);
}

INSTANTIATE_TEST_SUITE_P(Formats, KeepingFormat, testing::Values(".ckpt", ".pth"));

ckpt::Value dict_of(std::vector<std::pair<const char*, ckpt::Value>> items) {
  ckpt::Dict dict;
  for (auto& [key, value] : items) dict.items.emplace_back(ckpt::Value::text(key), std::move(value));
  return ckpt::Value::dict(std::move(dict));
}

ckpt::Value one_tensor() {
  return dict_of({{"w", ckpt::Value::tensor(ckpt::to_entry(core::ones({2})))}});
}

TEST(Load, TakesTheOnlyModelOutOfATrainingFile) {
  TempDir dir;
  ckpt::Checkpoint checkpoint;
  checkpoint.root = dict_of(
      {{"epoch", ckpt::Value::integer(3)},
       {"model", one_tensor()},
       {"optimizer", dict_of({{"state", dict_of({{"0", one_tensor()}})}, {"param_groups", ckpt::Value::list({})}})}});
  ckpt::save(checkpoint, dir.path() / "run.ckpt");
  EXPECT_EQ(ckpt::load(dir.path() / "run.ckpt").keys(), (std::vector<std::string>{"w"}));
}

TEST(Load, ListsTheCandidatesInsteadOfGuessing) {
  TempDir dir;
  ckpt::Checkpoint checkpoint;
  checkpoint.root = dict_of({{"student", one_tensor()}, {"teacher", one_tensor()}});
  ckpt::save(checkpoint, dir.path() / "run.ckpt");
  try {
    ckpt::load(dir.path() / "run.ckpt");
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::usage);
    EXPECT_EQ(error.message(), "several state dicts: 'student' (1 tensor), 'teacher' (1 tensor)");
  }
  EXPECT_EQ(ckpt::load(dir.path() / "run.ckpt", {.path = "teacher"}).size(), 1U);
}

TEST(ToTensor, RefusesQuantisedBlocks) {
  ckpt::Entry entry;
  entry.dtype = core::DType::u8;
  entry.shape = core::Shape{18};
  entry.bytes = ckpt::memory_source(core::ByteVector(18));
  entry.blocks = ckpt::BlockType{"Q4_0", core::Shape{32}};
  EXPECT_THROW(ckpt::to_tensor(entry, core::Device("cpu")), core::Error);
}

TEST(ToValue, RefusesTensorsWhoseShapeIsNotKnown) {
  try {
    ckpt::to_value({{"fc.weight", core::uninitialized()}});
    FAIL() << "no error";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::value);
    EXPECT_EQ(error.message(), "'fc.weight': its shape is not known yet; call the lazy module once first");
  }
}

TEST(ModuleState, WhatIsSavedMayBeAModuleAMapATensorOrATree) {
  TempDir dir;
  const auto path = dir.path() / "x.pth";
  test::Normed model;
  ckpt::save(model, path);
  EXPECT_EQ(ckpt::load(path).keys(), model.state_dict().keys());

  const core::Tensor tensor = core::from_values<float>({1, 2, 3});
  ckpt::save(std::map<std::string, core::Tensor>{{"b", tensor}, {"a", tensor}}, path);
  EXPECT_EQ(ckpt::load(path).keys(), (std::vector<std::string>{"a", "b"}));

  ckpt::save(tensor, path);
  EXPECT_EQ(ckpt::load_tensor(path).to_vector<float>(), tensor.to_vector<float>());

  ckpt::save(ckpt::Value::dict({{"epoch", 3}, {"state_dict", ckpt::to_value(model.state_dict())}}), path);
  EXPECT_EQ(ckpt::load(path).keys(), model.state_dict().keys());
  EXPECT_EQ(ckpt::open(path).root.find("epoch")->as_integer(), 3);
}

TEST(ModuleState, OneTensorIsLoadedByItsName) {
  TempDir dir;
  const auto path = dir.path() / "x.ckpt";
  test::Normed model;
  ckpt::save(ckpt::Value::dict({{"epoch", 3}, {"model", ckpt::to_value(model.state_dict())}}), path);
  EXPECT_EQ(ckpt::load_tensor(path, {.path = "model.fc.weight"}).to_vector<float>(),
            model.fc.weight.to_vector<float>());
  const auto refused = [&](const char* name) {
    try {
      ckpt::load_tensor(path, {.path = name});
    } catch (const core::Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(refused("epoch"), "'epoch' is not a tensor");
  EXPECT_EQ(refused(""), "the file does not hold a tensor alone; name the one to load");
  EXPECT_NE(refused("model.fc.wieght").find("model.fc.weight"), std::string::npos) << refused("model.fc.wieght");
}

}  // namespace

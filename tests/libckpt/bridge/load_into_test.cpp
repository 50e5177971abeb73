#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "libckpt/bridge/module_state.h"
#include "libckpt/transform/quantize.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/libckpt/bridge/models.h"
#include "tests/support/temp_dir.h"

namespace {

using test::TempDir;
using test::TwoLayers;
using test::Wrapper;

TEST(LoadInto, ReadsStraightIntoTheTensorsThatAreThere) {
  TempDir dir;
  core::manual_seed(1);
  TwoLayers model;
  ckpt::save(model.state_dict(), dir.path() / "net.ckpt");
  TwoLayers other;
  const void* memory = other.fc1.weight.raw_data();
  std::uint32_t version = other.fc1.weight.version();
  ckpt::LoadReport report = ckpt::load_into(other, dir.path() / "net.ckpt");
  EXPECT_EQ(report.loaded, 4U);
  EXPECT_EQ(report.bytes, 4U * (12 + 4 + 8 + 2));
  EXPECT_TRUE(other.fc1.weight.equal(model.fc1.weight));
  EXPECT_EQ(other.fc1.weight.raw_data(), memory);
  EXPECT_GT(other.fc1.weight.version(), version);
}

TEST(LoadInto, RunsTheHooksOfStateDictOnce) {
  core::manual_seed(1);
  TwoLayers model;
  core::StateDict part;
  part.set("fc1.weight", model.fc1.weight);
  for (const core::StateDict& state : {model.state_dict(), part}) {  // read straight, and through load_state_dict
    ckpt::Checkpoint file;
    file.root = ckpt::to_value(state);
    TwoLayers other;
    int calls = 0;
    other.register_state_dict_pre_hook([&](core::Module&, const std::string&, bool) { ++calls; });
    ckpt::load_into(other, file, {.strict = false});
    EXPECT_EQ(calls, 1) << state.size() << " tensors";
    EXPECT_TRUE(other.fc1.weight.equal(model.fc1.weight));
  }
}

TEST(LoadInto, TakesTheValuesOfQuantisedBlocks) {
  core::Linear model(64, 32), other(64, 32);
  ckpt::Checkpoint file;
  file.root = ckpt::to_value(model.state_dict());
  const ckpt::Checkpoint packed = ckpt::quantize(file, {.to = "Q8_0"});
  EXPECT_EQ(ckpt::load_into(other, packed).loaded, 2U);
  const ckpt::Checkpoint values = ckpt::dequantize(packed);
  const core::StateDict wanted = ckpt::to_state_dict(values.root.as_dict());
  EXPECT_TRUE(other.weight.equal(wanted.at("weight")));
  EXPECT_FALSE(other.weight.equal(model.weight));  // rounded
  EXPECT_TRUE(other.bias.equal(model.bias));
}

class LoadIntoOfDamage : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    model_.fc2.bias.detach().fill_(1234567);
    ckpt::save(model_.state_dict(), path(), {.codec = ckpt::Codec::none});
    const float value = 1234567;
    std::string content = test::read_file(path());
    std::size_t at = content.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
    ASSERT_NE(at, std::string::npos);
    content[at] = static_cast<char>(content[at] ^ 1);
    test::write_file(path(), content);
  }
  std::string path() const { return (dir_.path() / (std::string("net") + GetParam())).string(); }

  TempDir dir_;
  TwoLayers model_;
};

TEST_P(LoadIntoOfDamage, NamesTheTensorAndTheFile) {
  TwoLayers other;
  for (const auto& load :
       std::vector<std::function<void()>>{[&] { ckpt::load_into(other, path()); }, [&] { ckpt::load(path()); }}) {
    try {
      load();
      ADD_FAILURE() << "was loaded";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
      EXPECT_NE(std::string(error.what()).find("'fc2.bias'"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
    }
  }
}

TEST_P(LoadIntoOfDamage, LenientlyWarnsOnce) {
  TwoLayers other;
  ckpt::LoadIntoOptions options;
  options.open.lenient = true;
  ckpt::LoadReport report = ckpt::load_into(other, path(), options);
  EXPECT_EQ(report.loaded, 4U);
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_NE(report.warnings[0].find("'fc2.bias' is damaged"), std::string::npos) << report.warnings[0];
  ckpt::Report reading;
  ckpt::LoadOptions loading;
  loading.open.lenient = true;
  loading.open.report = &reading;
  ckpt::load(path(), loading);
  EXPECT_EQ(reading.warnings, report.warnings);
}

INSTANTIATE_TEST_SUITE_P(Formats, LoadIntoOfDamage, testing::Values(".pth", ".npz", ".ckpt"));

TEST(LoadInto, AppliesRulesFirst) {
  TempDir dir;
  TwoLayers model;
  core::StateDict foreign;
  foreign.set("enc.0.kernel", model.fc1.weight.t().contiguous());
  foreign.set("enc.0.b", model.fc1.bias);
  foreign.set("enc.1.kernel", model.fc2.weight.t().contiguous());
  foreign.set("enc.1.b", model.fc2.bias);
  ckpt::save(foreign, dir.path() / "foreign.safetensors");
  ckpt::Rules rules = ckpt::parse_rules(
      "[[rule]]\ntranspose = '*.kernel'\n"
      "[[rule]]\nrename = [['enc.{#i}.kernel', 'fc{i+1}.weight'], ['enc.{#i}.b', 'fc{i+1}.bias'], ['x', 'y']]\n",
      "rules");
  TwoLayers other;
  ckpt::LoadIntoOptions options;
  options.rules = rules;
  ckpt::LoadReport report = ckpt::load_into(other, dir.path() / "foreign.safetensors", options);
  EXPECT_EQ(report.loaded, 4U);
  EXPECT_TRUE(other.fc2.weight.equal(model.fc2.weight));
  EXPECT_EQ(report.warnings, std::vector<std::string>{"a rule matches nothing: rename 'x' to 'y'"});
  core::StateDict state = ckpt::load(dir.path() / "foreign.safetensors", {.rules = rules});
  EXPECT_TRUE(state.at("fc1.weight").equal(model.fc1.weight));
}

/// A pickled module, as Lightning keeps them among the settings.
ckpt::Value pickled_module(const ckpt::Value& tensors) {
  ckpt::Object object;
  object.symbol = "my.project.Net";
  object.form = ckpt::Object::Form::instance;
  object.args = ckpt::Value::tuple({});
  object.has_state = true;
  ckpt::Dict state;
  state.items.emplace_back(ckpt::Value::text("_parameters"), tensors);
  object.state = ckpt::Value::dict(std::move(state));
  return ckpt::Value::object(std::move(object));
}

ckpt::Value state_of(const core::Module& module) {
  return ckpt::to_value(module.state_dict());
}

TEST(LoadInto, TakesTheDictThatFitsTheModule) {
  core::manual_seed(1);
  TwoLayers model, other;
  core::Linear critic(2, 7);
  ckpt::Checkpoint file;  // of a run with two networks, neither under a usual name
  file.root = ckpt::Value::dict({{"rng_state", ckpt::to_value(core::zeros({5056}, {.dtype = core::DType::u8}))},
                                 {"critic", state_of(critic)},
                                 {"actor", state_of(model)}});
  EXPECT_EQ(ckpt::load_into(other, file).path, "actor");
  EXPECT_TRUE(other.fc1.weight.equal(model.fc1.weight));
  core::Linear read(2, 7);
  EXPECT_EQ(ckpt::load_into(read, file).path, "critic");
  core::Linear none(3, 3);
  try {
    ckpt::load_into(none, file);
    FAIL() << "no dict fits";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.message(), "several state dicts: 'critic' (2 tensors), 'actor' (4 tensors)");
  }
}

TEST(LoadInto, AModelOfOneTensorStandsBesideTheStatesOfGenerators) {
  core::Linear model(2, 2, false), other(2, 2, false);
  ckpt::Checkpoint file;
  const ckpt::Value bytes = ckpt::to_value(core::zeros({16}, {.dtype = core::DType::u8}));
  file.root = ckpt::Value::dict({{"net_", state_of(model)}, {"rng_state", bytes}, {"cuda_rng_state", bytes}});
  EXPECT_EQ(ckpt::load_into(other, file).path, "net_");
  EXPECT_TRUE(other.weight.equal(model.weight));
}

TEST(LoadInto, APickledModuleBesideTheWeightsDoesNotStopIt) {
  TempDir dir;
  TwoLayers model;
  ckpt::Checkpoint file;
  ckpt::Dict root;
  root.items.emplace_back(ckpt::Value::text("state_dict"), ckpt::to_value(model.state_dict()));
  root.items.emplace_back(ckpt::Value::text("hyper_parameters"), pickled_module(root.items.front().second));
  file.root = ckpt::Value::dict(std::move(root));
  ckpt::save(file, dir.path() / "last.pth");
  TwoLayers other;
  ckpt::LoadReport report = ckpt::load_into(other, dir.path() / "last.pth");
  EXPECT_EQ(report.path, "state_dict");
  EXPECT_EQ(report.warnings, std::vector<std::string>());
  EXPECT_TRUE(other.fc1.weight.equal(model.fc1.weight));
  EXPECT_TRUE(ckpt::load(dir.path() / "last.pth").at("fc2.bias").equal(model.fc2.bias));
}

TEST(LoadInto, AWrappedFileFitsAPlainModelAndSaysSo) {
  TempDir dir;
  Wrapper<TwoLayers> wrapped;
  ckpt::save(wrapped.state_dict(), dir.path() / "net.pth");
  TwoLayers plain;
  ckpt::LoadReport report = ckpt::load_into(plain, dir.path() / "net.pth");
  EXPECT_EQ(report.stripped, (std::vector<std::pair<std::string, std::size_t>>{{"module.", 4}}));
  EXPECT_TRUE(report.added.empty());
  EXPECT_TRUE(plain.fc2.bias.equal(wrapped.module.fc2.bias));
}

TEST(LoadInto, APlainFileFitsAWrappedModel) {
  TempDir dir;
  TwoLayers plain;
  ckpt::save(plain.state_dict(), dir.path() / "net.safetensors");
  Wrapper<Wrapper<TwoLayers>> wrapped;
  ckpt::LoadReport report = ckpt::load_into(wrapped, dir.path() / "net.safetensors");
  EXPECT_EQ(report.added, (std::vector<std::pair<std::string, std::size_t>>{{"module.module.", 4}}));
  EXPECT_TRUE(wrapped.module.module.fc1.bias.equal(plain.fc1.bias));
}

TEST(LoadInto, WithoutReconcilingItIsAsStrictAsPyTorch) {
  TempDir dir;
  Wrapper<TwoLayers> wrapped;
  ckpt::save(wrapped.state_dict(), dir.path() / "net.ckpt");
  TwoLayers plain;
  try {
    ckpt::load_into(plain, dir.path() / "net.ckpt", {.reconcile = false});
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.message(),
              "Error(s) in loading state_dict for TwoLayers:\n"
              "\tMissing key(s) in state_dict: \"fc1.weight\", \"fc1.bias\", \"fc2.weight\", \"fc2.bias\". \n"
              "\tUnexpected key(s) in state_dict: \"module.fc1.weight\", \"module.fc1.bias\", \"module.fc2.weight\", "
              "\"module.fc2.bias\". ");
  }
}

TEST(LoadInto, OtherDtypesAreConverted) {
  TempDir dir;
  TwoLayers model;
  ckpt::save(model.state_dict(), dir.path() / "net.ckpt");
  TwoLayers wide;
  wide.to(core::DType::f64);
  ckpt::load_into(wide, dir.path() / "net.ckpt");
  EXPECT_TRUE(wide.fc1.weight.equal(model.fc1.weight.to(core::DType::f64)));
}

TEST(LoadInto, AWrappedBatchNormKeepsItsVersion) {
  TempDir dir;
  Wrapper<test::Normed> wrapped;
  core::StateDict state = wrapped.state_dict();
  state.erase("module.bn.num_batches_tracked");
  ckpt::save(state, dir.path() / "net.ckpt");
  test::Normed plain;
  EXPECT_THROW(ckpt::load_into(plain, dir.path() / "net.ckpt"), core::Error);  // version 2 must have the counter
  ckpt::LoadReport report = ckpt::load_into(plain, dir.path() / "net.ckpt", {.strict = false});
  EXPECT_EQ(report.missing_keys, (std::vector<std::string>{"bn.num_batches_tracked"}));
}

TEST(LoadInto, PrintsWhatItDid) {
  ckpt::LoadReport report;
  report.file = "net.pth";
  report.format = "torch-zip";
  report.loaded = 4;
  report.bytes = 2048;
  report.stripped = {{"module.", 4}};
  report.moved = {{"cuda:1", "cpu"}};
  std::ostringstream out;
  out << report;
  EXPECT_EQ(out.str(),
            "net.pth: 4 tensors loaded (2.0 KiB, torch-zip)\n  stripped 'module.': 4 keys\n  moved cuda:1 -> cpu\n");
}

}  // namespace

#include "zoo/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/bridge.h"
#include "libcore/base/error.h"
#include "libcore/core.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"
#include "zoo/adapt.h"
#include "zoo/load.h"
#include "zoo/manifest/manifest.h"
#include "zoo/mlp.h"
#include "zoo/small_images.h"
#include "zoo/vit.h"

namespace {

using core::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

/// Tensors made in this scope have shapes and no memory.
struct MetaScope {
  core::Device before = core::default_device();
  MetaScope() { core::set_default_device(core::Device("meta")); }
  ~MetaScope() { core::set_default_device(before); }
};

TEST(Zoo, EveryModelOfTheListHasTheKeysOfItsManifest) {
  MetaScope meta;
  for (const zoo::Model& model : zoo::list()) {
    auto known = zoo::find_manifest(model.name);
    auto module = zoo::make(model.name);
    if (!known) {
      EXPECT_FALSE(module->state_dict().empty()) << model.name;
      continue;
    }
    core::StateDict state = module->state_dict();
    std::vector<std::string> keys = state.keys();
    ASSERT_EQ(keys.size(), known->keys.size()) << model.name;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(keys[i], known->keys[i].key) << model.name;
      ASSERT_EQ(state.at(keys[i]).sizes(), *known->keys[i].shape) << model.name << " " << keys[i];
    }
  }
}

TEST(Zoo, AnUnknownNameListsWhatIsNear) {
  try {
    zoo::make("densnet121");
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(),
                 "no model is named 'densnet121'; there are densenet121, densenet161, densenet169, densenet201");
    EXPECT_EQ(error.code(), core::ErrorCode::usage);
  }
}

TEST(Zoo, AnOptionThatAModelDoesNotHaveIsRefused) {
  EXPECT_THROW(zoo::make("mlp", {.in_channels = 3}), core::Error);
  EXPECT_THROW(zoo::make("word2vec", {.num_classes = 3}), core::Error);
}

TEST(Zoo, ClassesAndChannelsCanBeChosen) {
  MetaScope meta;
  for (const char* name : {"resnet18", "vgg11", "squeezenet1_1", "densenet121", "mobilenet_v3_small", "swin_t"}) {
    auto net = zoo::make(name, {.num_classes = 7, .in_channels = 1});
    core::StateDict state = net->state_dict();
    EXPECT_EQ(state.at(state.keys().back()).sizes(), (core::Shape{7})) << name;
    EXPECT_EQ(state.at(state.keys().front()).size(1), 1) << name;
  }
}

TEST(SwapHead, ReplacesTheLastLayerAndKeepsTheRest) {
  zoo::CifarNet net;
  Tensor before = net.fc2.weight;
  EXPECT_THAT(zoo::swap_head(net, 3), ElementsAre("fc3"));
  EXPECT_EQ(net.fc3.weight.sizes(), (core::Shape{3, 84}));
  EXPECT_TRUE(net.fc2.weight.is_same(before));
  EXPECT_EQ(net(core::rand({2, 3, 32, 32})).sizes(), (core::Shape{2, 3}));
}

TEST(SwapHead, TakesAuxiliaryHeadsAndConvolutionsToo) {
  MetaScope meta;
  EXPECT_THAT(zoo::swap_head(*zoo::make("googlenet"), 5), ElementsAre("aux1.fc2", "aux2.fc2", "fc"));
  EXPECT_THAT(zoo::swap_head(*zoo::make("squeezenet1_1"), 5), ElementsAre("classifier.1"));
}

TEST(ChangeInputChannels, GreyImagesGiveWhatTheyGaveInColour) {
  core::manual_seed(0);
  zoo::CifarNet net;
  Tensor grey = core::rand({2, 1, 32, 32});
  Tensor before = net(grey.expand({2, 3, 32, 32}).contiguous());
  zoo::CifarNet one = net.clone(), six = net.clone();
  EXPECT_EQ(zoo::change_input_channels(one, 1), "conv1");
  zoo::change_input_channels(six, 6);
  EXPECT_TRUE(core::allclose(one(grey), before, {.rtol = 1e-4, .atol = 1e-5}));
  EXPECT_TRUE(core::allclose(six(grey.expand({2, 6, 32, 32}).contiguous()), before, {.rtol = 1e-4, .atol = 1e-5}));
}

TEST(Features, AreWhatTheNamedModulesGive) {
  zoo::CifarNet net;
  Tensor x = core::rand({2, 3, 32, 32});
  std::vector<Tensor> found = zoo::features(net, {"pool", "fc1", ""}, x);
  EXPECT_EQ(found[0].sizes(), (core::Shape{2, 16, 5, 5}));
  EXPECT_EQ(found[1].sizes(), (core::Shape{2, 120}));
  EXPECT_TRUE(core::equal(found[2], net(x)));
  EXPECT_THROW(zoo::features(net, {"fc9"}, x), core::Error);
}

/// A file with `state`, its keys changed by `rename`.
void write(const std::filesystem::path& path, const core::StateDict& state,
           const std::function<std::string(const std::string&)>& rename) {
  core::StateDict renamed;
  for (const std::string& key : state.keys()) renamed.set(rename(key), state.at(key));
  ckpt::save(renamed, path);
}

TEST(ZooLoad, TakesWrappersOff) {
  test::TempDir dir;
  core::manual_seed(1);
  zoo::CifarNet net;
  write(dir.path() / "a.pth", net.state_dict(), [](const std::string& key) { return "module._orig_mod." + key; });
  zoo::LoadNotes notes;
  auto loaded = zoo::load("cifar_net", dir.path() / "a.pth", {}, &notes);
  EXPECT_TRUE(core::equal(loaded->parameter("fc3.weight"), net.fc3.weight));
  EXPECT_FALSE(notes.steps.empty());
}

TEST(ZooLoad, TakesANestedWrappedStateFromADeviceThatIsNotThere) {
  test::TempDir dir;
  core::manual_seed(2);
  zoo::CifarNet net;
  core::DataParallel<zoo::CifarNet> wrapped(net);
  ckpt::Dict file;
  file.items.emplace_back(ckpt::Value::text("epoch"), ckpt::Value::integer(7));
  file.items.emplace_back(ckpt::Value::text("state_dict"), ckpt::to_value(wrapped.state_dict()));
  ckpt::Checkpoint checkpoint;
  checkpoint.root = ckpt::Value::dict(std::move(file));
  ckpt::save(ckpt::map_location(checkpoint, ckpt::MapLocationOptions{.to = "cuda:3"}), dir.path() / "best.pth");
  auto loaded = zoo::load("cifar_net", dir.path() / "best.pth");
  EXPECT_TRUE(core::equal(loaded->parameter("conv2.weight"), net.conv2.weight));
  EXPECT_EQ(loaded->parameter("conv2.weight").device(), core::Device("cpu"));
}

/// The file has the names that a proved map gives.
TEST(ZooLoad, TakesOtherProjectsNamesWhenAGuessIsAllowed) {
  auto map_file = test::golden_file("zoo/maps/vit_torchvision_timm.json");
  if (!map_file) GTEST_SKIP() << "golden data are not here";
  test::TempDir dir;
  core::manual_seed(3);
  const zoo::VisionTransformer::Options twin{.image_size = 32,
                                             .patch_size = 8,
                                             .num_layers = 3,
                                             .num_heads = 4,
                                             .hidden_dim = 64,
                                             .mlp_dim = 128,
                                             .num_classes = 10};
  zoo::VisionTransformer net(twin), other(twin);
  test::GoldenJson map(*map_file);
  core::StateDict state = net.state_dict(), renamed;
  for (test::Json pair : test::items(map.root()["pairs"])) {
    renamed.set(test::text(pair.at(1)), state.at(test::text(pair.at(0))));
  }
  ckpt::save(renamed, dir.path() / "timm.pth");
  EXPECT_THROW(zoo::load_into(other, "vit", dir.path() / "timm.pth"), core::Error);
  zoo::load_into(other, "vit", dir.path() / "timm.pth", {.guess = true});
  core::StateDict got = other.state_dict();
  for (const std::string& key : state.keys()) EXPECT_TRUE(core::equal(got.at(key), state.at(key))) << key;
}

TEST(ZooLoad, SaysWhatDoesNotFit) {
  test::TempDir dir;
  ckpt::save(zoo::MLP().state_dict(), dir.path() / "a.pth");
  try {
    zoo::load("cifar_net", dir.path() / "a.pth");
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
    EXPECT_THAT(error.context().front(), HasSubstr("a.pth"));
  }
}

}  // namespace

#include "zoo/zoo.h"
#include "zoo/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "libckpt/bridge.h"
#include "libcore/autograd/checkpoint.h"
#include "libcore/base/error.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/sparse.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/support/temp_dir.h"
#include "zoo/adapt.h"
#include "zoo/gpt2.h"
#include "zoo/hf_vit.h"
#include "zoo/load.h"
#include "zoo/made_as.h"
#include "zoo/manifest/manifest.h"
#include "zoo/mlp.h"
#include "zoo/nanogpt.h"
#include "zoo/rules/rule_packs.h"
#include "zoo/small_images.h"

namespace {

using core::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Zoo, EveryModelOfTheListHasTheKeysOfItsManifest) {
  const zoo::MadeAs scope(core::Device("meta"));
  for (const zoo::Model& model : zoo::list()) {
    auto known = zoo::find_manifest(model.name);
    auto module = zoo::make(model.name);
    ASSERT_TRUE(known.has_value()) << model.name << " has no manifest";
    core::StateDict state = module->state_dict();
    std::vector<std::string> keys = state.keys();
    ASSERT_EQ(keys.size(), known->keys.size()) << model.name;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(keys[i], known->keys[i].key) << model.name;
      ASSERT_EQ(state.at(keys[i]).sizes(), *known->keys[i].shape) << model.name << " " << keys[i];
    }
  }
}

TEST(Zoo, TheKeyListsSayWhichModelsRun) {
  std::set<std::string_view> runs, makes;
  for (const zoo::ManifestInfo& info : zoo::list_manifests()) {
    if (info.runs) runs.insert(info.name);
  }
  const zoo::MadeAs scope(core::Device("meta"));
  for (const zoo::Model& model : zoo::list()) {
    const bool two = dynamic_cast<zoo::TwoInputs*>(zoo::make(model.name).get()) != nullptr;
    if (model.name != "word2vec" && !two) makes.insert(model.name);
  }
  EXPECT_EQ(runs, makes);
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
  const zoo::MadeAs scope(core::Device("meta"));
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
  const zoo::MadeAs scope(core::Device("meta"));
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

TEST(ZooLoad, TakesTheNamesOfTimmAndSaysSo) {
  test::TempDir dir;
  core::manual_seed(3);
  auto net = zoo::make("mobilenet_v3_small", {.num_classes = 7});
  ckpt::Checkpoint ours;
  ours.root = ckpt::to_value(net->state_dict());
  ckpt::Rules to_timm = ckpt::turned_round(*zoo::find_rule_pack("timm-mobilenet-v3-small")).rules;
  ckpt::save(ckpt::apply_rules(ours, to_timm), dir.path() / "timm.pth");
  zoo::LoadNotes notes;
  auto loaded = zoo::load("mobilenet_v3_small", dir.path() / "timm.pth", {.model = {.num_classes = 7}}, &notes);
  core::StateDict state = net->state_dict(), got = loaded->state_dict();
  for (const std::string& key : state.keys()) EXPECT_TRUE(core::equal(got.at(key), state.at(key))) << key;
  EXPECT_THAT(notes.steps, ElementsAre("from timm's names to torchvision's (rules timm-mobilenet-v3-small)"));
  EXPECT_THAT(notes.warnings, ElementsAre(HasSubstr("eps of 0.001")));
}

/// Its files have other names than its modules; timm's get there by two sets of rules.
TEST(ZooLoad, TakesFilesOfHuggingFaceAndTimmIntoHuggingFacesViT) {
  test::TempDir dir;
  core::manual_seed(8);
  const zoo::HFViTOptions options{.image_size = 16,
                                  .patch_size = 8,
                                  .hidden_size = 8,
                                  .num_hidden_layers = 2,
                                  .num_attention_heads = 2,
                                  .intermediate_size = 16,
                                  .num_labels = 3};
  zoo::HFViTForImageClassification net(options), other(options);
  ckpt::Checkpoint file;
  file.root = ckpt::to_value(net.state_dict());
  file = ckpt::apply_rules(file, ckpt::turned_round(*zoo::find_rule_pack("hf-vit-5")).rules);
  ckpt::save(file, dir.path() / "hub.safetensors");
  ckpt::save(ckpt::apply_rules(file, ckpt::turned_round(*zoo::find_rule_pack("timm-hf-vit")).rules),
             dir.path() / "timm.safetensors");
  core::StateDict state = net.state_dict();
  for (const char* name : {"hub.safetensors", "timm.safetensors"}) {
    zoo::load_into(other, "hf_vit", dir.path() / name);
    core::StateDict got = other.state_dict();
    for (const std::string& key : state.keys()) EXPECT_TRUE(core::equal(got.at(key), state.at(key))) << key;
    for (core::Tensor parameter : other.parameters()) parameter.detach().zero_();
  }
}

TEST(ZooLoad, TakesAHubFileOfGPT2WithoutItsPrefixIntoNanoGPT) {
  test::TempDir dir;
  core::manual_seed(4);
  zoo::GPT2LMHeadModel net({.vocab_size = 31, .n_positions = 16, .n_embd = 8, .n_layer = 2, .n_head = 2});
  core::StateDict state = net.state_dict(), file;
  for (const std::string& key : state.keys()) {
    if (key.starts_with("transformer.")) file.set(key.substr(12), state.at(key));
  }
  ckpt::save(file, dir.path() / "gpt2.safetensors");
  zoo::NanoGPT nano({.block_size = 16, .vocab_size = 31, .n_layer = 2, .n_head = 2, .n_embd = 8});
  zoo::load_into(nano, "nanogpt", dir.path() / "gpt2.safetensors");
  Tensor square = nano.parameter("transformer.h.1.attn.c_proj.weight");
  EXPECT_TRUE(core::equal(square, state.at("transformer.h.1.attn.c_proj.weight").t()));
  EXPECT_TRUE(core::equal(nano.parameter("lm_head.weight"), state.at("transformer.wte.weight")));
}

/// PyTorch's ImageNet example wraps the features of AlexNet and VGG alone.
TEST(ZooLoad, TakesFeaturesThatAloneWereWrapped) {
  test::TempDir dir;
  core::manual_seed(5);
  auto net = zoo::make("squeezenet1_1", {.num_classes = 3});
  write(dir.path() / "old.pth", net->state_dict(),
        [](const std::string& key) { return key.starts_with("features.") ? "features.module." + key.substr(9) : key; });
  auto loaded = zoo::load("squeezenet1_1", dir.path() / "old.pth", {.model = {.num_classes = 3}});
  EXPECT_TRUE(core::equal(loaded->parameter("features.0.weight"), net->parameter("features.0.weight")));
}

/// Both layers have the same shapes, and the file has another order than the model.
TEST(ZooLoad, PairsTensorsThatCouldBeExchangedOnlyAsAGuess) {
  test::TempDir dir;
  core::manual_seed(6);
  const zoo::MLP::Options square{.inputs = 4, .hidden = 4, .classes = 4};
  zoo::MLP net(square), other(square);
  core::StateDict file;
  file.set("w/a.weight", net.fc1.weight);
  file.set("w/b.weight", net.fc2.weight);
  file.set("b/a.bias", net.fc1.bias);
  file.set("b/b.bias", net.fc2.bias);
  ckpt::save(file, dir.path() / "a.pth");
  try {
    zoo::load_into(other, "mlp", dir.path() / "a.pth");
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("LoadOptions::guess"));
  }
  EXPECT_FALSE(core::equal(other.fc1.weight, net.fc1.weight));
  zoo::load_into(other, "mlp", dir.path() / "a.pth", {.guess = true});
  EXPECT_TRUE(core::equal(other.fc1.weight, net.fc1.weight));
  EXPECT_TRUE(core::equal(other.fc2.weight, net.fc2.weight));
}

TEST(ZooLoad, PairsTensorsInTheOrderOfTheModelWithoutAGuess) {
  test::TempDir dir;
  core::manual_seed(7);
  zoo::CifarNet net, other;
  int next = 0;
  write(dir.path() / "a.pth", net.state_dict(), [&](const std::string&) { return "tensor_" + std::to_string(next++); });
  zoo::load_into(other, "cifar_net", dir.path() / "a.pth");
  core::StateDict state = net.state_dict(), got = other.state_dict();
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

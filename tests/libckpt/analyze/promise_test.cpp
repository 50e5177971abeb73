// What `why` promises: a plan is put through the rules of load_state_dict before it is shown.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libckpt/analyze/why/simulated_load.h"
#include "tests/libckpt/analyze/why/model.h"
#include "tests/support/temp_dir.h"

using ckpt::CauseKind;
using ckpt::Diagnosis;
using ckpt::Value;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace test;

namespace {

/// `version` for every norm, as PyTorch keeps them beside the keys.
Value with_versions(Value state, const Parts& parts, const std::string& prefix, std::int64_t version) {
  ckpt::Dict dict = state.as_dict();
  ckpt::Dict metadata;
  metadata.type = "collections.OrderedDict";
  for (const Part& part : parts) {
    if (!part.key.ends_with(".running_mean")) continue;
    std::string module = prefix + part.key.substr(0, part.key.rfind('.'));
    metadata.items.emplace_back(Value::text(module), dict_of({{"version", Value::integer(version)}}));
  }
  dict.attributes = dict_of({{"_metadata", Value::dict(std::move(metadata))}});
  return Value::dict(std::move(dict));
}

std::string quoted(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "\"" : ", \"") + key + "\"";
  return text;
}

bool is_counter(const std::string& key) {
  return key.ends_with("num_batches_tracked");
}

/// What PyTorch says of `model` given keys that begin with another prefix: it misses no counter, as the file has no
/// version under the names that it looks for.
std::string message_for(const Parts& model, const std::string& wanted_prefix, const std::string& file_prefix) {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  for (const Part& part : model) {
    if (!is_counter(part.key)) missing.push_back(wanted_prefix + part.key);
    unexpected.push_back(file_prefix + part.key);
  }
  return "Error(s) in loading state_dict for ResNet:\n\tMissing key(s) in state_dict: " + quoted(missing) +
         ". \n\tUnexpected key(s) in state_dict: " + quoted(unexpected) + ". ";
}

Naming without_counters() {
  return [](const std::string& key) { return is_counter(key) ? std::string() : key; };
}

std::string line_of(const Diagnosis& d) {
  return ckpt::command_line(d);
}

const Parts kNet = small_resnet({1, 1}, 5);

}  // namespace

TEST(SimulatedLoad, SaysWhatPyTorchSays) {
  ckpt::KeyList list;
  list.keys = {{"fc.weight", core::Shape{2, 3}}, {"fc.bias", core::Shape{2}}, {"scale", core::Shape{}}};
  ckpt::Dict dict = build({{"fc.weight", {4, 3}}, {"scale", {1}}, {"head", {2}}}).as_dict();
  core::LoadProblems problems = ckpt::detail::simulate_load(dict, list);
  EXPECT_THAT(problems.missing, ElementsAre("fc.bias"));
  EXPECT_THAT(problems.unexpected, ElementsAre("head"));
  EXPECT_THAT(problems.errors, ElementsAre("size mismatch for fc.weight: copying a param with shape torch.Size([4, 3]) "
                                           "from checkpoint, the shape in current model is torch.Size([2, 3])."));
}

TEST(SimulatedLoad, AsksForCountersOfNormsThatHaveAVersion) {
  ckpt::KeyList list = wanted(kNet);
  Value bare = build(kNet, without_counters());
  EXPECT_TRUE(ckpt::detail::simulate_load(bare.as_dict(), list).none());
  EXPECT_TRUE(ckpt::detail::simulate_load(with_versions(bare, kNet, "", 1).as_dict(), list).none());
  EXPECT_THAT(ckpt::detail::simulate_load(with_versions(bare, kNet, "", 2).as_dict(), list).missing,
              Contains("bn1.num_batches_tracked"));
}

TEST(SimulatedLoad, TakesTensorsAlone) {
  ckpt::KeyList list;
  list.keys = {{"a", core::Shape{}}};
  Value state = dict_of({{"a", Value::integer(1)}, {"epoch", Value::integer(3)}});
  core::LoadProblems problems = ckpt::detail::simulate_load(state.as_dict(), list);
  EXPECT_THAT(problems.unexpected, ElementsAre("epoch"));
  EXPECT_THAT(problems.errors, ElementsAre("While copying the parameter named \"a\", expected torch.Tensor or "
                                           "Tensor-like object from checkpoint but received <class 'int'>"));
}

// A message is silent about counters when the file has no version under the names that the model looks for.
TEST(Promise, CountersThatAMessageIsSilentAboutAreKept) {
  for (std::string prefix : {"module.", "_orig_mod.", "backbone.", "model."}) {
    for (bool versions : {true, false}) {
      Value file = build(kNet, with_prefix(prefix));
      if (versions) file = with_versions(file, kNet, prefix, 2);
      Diagnosis d = diagnose(file, {.error = message_for(kNet, "", prefix)});
      EXPECT_TRUE(d.fixable()) << prefix;
      EXPECT_EQ(line_of(d), "ckpt strip-prefix --prefix " + prefix + " net.pth -o net.fixed.pth");
    }
  }
}

TEST(Promise, CountersAreKeptForAModelThatIsWrapped) {
  Value file = with_versions(build(kNet), kNet, "", 2);
  Diagnosis d = diagnose(file, {.error = message_for(kNet, "module.", "")});
  EXPECT_EQ(line_of(d), "ckpt add-prefix --prefix module. net.pth -o net.fixed.pth");
}

TEST(Promise, CountersAreKeptBetweenTwoWrappers) {
  Value file = with_versions(build(kNet, with_prefix("module.")), kNet, "module.", 2);
  Diagnosis d = diagnose(file, {.error = message_for(kNet, "_orig_mod.", "module.")});
  EXPECT_TRUE(d.fixable());
  ckpt::Checkpoint checkpoint;
  checkpoint.root = file;
  EXPECT_EQ(ckpt::apply_fix(checkpoint, d.plan).root.as_dict().items.size(), kNet.size());
}

TEST(Promise, CountersThatNoVersionAsksForAreNotAdded) {
  Value bare = build(kNet, without_counters());
  EXPECT_TRUE(diagnose(bare, {.wanted = {wanted(kNet)}}).loads());
  Diagnosis d = diagnose(with_versions(bare, kNet, "", 2), {.wanted = {wanted(kNet)}});
  ASSERT_EQ(d.causes.size(), 1u);
  EXPECT_EQ(d.causes[0].kind, CauseKind::missing_counters);
  EXPECT_TRUE(d.fixable());
}

TEST(Promise, NoFixThatLeavesKeysMissing) {
  Parts ten = small_resnet({1, 1}, 10);
  Diagnosis d = diagnose(build(kNet), {.wanted = {wanted(ten)}});
  EXPECT_FALSE(d.fixable());
  EXPECT_EQ(line_of(d), "");
  EXPECT_EQ(ckpt::python_line(d), "");
  EXPECT_THAT(d.missing, ElementsAre("fc.weight", "fc.bias"));
}

TEST(Promise, NoFixForADeeperModel) {
  Parts deep = small_resnet({3, 4}, 5);
  Diagnosis d = diagnose(build(deep, with_prefix("module.")), {.wanted = {wanted(kNet)}});
  ASSERT_FALSE(d.causes.empty());
  EXPECT_EQ(d.causes.front().kind, CauseKind::depth);  // before the prefix
  EXPECT_EQ(line_of(d), "");
}

TEST(Promise, NoFixForARecurrentNetworkWithMoreLayers) {
  Parts two = {{"rnn.weight_ih_l0", {8, 2}}, {"rnn.weight_hh_l0", {8, 2}}, {"rnn.bias_ih_l0", {8}},
               {"rnn.weight_ih_l1", {8, 2}}, {"rnn.weight_hh_l1", {8, 2}}, {"rnn.bias_ih_l1", {8}}};
  Parts three = two;
  for (const char* name : {"rnn.weight_ih_l2", "rnn.weight_hh_l2"}) three.push_back({name, {8, 2}});
  Diagnosis d = diagnose(build(three), {.wanted = {wanted(two)}});
  EXPECT_EQ(d.causes.front().kind, CauseKind::depth);
  EXPECT_EQ(line_of(d), "");
}

TEST(Promise, NoFixForLayersWithANumberBehindAName) {
  auto layers = [](int count) {
    Parts parts;
    for (int i = 0; i < count; ++i) parts.push_back({"layers.encoder_layer_" + std::to_string(i) + ".w", {4, 4}});
    return parts;
  };
  Diagnosis d = diagnose(build(layers(4)), {.wanted = {wanted(layers(2))}});
  EXPECT_EQ(d.causes.front().kind, CauseKind::depth);
  EXPECT_EQ(line_of(d), "");
}

TEST(Promise, AMessageAloneOnlyOfLayersBeyondTheLastIsOfAnotherModel) {
  ckpt::WhyOptions options;
  options.error = "Unexpected key(s) in state_dict: \"layer1.2.conv1.weight\", \"layer1.3.conv1.weight\". ";
  Diagnosis d = ckpt::why_message(options);
  EXPECT_EQ(d.causes.front().kind, CauseKind::depth);
  EXPECT_EQ(line_of(d), "");
}

TEST(Promise, AMessageAloneOnlyOfSpareKeysDropsThem) {
  ckpt::WhyOptions options;
  options.error = "Unexpected key(s) in state_dict: \"aux.weight\", \"aux.bias\". ";
  Diagnosis d = ckpt::why_message(options);
  EXPECT_EQ(line_of(d), "ckpt select --exclude aux.weight --exclude aux.bias FILE -o FILE.fixed.pth");
  EXPECT_EQ(ckpt::python_line(d), "");  // where in the file the keys lie is not known
}

TEST(Promise, ShapesThatNobodyKnowsAreNotPromised) {
  ckpt::KeyList names = wanted(kNet, "keys.txt");
  for (ckpt::WantedKey& key : names.keys) key.shape.reset();
  Diagnosis d = diagnose(build(small_resnet({1, 1}, 5, 8)), {.wanted = {names}});
  EXPECT_FALSE(d.loads());
  EXPECT_TRUE(d.names_match());
}

// Without shapes every other layer of two tensors would do.
TEST(Promise, NamesThatHaveNothingInCommonAreNotExchangedWithoutShapes) {
  Parts model = {{"body.weight", {4, 4}}, {"pooler.dense.weight", {8, 8}}, {"pooler.dense.bias", {8}}};
  ckpt::KeyList names = wanted(model, "keys.txt");
  for (ckpt::WantedKey& key : names.keys) key.shape.reset();
  Parts file = {{"body.weight", {4, 4}}, {"cls.decoder.weight", {26, 8}}, {"cls.decoder.bias", {26}}};
  Diagnosis d = diagnose(build(file), {.wanted = {names}});
  EXPECT_FALSE(d.fixable());
  EXPECT_THAT(d.missing, ElementsAre("pooler.dense.weight", "pooler.dense.bias"));
}

TEST(Promise, LoadsIsSaidOfADictOfTensorsAlone) {
  EXPECT_TRUE(diagnose(build(kNet), {}).loads());
  Value tensor = Value::tensor(entry_of({"w", {2}}));
  EXPECT_EQ(diagnose(tensor, {}).causes.front().kind, CauseKind::no_state_dict);
  EXPECT_EQ(diagnose(dict_of({{"last_epoch", Value::integer(3)}}), {}).causes.front().kind, CauseKind::no_state_dict);
  EXPECT_FALSE(diagnose(dict_of({{"w", tensor}, {"epoch", Value::integer(3)}}), {}).loads());
  EXPECT_FALSE(diagnose(dict_of({{"model", build(kNet)}}), {}).loads());
  for (std::string format :
       {"torchscript", "npz", "npy", "hdf5", "gguf", "safetensors-sharded", "torch-sharded", "dcp"}) {
    Diagnosis d = diagnose(build(kNet), {.wanted = {wanted(kNet)}}, format);
    EXPECT_FALSE(d.loads()) << format;
    EXPECT_EQ(line_of(d), "ckpt convert net.pth net.fixed.pth") << format;
  }
}

TEST(Promise, AModuleAmongHyperParametersIsNotTakenForTheWeights) {
  ckpt::Checkpoint checkpoint;
  Value module = build(small_mlp());
  checkpoint.root = dict_of(
      {{"hyper_parameters", dict_of({{"net", module}})}, {"state_dict", build(small_mlp(), with_prefix("model."))}});
  ckpt::WhyInput input{&checkpoint, "net.pth", {"torch.nn.Sequential"}, {"torch.nn.Sequential"}, {module.identity()}};
  Diagnosis d = ckpt::why(input, {.wanted = {wanted(small_mlp())}});
  EXPECT_TRUE(d.fixable());
  EXPECT_EQ(d.plan.steps.front().at, "state_dict");
}

TEST(Promise, TheOutputIsNoFileThatIsThere) {
  TempDir dir;
  std::string path = (dir.path() / "net.pth").string();
  std::ofstream(dir.path() / "net.fixed.pth") << "mine";
  ckpt::Checkpoint checkpoint;
  checkpoint.root = build(kNet, with_prefix("module."));
  Diagnosis d = ckpt::why({&checkpoint, path}, {.wanted = {wanted(kNet)}});
  EXPECT_THAT(line_of(d), HasSubstr("net.fixed2.pth"));
}

TEST(Promise, APyTorchFileNamedCkptIsFixedIntoAPyTorchFile) {
  ckpt::Checkpoint checkpoint;
  checkpoint.format = "torch-zip";
  checkpoint.root = dict_of({{"state_dict", build(kNet)}});
  Diagnosis d = ckpt::why({&checkpoint, "epoch=3.ckpt"}, {.wanted = {wanted(kNet)}});
  EXPECT_EQ(line_of(d), "ckpt convert epoch=3.ckpt::state_dict epoch=3.fixed.pth");
}

TEST(Promise, AMessageThatIsGoneIsNotAskedForAgain) {
  Value file = build(kNet, with_prefix("module."));
  ckpt::Dict dict = file.as_dict();
  dict.items.emplace_back(Value::text("n_averaged"), Value::tensor(entry_of({"n_averaged", {}, core::DType::i64})));
  Diagnosis d = diagnose(Value::dict(std::move(dict)), {.wanted = {wanted(kNet)}});
  EXPECT_EQ(ckpt::command_line(d, {.lacks_message = true}),
            "ckpt strip-prefix --wrappers net.pth -o net.fixed.pth && ckpt select --exclude n_averaged "
            "net.fixed.pth --in-place");
}

// An answer that needs the message is no use where the message came by a pipe.
TEST(Promise, AMessageAboutGroupsOrADtypeFitsIntoTheCommand) {
  for (std::string message : {"ValueError: loaded state dict has a different number of parameter groups",
                              "TypeError: Got unsupported ScalarType BFloat16"}) {
    ckpt::ErrorFacts facts = ckpt::parse_error_text(message);
    ckpt::ErrorFacts again = ckpt::parse_error_text(ckpt::short_error_text(facts));
    EXPECT_EQ(again.kinds, facts.kinds);
    EXPECT_EQ(again.dtype, facts.dtype);
    EXPECT_FALSE(again.empty());
  }
}

TEST(Promise, ShortMessagesAreReadBackAsTheyWere) {
  ckpt::ErrorFacts facts = ckpt::parse_error_text(message_for(kNet, "", "module.") +
                                                  "\n\tsize mismatch for fc.weight: copying a param with shape "
                                                  "torch.Size([5, 4]) from checkpoint, the shape in current model is "
                                                  "torch.Size([2, 4]).");
  ckpt::ErrorFacts again = ckpt::parse_error_text(ckpt::short_error_text(facts));
  EXPECT_EQ(again.missing, facts.missing);
  EXPECT_EQ(again.unexpected, facts.unexpected);
  EXPECT_EQ(again.model, "ResNet");
  ASSERT_EQ(again.mismatched.size(), 1u);
  EXPECT_EQ(again.mismatched[0].in_model, (core::Shape{2, 4}));
}

// The right numbers under other names or in other shapes: weight norm, projections, layers on a whole map, tables of
// windows; and what a message alone says of such files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libckpt/transform/quantize.h"
#include "tests/libckpt/analyze/why/model.h"

using ckpt::CauseKind;
using ckpt::Diagnosis;
using ckpt::Value;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

ckpt::KeyList names_of(const Parts& parts) {
  ckpt::KeyList list = wanted(parts, "keys.txt");
  for (ckpt::WantedKey& key : list.keys) key.shape.reset();
  return list;
}

std::vector<std::string> keys_after(Value root, const Diagnosis& d) {
  ckpt::Checkpoint checkpoint;
  checkpoint.root = std::move(root);
  std::vector<std::string> keys;
  const ckpt::Checkpoint fixed = ckpt::apply_fix(checkpoint, d.plan);
  for (const auto& [key, value] : fixed.root.as_dict().items) keys.push_back(ckpt::step_text(key));
  return keys;
}

const Parts kOlder = {{"start.weight_g", {6, 1, 1}}, {"start.weight_v", {6, 4, 1}}, {"start.bias", {6}}};
const Parts kNewer = {{"start.parametrizations.weight.original0", {6, 1, 1}},
                      {"start.parametrizations.weight.original1", {6, 4, 1}},
                      {"start.bias", {6}}};

const Parts kSplit = {{"attn.q_proj.weight", {8, 8}}, {"attn.k_proj.weight", {8, 8}}, {"attn.v_proj.weight", {8, 8}},
                      {"attn.q_proj.bias", {8}},      {"attn.k_proj.bias", {8}},      {"attn.v_proj.bias", {8}},
                      {"attn.proj.weight", {8, 8}},   {"norm.weight", {8}},           {"head.weight", {5, 8}}};
const Parts kFused = {{"attn.qkv.weight", {24, 8}},
                      {"attn.qkv.bias", {24}},
                      {"attn.proj.weight", {8, 8}},
                      {"norm.weight", {8}},
                      {"head.weight", {5, 8}}};

}  // namespace

// VGG-11 for VGG-13: the same names lead to other layers, and some shapes fit by accident.
TEST(OtherModel, ThatTheShapesAreOfComesFirstAndNothingIsFixed) {
  Parts eleven = small_vgg();
  Parts thirteen = eleven;
  thirteen[2].key = "features.5.weight";  // where the layer that follows has shapes of its own
  thirteen[3].key = "features.5.bias";
  thirteen.push_back({"features.3.weight", {4, 4}});
  thirteen.push_back({"features.3.bias", {4}});
  const std::vector<ckpt::KeyList> zoo = {wanted(eleven, "vgg_a"), wanted(thirteen, "vgg_b"), wanted(eleven, "vgg_c")};
  ckpt::WhyOptions options{.wanted = {wanted(thirteen, "vgg_b")}};
  options.known = [&]() -> const std::vector<ckpt::KeyList>& { return zoo; };
  Diagnosis d = diagnose(build(eleven), options);
  ASSERT_FALSE(d.causes.empty());
  EXPECT_THAT(d.causes.front().text, HasSubstr("this is a vgg_a: the shapes of the file are those of vgg_a"));
  EXPECT_TRUE(d.plan.empty());
  options.wanted = {wanted(eleven, "my vgg")};  // as much those of the target
  options.wanted[0].keys[0].key = "features.stem.weight";
  for (const ckpt::Cause& cause : diagnose(build(eleven), options).causes) {
    EXPECT_THAT(cause.text, Not(HasSubstr("this is a")));
  }
}

TEST(QuantizedBlocks, HaveTheShapeOfTheirValuesWhichTheFixWrites) {
  const Parts model = {{"fc.weight", {3, 64}}, {"fc.bias", {3}}};
  ckpt::Checkpoint file;
  file.root = build(model, with_prefix("module."));
  file = ckpt::quantize(file, {.to = "Q8_0"});
  ASSERT_TRUE(file.root.find("module.fc.weight")->as_entry().blocks);
  const Diagnosis d = diagnose(file.root, {.wanted = {wanted(model)}}, "gguf");
  EXPECT_TRUE(d.fixable());
  EXPECT_THAT(d.mismatched, testing::IsEmpty());
  const ckpt::Checkpoint fixed = ckpt::apply_fix(file, d.plan);
  ASSERT_EQ(fixed.root.as_dict().items.size(), 2u);
  const ckpt::Entry& weight = fixed.root.find("fc.weight")->as_entry();
  EXPECT_FALSE(weight.blocks);
  EXPECT_EQ(weight.shape, core::Shape({3, 64}));
}

TEST(WeightNorm, NewerNamesBecomeTheOlderOnesOfTheModel) {
  for (const ckpt::KeyList& list : {wanted(kOlder), names_of(kOlder)}) {
    Diagnosis d = diagnose(build(kNewer), {.wanted = {list}});
    ASSERT_EQ(d.causes.size(), 1u);
    EXPECT_EQ(d.causes[0].kind, CauseKind::old_names);
    EXPECT_TRUE(d.fixable());
    EXPECT_THAT(keys_after(build(kNewer), d), ElementsAre("start.weight_g", "start.weight_v", "start.bias"));
    EXPECT_THAT(ckpt::python_line(d), HasSubstr("re.sub"));
  }
}

TEST(WeightNorm, WrappersGoToo) {
  Diagnosis d = diagnose(build(kNewer, with_prefix("module.")), {.wanted = {names_of(kOlder)}});
  EXPECT_TRUE(d.fixable());
  Diagnosis back = diagnose(build(kOlder, with_prefix("net.")), {.wanted = {wanted(kNewer)}});
  EXPECT_TRUE(back.fixable());
}

// parametrizations.weight_norm registers a hook that takes the older names.
TEST(WeightNorm, OlderNamesLoadIntoANewerModelAsTheyAre) {
  Diagnosis d = diagnose(build(kOlder), {.wanted = {wanted(kNewer)}});
  EXPECT_TRUE(d.loads());
  EXPECT_EQ(d.after.keys, 3u);
  EXPECT_THAT(d.notes, Contains(HasSubstr("2 keys have the older names of weight norm")));
  Parts half = {kOlder[0], kOlder[2]};
  EXPECT_FALSE(diagnose(build(half), {.wanted = {wanted(kNewer)}}).loads());
}

TEST(Projections, AreJoinedAndNotRenamed) {
  for (const ckpt::KeyList& list : {wanted(kFused), names_of(kFused)}) {
    Diagnosis d = diagnose(build(kSplit), {.wanted = {list}});
    ASSERT_EQ(d.causes.size(), 1u);
    EXPECT_EQ(d.causes[0].kind, CauseKind::fused_projections);
    EXPECT_TRUE(d.fixable());
  }
}

TEST(Projections, AreSplitWithoutShapesWhereTheTensorSaysThatThePartsAreEqual) {
  Diagnosis d = diagnose(build(kFused), {.wanted = {names_of(kSplit)}});
  EXPECT_TRUE(d.fixable());
  Parts grouped = kFused;  // fewer heads for keys and values
  grouped[0].shape = {16, 8};
  grouped[1].shape = {16};
  EXPECT_FALSE(diagnose(build(grouped), {.wanted = {names_of(kSplit)}}).fixable());
}

TEST(FlattenedWeight, OfAConvolutionOnTheWholeMapBecomesThatOfALinearLayer) {
  Parts linear = {{"conv.weight", {8, 1, 5, 5}}, {"fc.weight", {12, 128}}, {"fc.bias", {12}}};
  Parts kernel = linear;
  kernel[1].shape = {12, 8, 4, 4};
  for (auto [file, model] : {std::pair(kernel, linear), std::pair(linear, kernel)}) {
    Diagnosis d = diagnose(build(file), {.wanted = {wanted(model)}});
    ASSERT_EQ(d.causes.size(), 1u);
    EXPECT_EQ(d.causes[0].kind, CauseKind::reshaped);
    EXPECT_TRUE(d.fixable());
  }
}

// (p1 p2 c) in some projects, (c p1 p2) in others.
TEST(FlattenedWeight, OfPatchesIsNotTakenForOne) {
  Parts linear = {{"patch_embed.weight", {8, 192}}, {"norm.weight", {8}}, {"head.weight", {5, 8}}};
  Parts kernel = linear;
  kernel[0].shape = {8, 3, 8, 8};
  EXPECT_FALSE(diagnose(build(kernel), {.wanted = {wanted(linear)}}).fixable());
}

TEST(WindowTables, FollowFromTheBiasesWhereAMessageGivesNoShape) {
  Parts file = {{"features.1.0.attn.relative_position_bias_table", {49, 2}}, {"features.1.0.attn.proj.weight", {4, 4}}};
  const std::string message = "Missing key(s) in state_dict: \"features.1.0.attn.relative_position_index\". ";
  Diagnosis d = diagnose(build(file), {.error = message});
  EXPECT_TRUE(d.fixable());
  EXPECT_FALSE(d.shapes_known);
  ASSERT_EQ(d.plan.steps.size(), 1u);
  EXPECT_THAT(d.plan.steps[0].shapes, ElementsAre(core::Shape{256}));
  Diagnosis alone = ckpt::why_message({.error = message});
  EXPECT_THAT(alone.notes, Contains(HasSubstr("follow from the size of the window")));
}

TEST(MessageAlone, OnlyOfCountersAddsThem) {
  Diagnosis d = ckpt::why_message(
      {.error = "Missing key(s) in state_dict: \"bn1.num_batches_tracked\", \"layer1.0.bn1.num_batches_tracked\". "});
  EXPECT_TRUE(d.fixable());
  EXPECT_EQ(d.causes.front().kind, CauseKind::missing_counters);
}

TEST(MessageAlone, OfBlocksThatFollowOnTheLastSaysThatTheModelIsDeeper) {
  Diagnosis d = ckpt::why_message(
      {.error = "Missing key(s) in state_dict: \"layer1.2.conv1.weight\", \"layer1.2.bn1.weight\". "});
  EXPECT_EQ(d.causes.front().kind, CauseKind::depth);
  EXPECT_THAT(d.causes.front().text, HasSubstr("the model seems to be deeper than the file"));
  Diagnosis head =
      ckpt::why_message({.error = "Missing key(s) in state_dict: \"classifier.1.weight\", \"classifier.1.bias\". "});
  EXPECT_NE(head.causes.front().kind, CauseKind::depth);
}

TEST(MessageAlone, OfCountsOfAProfilerDropsThem) {
  Diagnosis d = ckpt::why_message({.error = "Unexpected key(s) in state_dict: \"features.1.conv.total_ops\", "
                                            "\"features.1.conv.total_params\", \"classifier.1.total_ops\". "});
  EXPECT_TRUE(d.fixable());
  EXPECT_THAT(d.causes.front().text, HasSubstr("thop"));
}

TEST(MessageAlone, OfATiedTensorNamesLoadModel) {
  Diagnosis d = ckpt::why_message({.error = "Missing key(s) in state_dict: \"lm_head.weight\". "});
  EXPECT_FALSE(d.fixable());
  EXPECT_THAT(d.notes, Contains(HasSubstr("safetensors.torch.load_model(model, 'FILE')")));
}

TEST(MessageAlone, OfNoKeySaysWhatItIsAbout) {
  for (auto [message, kind] :
       {std::pair("loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
                  CauseKind::optimizer_groups),
        std::pair("RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk",
                  CauseKind::shared_tensors),
        std::pair("TypeError: Got unsupported ScalarType BFloat16", CauseKind::unsupported_dtype),
        std::pair("TypeError: Expected state_dict to be dict-like, got <class 'Net'>.", CauseKind::pickled_module)}) {
    Diagnosis d = ckpt::why_message({.error = message});
    ASSERT_EQ(d.causes.size(), 1u) << message;
    EXPECT_EQ(d.causes[0].kind, kind);
    EXPECT_THAT(d.causes[0].advice, Not(testing::IsEmpty()));
  }
}

TEST(PythonLine, ReadsEachFormatByTheReaderThatPythonHas) {
  auto line = [](const std::string& format, const Naming& naming) {
    return ckpt::python_line(diagnose(build(small_mlp(), naming), {.wanted = {wanted(small_mlp())}}, format));
  };
  EXPECT_EQ(line("torchscript", {}), "model.load_state_dict(torch.jit.load('net.pth').state_dict())");
  EXPECT_EQ(line("npz", {}),
            "import numpy; model.load_state_dict({k: torch.from_numpy(v) for k, v in numpy.load('net.pth').items()})");
  EXPECT_EQ(line("gguf", {}),
            "import gguf; model.load_state_dict({t.name: torch.from_numpy(t.data.copy()) for t in "
            "gguf.GGUFReader('net.pth').tensors})");
  EXPECT_THAT(line("hdf5", {}), HasSubstr("h5py.File('net.pth')"));
  EXPECT_THAT(line("npz", with_prefix("module.")), HasSubstr("k.removeprefix('module.'): v for k, v in sd.items()"));
  EXPECT_EQ(line("dcp", {}), "model.load_state_dict(torch.load('net.fixed.pth'))  # after the command above");
  EXPECT_EQ(line("native", {}), "model.load_state_dict(torch.load('net.converted.pth'))  # after the command above");
}

// Where NumPy has no such type.
TEST(PythonLine, LeavesBfloat16ToTheCommand) {
  Parts parts = {{"w", {2}, core::DType::bf16}};
  EXPECT_THAT(ckpt::python_line(diagnose(build(parts), {.wanted = {wanted(parts)}}, "npz")),
              HasSubstr("# after the command above"));
}

TEST(PythonLine, TiesWhatSafetensorsKeepsOnce) {
  Value file = build({{"wte.weight", {4, 2}}});
  ckpt::Dict dict = file.as_dict();
  dict.items.emplace_back(Value::text("lm_head.weight"), dict.items[0].second);
  ckpt::KeyList list = wanted({{"wte.weight", {4, 2}}, {"lm_head.weight", {4, 2}}});
  EXPECT_EQ(ckpt::python_line(diagnose(Value::dict(dict), {.wanted = {list}}, "safetensors")),
            "import safetensors.torch; sd = safetensors.torch.load_file('net.pth'); model.load_state_dict({**sd, "
            "'lm_head.weight': sd['wte.weight']})");
  list.ties = {{"wte.weight", "lm_head.weight"}};
  EXPECT_EQ(ckpt::python_line(diagnose(Value::dict(dict), {.wanted = {list}}, "safetensors")),
            "import safetensors.torch; safetensors.torch.load_model(model, 'net.pth')");
}

// load_model calls them unexpected: PyTorch has filled them in before it looks.
TEST(PythonLine, NamesTiedCountersOneByOne) {
  Parts parts = {{"left.running_mean", {4}}, {"left.num_batches_tracked", {}, core::DType::i64}};
  ckpt::Dict dict = build(parts).as_dict();
  for (int i : {0, 1}) {
    std::string name = i == 0 ? "right.running_mean" : "right.num_batches_tracked";
    dict.items.emplace_back(Value::text(name), dict.items[static_cast<std::size_t>(i)].second);
    parts.push_back({name, parts[static_cast<std::size_t>(i)].shape});
  }
  ckpt::KeyList list = wanted(parts);
  list.ties = {{"left.running_mean", "right.running_mean"}, {"left.num_batches_tracked", "right.num_batches_tracked"}};
  EXPECT_THAT(ckpt::python_line(diagnose(Value::dict(dict), {.wanted = {list}}, "safetensors")),
              HasSubstr("'right.num_batches_tracked': sd['left.num_batches_tracked']"));
}

TEST(Alternatives, HaveACommandAndALineOfTheirOwn) {
  Value root = dict_of({{"model", build(small_mlp(), with_prefix("module."))},
                        {"ema", build(small_mlp(), with_prefix("module."))},
                        {"epoch", Value::integer(1)}});
  Diagnosis d = diagnose(root, {.wanted = {wanted(small_mlp())}});
  ASSERT_EQ(d.alternatives.size(), 1u);
  EXPECT_EQ(ckpt::command_line(d.alternatives[0]),
            "ckpt convert net.pth::ema net.ema.pth && ckpt strip-prefix --prefix module. net.ema.pth --in-place");
  EXPECT_THAT(ckpt::python_line(d.alternatives[0]), HasSubstr("sd = torch.load('net.pth')['ema'];"));
  EXPECT_EQ(diagnose(root, {}).alternatives.size(), 1u);
}

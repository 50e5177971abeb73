#include "libckpt/analyze/key_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/analyze/error_text.h"
#include "libcore/base/error.h"

using ckpt::ErrorFacts;
using ckpt::KeyList;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

KeyList parse(std::string_view text) {
  return ckpt::parse_key_list(text, "keys.txt");
}

std::vector<std::string> names(const KeyList& list) {
  std::vector<std::string> out;
  for (const ckpt::WantedKey& key : list.keys) out.push_back(key.key);
  return out;
}

std::string error_of(std::string_view text) {
  try {
    parse(text);
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(KeyList, ReadsOneKeyALine) {
  KeyList list = parse("fc.weight\r\n\n  fc.bias  \n");
  EXPECT_THAT(names(list), ElementsAre("fc.weight", "fc.bias"));
  EXPECT_FALSE(list.keys[0].shape.has_value());
}

TEST(KeyList, ReadsShapesInEveryUsualForm) {
  KeyList list = parse(
      "a 10x512 float32 parameter\nb [10, 512]\nc torch.Size([10, 512])\nd: (10,)\ne scalar int64 buffer\nf "
      "torch.Size([])");
  EXPECT_EQ(*list.keys[0].shape, (core::Shape{10, 512}));
  EXPECT_EQ(list.keys[0].dtype, core::DType::f32);
  EXPECT_EQ(list.keys[0].kind, ckpt::WantedKey::Kind::parameter);
  EXPECT_EQ(*list.keys[1].shape, (core::Shape{10, 512}));
  EXPECT_EQ(*list.keys[2].shape, (core::Shape{10, 512}));
  EXPECT_EQ(list.keys[3].key, "d");
  EXPECT_EQ(*list.keys[3].shape, core::Shape{10});
  EXPECT_EQ(*list.keys[4].shape, core::Shape{});
  EXPECT_EQ(*list.keys[5].shape, core::Shape{});
}

TEST(KeyList, ReadsVersionsTiesAndUnsavedBuffers) {
  KeyList list = parse("# name x\n# parameters 12\na 3\nb 3\n~ bn 2\n~ . 1\n= a b\n- mask 1x4 int64\n");
  EXPECT_EQ(list.parameters, 12u);
  EXPECT_THAT(list.versions,
              ElementsAre(std::pair<std::string, std::int64_t>("bn", 2), std::pair<std::string, std::int64_t>("", 1)));
  EXPECT_THAT(list.ties, ElementsAre(ElementsAre("a", "b")));
  ASSERT_EQ(list.unsaved.size(), 1u);
  EXPECT_EQ(list.unsaved[0].key, "mask");
  EXPECT_THAT(names(parse("- fc.weight\n- fc.bias\n")), ElementsAre("fc.weight", "fc.bias"));
}

TEST(KeyList, ReadsWhatPythonPrints) {
  EXPECT_THAT(names(parse("odict_keys(['fc.weight', 'fc.bias'])")), ElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(names(parse("['a', \"b's\"]")), ElementsAre("a", "b's"));
}

TEST(KeyList, ReadsJsonInEveryUsualForm) {
  EXPECT_THAT(names(parse(R"(["a", "b"])")), ElementsAre("a", "b"));
  KeyList shapes = parse(R"({"a": [10, 5], "b": {"shape": [3], "dtype": "float16"}, "c": null})");
  EXPECT_EQ(*shapes.keys[0].shape, (core::Shape{10, 5}));
  EXPECT_EQ(shapes.keys[1].dtype, core::DType::f16);
  EXPECT_FALSE(shapes.keys[2].shape.has_value());
  KeyList listing = parse(R"({"path": "x", "tensors": [{"name": "a", "shape": [2], "dtype": "float32"}]})");
  EXPECT_EQ(*listing.keys[0].shape, core::Shape{2});
  EXPECT_THAT(names(parse(R"({"metadata": {}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})")),
              ElementsAre("a", "b"));
  EXPECT_THAT(names(parse(R"({"state_dict": [{"key": "a", "shape": []}], "ties": [["a", "b"]]})")), ElementsAre("a"));
}

TEST(KeyList, NamesWhatIsWrong) {
  EXPECT_THAT(error_of(""), HasSubstr("keys.txt: it names no key"));
  EXPECT_THAT(error_of("a\na\n"), HasSubstr("'a' twice"));
  EXPECT_THAT(error_of("a 3xx4\n"), HasSubstr("'3xx4' after key 'a' is not a shape"));
  EXPECT_THAT(error_of("a -3\n"), HasSubstr("not a shape"));
  EXPECT_THAT(error_of("{\"a\": [1.5]}"), HasSubstr("not a shape"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("neither a name"));
  EXPECT_THAT(error_of("['a"), HasSubstr("not closed"));
  EXPECT_THAT(error_of("{\"a\": [1]"), HasSubstr("keys.txt"));
}

TEST(KeyList, ComparesKeyByKey) {
  KeyList have = parse("a 3 float32\nc 2\nb 4\n");
  KeyList want = parse("a 3 float16\nb 5\nd 1\n");
  ckpt::KeyDifferences d = ckpt::compare_keys(have, want);
  EXPECT_THAT(d.missing, ElementsAre("d"));
  EXPECT_THAT(d.unexpected, ElementsAre("c"));
  EXPECT_THAT(d.shapes, ElementsAre("b: [4] where [5] is wanted"));
  EXPECT_THAT(d.dtypes, ElementsAre("a: float32 where float16 is wanted"));
  ckpt::KeyDifferences order = ckpt::compare_keys(parse("a\nb\n"), parse("b\na\n"));
  EXPECT_TRUE(order.none());
  EXPECT_TRUE(order.order);
}

TEST(ErrorText, ReadsTheMessageOfLoadStateDict) {
  ErrorFacts facts = ckpt::parse_error_text(
      "RuntimeError: Error(s) in loading state_dict for ResNet:\n\tMissing key(s) in state_dict: \"conv1.weight\", "
      "\"bn1.bias\". \n"
      "\tUnexpected key(s) in state_dict: \"module.conv1.weight\". \n"
      "\tsize mismatch for fc.weight: copying a param with shape torch.Size([10, 5]) from checkpoint, the shape in "
      "current model is "
      "torch.Size([7, 5]).\n");
  EXPECT_TRUE(facts.keys());
  EXPECT_EQ(facts.model, "ResNet");
  EXPECT_THAT(facts.missing, ElementsAre("conv1.weight", "bn1.bias"));
  EXPECT_THAT(facts.unexpected, ElementsAre("module.conv1.weight"));
  ASSERT_EQ(facts.mismatched.size(), 1u);
  EXPECT_EQ(facts.mismatched[0].in_file, (core::Shape{10, 5}));
  EXPECT_EQ(facts.mismatched[0].in_model, (core::Shape{7, 5}));
}

TEST(ErrorText, ReadsOlderAndOtherWordings) {
  EXPECT_THAT(ckpt::parse_error_text("KeyError: 'unexpected key \"module.a\" in state_dict'").unexpected,
              ElementsAre("module.a"));
  ErrorFacts old = ckpt::parse_error_text(
      "While copying the parameter named fc.weight, whose dimensions in the model are torch.Size([7, 5]) and whose "
      "dimensions in "
      "the checkpoint are torch.Size([10, 5]), ...");
  ASSERT_EQ(old.mismatched.size(), 1u);
  EXPECT_EQ(old.mismatched[0].in_file, (core::Shape{10, 5}));
  ErrorFacts report = ckpt::parse_error_text(
      "BertModel LOAD REPORT from: x\nKey | Status | \n----+----+\nencoder.{0...2}.a | UNEXPECTED | \npooler.b | "
      "MISSING | \n");
  EXPECT_THAT(report.unexpected, ElementsAre("encoder.0.a", "encoder.1.a", "encoder.2.a"));
  EXPECT_THAT(report.missing, ElementsAre("pooler.b"));
  ErrorFacts fresh = ckpt::parse_error_text(
      "Some weights of BertModel were not initialized from the model checkpoint at x and are newly initialized: ['a', "
      "'b']\nYou should");
  EXPECT_THAT(fresh.missing, ElementsAre("a", "b"));
}

TEST(ErrorText, ReadsWhatIsNotAboutKeys) {
  ErrorFacts device = ckpt::parse_error_text(
      "Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 2. Please");
  EXPECT_EQ(device.device, 3);
  EXPECT_EQ(device.devices, 2);
  EXPECT_THAT(
      ckpt::parse_error_text("WeightsUnpickler error: Unsupported global: GLOBAL argparse.Namespace was not").globals,
      ElementsAre("argparse.Namespace"));
  EXPECT_TRUE(ckpt::parse_error_text("SafetensorError: Error while deserializing header: HeaderTooLarge")
                  .has(ErrorFacts::Kind::header_too_large));
  EXPECT_TRUE(ckpt::parse_error_text("PytorchStreamReader failed reading zip archive: failed finding central directory")
                  .has(ErrorFacts::Kind::zip_directory));
  EXPECT_EQ(ckpt::parse_error_text("_pickle.UnpicklingError: invalid load key, 'v'.").load_key, "v");
  EXPECT_EQ(ckpt::parse_error_text("KeyError: 'F8_E4M3'").dtype, "F8_E4M3");
  EXPECT_TRUE(ckpt::parse_error_text("ValueError: loaded state dict has a different number of parameter groups")
                  .has(ErrorFacts::Kind::optimizer_groups));
}

TEST(ErrorText, FindsNothingInOtherText) {
  ErrorFacts facts = ckpt::parse_error_text("Segmentation fault (core dumped)\n");
  EXPECT_TRUE(facts.empty());
  EXPECT_THAT(facts.missing, IsEmpty());
  for (const char* cut : {"Missing key(s) in state_dict: \"a", "size mismatch for x: copying a param torch.Size([",
                          "\n- a: found shape", "LOAD REPORT\n{|MISSING", "{9...1}"}) {
    ckpt::parse_error_text(cut);
  }
}

/// `ckpt ls --json FILE | ckpt why --for -` said that the shape of 'files' is no shape.
TEST(KeyList, ReadsWhatLsPrintsAsJson) {
  KeyList list = parse(R"({"schema":2,"files":[{"path":"a","tensors":[{"name":"w","dtype":"float32","shape":[2]}]}]})");
  EXPECT_THAT(names(list), ElementsAre("w"));
  EXPECT_EQ(*list.keys[0].shape, core::Shape{2});
  EXPECT_THAT(error_of(R"({"files":[{"tensors":[]},{"tensors":[]}]})"), HasSubstr("2 files where one is expected"));
}

TEST(KeyList, ReadsLinesOfJson) {
  KeyList list = parse(
      "{\"schema\":2,\"path\":\"a\",\"tensors\":2}\n"
      "{\"of\":\"tensors\",\"name\":\"w\",\"dtype\":\"float32\",\"shape\":[2]}\n"
      "{\"of\":\"values\",\"name\":\"epoch\",\"value\":3}\n");
  EXPECT_THAT(names(list), ElementsAre("w"));
  EXPECT_EQ(list.keys[0].dtype, core::DType::f32);
}

TEST(KeyList, ReadsATableOfRepeatedLayers) {
  KeyList list = parse(
      "NAME      DTYPE    SHAPE  LOCATION  SIZE\n"
      "h.0-2.w   float32  [2]    cpu        8 B  \u00d73, shares 'a'\n"
      "h.3-4.0-1.w  float32  [2]  cpu  8 B  \u00d74\n"
      "x.5-6     float32  [2]    cpu        8 B\n");
  EXPECT_THAT(names(list), ElementsAre("h.0.w", "h.1.w", "h.2.w", "h.3.0.w", "h.3.1.w", "h.4.0.w", "h.4.1.w", "x.5-6"));
  EXPECT_THAT(error_of("NAME  DTYPE  SHAPE\nh.0-2.w  float32  [2]  \u00d74\n"), HasSubstr("is not 4 names"));
  EXPECT_THAT(error_of("NAME  DTYPE  SHAPE\nh.0-9999999.0-9999999.w  float32  [2]  \u00d74\n"),
              HasSubstr("is not 4 names"));
}

// Rules between the names of projects, as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using ckpt::JsonDocument;
using testing::HasSubstr;
using namespace test;

namespace {

/// Keys of one block of a vision transformer with its ends, in timm's names and in torchvision's.
const std::vector<std::string> kTimm = {"cls_token",
                                        "blocks.0.norm1.weight",
                                        "blocks.0.attn.qkv.weight",
                                        "blocks.0.attn.proj.bias",
                                        "blocks.0.mlp.fc2.bias",
                                        "head.bias"};
const std::vector<std::string> kTorchvision = {"class_token",
                                               "encoder.layers.encoder_layer_0.ln_1.weight",
                                               "encoder.layers.encoder_layer_0.self_attention.in_proj_weight",
                                               "encoder.layers.encoder_layer_0.self_attention.out_proj.bias",
                                               "encoder.layers.encoder_layer_0.mlp.3.bias",
                                               "heads.head.bias"};

Outcome done(const TempDir& dir, const std::vector<std::string>& arguments, int code = 0) {
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_EQ(outcome.code, code) << outcome.err << outcome.out;
  return outcome;
}

}  // namespace

TEST(ShippedRules, AreListed) {
  TempDir dir;
  Outcome list = done(dir, {"zoo", "rules", "*-vit"});
  EXPECT_THAT(list.out, HasSubstr("timm-vit     timm             torchvision"));
  EXPECT_THAT(list.out, HasSubstr("hf-vit       Hugging Face     torchvision"));
  EXPECT_EQ(done(dir, {"zoo", "rules", "-q", "timm-v*"}).out, "timm-vit\n");
  const Outcome none = run_ckpt(dir.path(), {"zoo", "rules", "nothing"});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.out, "no rules are named 'nothing'; 'ckpt zoo rules' lists them\n");
  JsonDocument json = JsonDocument::parse(done(dir, {"zoo", "rules", "--json", "hf-vit"}).out);
  auto rules = json.root().at("rules").items();
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].at("from").as_text(), "Hugging Face");
  EXPECT_THAT(rules[0].at("note").as_text(), HasSubstr("1e-12"));
  EXPECT_EQ(rules[0].at("steps").items().size(), 2u);
  EXPECT_EQ(done(dir, {"zoo", "rules", "none*"}, 1).err, "");
  EXPECT_EQ(done(dir, {"zoo", "rules", "-q", "keras-convnext-large"}).out, "keras-convnext-base\n");
  expect_refused(dir, {"zoo", "rules", "--toml", "timm-*"}, 2, "--toml", "'timm-*' means");
}

TEST(ShippedRules, RenameByNameAndBack) {
  TempDir dir;
  write_model(dir, "timm.pth", kTimm);
  Outcome there = done(dir, {"rename", "--rules", "timm-vit", "timm.pth"});
  EXPECT_THAT(there.out, HasSubstr("6 of 6 keys renamed from timm's names to torchvision's"));
  EXPECT_EQ(names_in(dir.path() / "timm.renamed.pth"), kTorchvision);
  done(dir, {"rename", "--rules", "timm-vit", "--reverse", "timm.renamed.pth", "-o", "back.pth"});
  done(dir, {"diff", "timm.pth", "back.pth"});
  done(dir, {"diff", "--rules", "timm-vit", "timm.pth", "timm.renamed.pth"});
}

TEST(ShippedRules, ActInAConversionAndBack) {
  TempDir dir;
  write_model(dir, "timm.pth", kTimm);
  EXPECT_THAT(done(dir, {"convert", "timm.pth", "ours.pth", "--rules", "timm:vit"}).out,
              HasSubstr("by the rules timm:vit"));
  EXPECT_EQ(names_in(dir.path() / "ours.pth"), kTorchvision);
  done(dir, {"convert", "ours.pth", "again.pth", "--rules", "timm:vit", "--reverse"});
  EXPECT_EQ(names_in(dir.path() / "again.pth"), kTimm);
  done(dir, {"diff", "again.pth", "timm.pth"});
}

TEST(ShippedRules, MayBeCopiedAndChanged) {
  TempDir dir;
  write_model(dir, "timm.pth", kTimm);
  write_file(dir.path() / "mine.toml", done(dir, {"zoo", "rules", "timm-vit", "--toml"}).out);
  done(dir, {"rename", "--rules", "mine.toml", "timm.pth", "-o", "a.pth"});
  EXPECT_EQ(names_in(dir.path() / "a.pth"), kTorchvision);
}

TEST(ShippedRules, AreRefusedForAFileWithOtherNames) {
  TempDir dir;
  write_model(dir, "ours.pth", kTorchvision);
  expect_refused(dir, {"rename", "--rules", "timm-vit", "ours.pth"}, 2, "ours.pth",
                 "its names are those of torchvision already");
  expect_refused(dir, {"rename", "--rules", "timm-regnet", "ours.pth"}, 2, "ours.pth", "'s1.b1.conv1.conv.weight'");
  expect_refused(dir, {"convert", "ours.pth", "x.pth", "--rules", "keras:vgg16"}, 2, "ours.pth",
                 "no tensor has a name");
  expect_refused(dir, {"convert", "ours.pth", "x.pth", "--rules", "keras:xception"}, 3, "'keras:xception'",
                 "torchvision has no Xception");
  expect_refused(dir, {"convert", "ours.pth", "x.pth", "--rules", "keras:convnext-larg"}, 2, "'keras:convnext-larg'",
                 "keras-convnext-large");
  expect_refused(dir, {"convert", "ours.pth", "x.pth", "--reverse"}, 2, "ckpt", "--reverse is for --rules");
  expect_refused(dir, {"rename", "--rules", "timm-vitt", "ours.pth"}, 2, "'timm-vitt'", "ckpt zoo rules");
  done(dir, {"rename", "--rules", "timm-vit", "--allow-unknown", "ours.pth", "--dry-run"});
}

TEST(ShippedRules, SayWhichLayersOfKerasAreLeft) {
  TempDir dir;
  write_model(dir, "keras.pth", {"layers.conv2d.vars.1", "layers.conv2d_13.vars.1", "layers.dense_3.vars.1", "seed"});
  const Outcome there = done(dir, {"convert", "keras.pth", "x.pth", "--rules", "keras:vgg16"});
  EXPECT_THAT(there.err, HasSubstr("warning: 3 tensors, such as 'layers.conv2d_13.vars.1', have names that the rules "
                                   "'keras-vgg16' do not know, and stay as they are\n"));
  EXPECT_THAT(there.err, HasSubstr("warning: 31 names, such as 'layers.conv2d.vars.0', of the 32 that the rules "
                                   "'keras-vgg16' know are not in the file"));
  EXPECT_EQ(names_in(dir.path() / "x.pth"),
            (std::vector<std::string>{"features.0.bias", "layers.conv2d_13.vars.1", "layers.dense_3.vars.1", "seed"}));
  const Outcome back = done(dir, {"convert", "x.pth", "y.pth", "--rules", "keras:vgg16", "--reverse"});
  EXPECT_THAT(back.err, HasSubstr("31 names, such as 'features.0.weight', of the 32"));
  EXPECT_THAT(done(dir, {"rename", "keras.pth", "-o", "z.pth", "--rules", "keras:vgg16"}).err,
              HasSubstr("3 tensors, such as 'layers.conv2d_13.vars.1', have names"));
}

TEST(ShippedRules, SayHowToTakeAModelOfKerasInsideOfAnother) {
  TempDir dir;
  write_model(dir, "mine.pth", {"layers.functional.layers.conv2d.vars.1", "layers.dense.vars.1"});
  EXPECT_THAT(done(dir, {"convert", "mine.pth", "x.pth", "--rules", "keras:vgg16"}).err,
              HasSubstr("1 tensor, such as 'layers.functional.layers.conv2d.vars.1', has a name that the rules "
                        "'keras-vgg16' do not know, and stays as it is; where they are those of a model inside of "
                        "another, 'ckpt strip-prefix --prefix layers.functional.' first"));
  done(dir, {"strip-prefix", "--prefix", "layers.functional.", "mine.pth", "-o", "bare.pth"});
  done(dir, {"convert", "bare.pth", "y.pth", "--rules", "keras:vgg16"});
  EXPECT_EQ(names_in(dir.path() / "y.pth"), (std::vector<std::string>{"features.0.bias", "classifier.0.bias"}));
}

TEST(ShippedRules, OfKerasLeaveAFileOfTheOtherSideAlone) {
  TempDir dir;
  write_model(dir, "ours.pth", {"conv1.weight", "bn1.running_mean", "bn1.running_var", "layer1.0.bn1.running_var"});
  for (const char* command : {"rename", "convert"}) {
    std::vector<std::string> line = {command, "ours.pth", "-o", "x.pth", "--rules", "keras-resnet50"};
    expect_refused(dir, line, 2, "ours.pth",
                   "no tensor has a name that the rules 'keras-resnet50' know, those of Keras");
    EXPECT_FALSE(std::filesystem::exists(dir.path() / "x.pth"));
  }
}

TEST(ShippedRules, SayWhatTheyAddAndWhatTheyTakeAway) {
  TempDir dir;
  write_model(dir, "keras.pth", {"layers.batch_normalization.vars.3", "layers.normalization.vars.0"});
  const Outcome there = done(dir, {"convert", "keras.pth", "x.pth", "--rules", "keras:efficientnet-b0", "--dry-run"});
  EXPECT_THAT(there.out, HasSubstr("add 0.00099 to '*.running_var': 1 tensor"));
  EXPECT_THAT(there.err, HasSubstr("9.9e-4 is added to running variances"));
  EXPECT_THAT(there.err, HasSubstr("'layers.normalization.vars.0' had float32 values of shape [1], and [0.485, 0.456, "
                                   "0.406] is what the way back makes"));
}

TEST(ShippedRules, SayWhatNamesDoNot) {
  TempDir dir;
  write_model(dir, "face.pth", {"encoder.layer.0.attention.attention.query.weight", "layernorm.bias"});
  Outcome there = done(dir, {"rename", "--rules", "hf-vit", "--allow-unknown", "face.pth", "--dry-run"});
  EXPECT_THAT(there.err, HasSubstr("warning: layer norms have an eps of 1e-12"));
}

TEST(WhyCommand, NamesTheProjectAndTheRules) {
  TempDir dir;
  write_model(dir, "timm.pth", kTimm);
  write_model(dir, "ours.pth", kTorchvision);
  Outcome why = done(dir, {"why", "timm.pth", "--for", "ours.pth"}, 1);
  EXPECT_THAT(why.out, HasSubstr("6 of 6 keys are as timm has them, where the model has those of torchvision"));
  EXPECT_THAT(why.out, HasSubstr("'cls_token' becomes 'class_token'"));
  EXPECT_THAT(why.out, HasSubstr("\n  ckpt rename --rules timm-vit timm.pth -o timm.fixed.pth\n"));
  done(dir, {"rename", "--rules", "timm-vit", "timm.pth", "-o", "timm.fixed.pth"});
  done(dir, {"why", "timm.fixed.pth", "--for", "ours.pth"});
  Outcome back = done(dir, {"why", "-q", "ours.pth", "--for", "timm.pth"}, 1);
  EXPECT_EQ(back.out, "ckpt rename --rules timm-vit --reverse ours.pth -o ours.fixed.pth\n");
}

TEST(FixCommand, TakesForeignNamesBehindWrappersWithoutAGuess) {
  TempDir dir;
  std::vector<std::string> wrapped;
  for (const std::string& key : kTimm) wrapped.push_back("module." + key);
  write_model(dir, "timm.pth", wrapped);
  write_model(dir, "ours.pth", kTorchvision);
  Outcome fix = done(dir, {"fix", "timm.pth", "--for", "ours.pth", "-o", "fixed.pth"});
  EXPECT_THAT(fix.out, HasSubstr("2 steps, 6 of 6 keys match ours.pth"));
  EXPECT_EQ(names_in(dir.path() / "fixed.pth"), kTorchvision);
}

TEST(ZooKeys, TellsVersionsTiesAndBuffersThatNoFileHolds) {
  TempDir dir;
  EXPECT_THAT(done(dir, {"zoo", "keys", "resnet18"}).out,
              HasSubstr("version 2: bn1, layer1.0.bn1, layer1.0.bn2 and 17 more\n"));
  EXPECT_THAT(done(dir, {"zoo", "keys", "gpt2"}).out, HasSubstr("tied: transformer.wte.weight, lm_head.weight\n"));
  EXPECT_THAT(done(dir, {"zoo", "keys", "bert_base"}).out, HasSubstr("not saved: embeddings.position_ids"));
  JsonDocument json = JsonDocument::parse(done(dir, {"zoo", "keys", "--json", "resnet18"}).out);
  auto versions = json.root().at("versions").items();
  ASSERT_EQ(versions.size(), 20u);
  EXPECT_EQ(versions[0].at("module").as_text(), "bn1");
  EXPECT_EQ(versions[0].at("version").as_integer(), 2);
  EXPECT_TRUE(json.root().at("arguments").is(ckpt::JsonView::Kind::object));
}

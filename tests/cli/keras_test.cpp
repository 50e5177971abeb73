// Files of Keras, as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/origin.h"
#include "tests/cli/files.h"
#include "tests/support/golden.h"

using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

Outcome done(const TempDir& dir, const std::vector<std::string>& arguments, int code = 0) {
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_EQ(outcome.code, code) << outcome.err << outcome.out;
  return outcome;
}

}  // namespace

TEST(KerasRulesOfAFamily, AreNamedByWhy) {
  const auto vgg = golden_file("keras/keras-vgg16");
  if (!vgg) GTEST_SKIP() << "no golden data";
  TempDir dir;
  std::filesystem::copy(*vgg, dir.path());
  const Outcome why = done(dir, {"why", "in.weights.h5", "--for", "torch.safetensors"}, 1);
  EXPECT_THAT(why.out, HasSubstr("32 of 32 keys are as Keras has them, where the model has those of torchvision"));
  EXPECT_THAT(why.out, HasSubstr("'layers.conv2d.vars.0' becomes 'features.0.weight'"));
  EXPECT_THAT(why.out, HasSubstr("(rules keras-vgg16)"));
  done(dir, {"fix", "in.weights.h5", "--for", "torch.safetensors", "-o", "fixed.pth"});
  done(dir, {"diff", "fixed.pth", "torch.safetensors"});
  EXPECT_THAT(done(dir, {"why", "torch.safetensors", "--for", "in.weights.h5"}, 1).out,
              HasSubstr("(rules keras-vgg16, backwards)"));
}

TEST(KerasRulesOfAFamily, AreRememberedWhereNamesDoNotSayAll) {
  TempDir dir;
  write_model(dir, "keras.pth", {"layers.batch_normalization.vars.3", "layers.batch_normalization.vars.2"});
  for (const char* name : {"x.pth", "x.safetensors", "x.ckpt"}) {
    done(dir, {"convert", "keras.pth", name, "--rules", "keras:efficientnet-b0"});
    EXPECT_THAT(ckpt::origin_of(ckpt::open(dir.path() / name)),
                HasSubstr("from Keras by the rules keras-efficientnet-b0: Keras pads layers of stride 2"))
        << name;
    EXPECT_THAT(
        done(dir, {"why", name, "--for", name}).out,
        HasSubstr("note: its weights were converted from Keras by the rules keras-efficientnet-b0: Keras pads"));
  }
  EXPECT_THAT(done(dir, {"meta", "x.safetensors", "--get", "ckpt_origin"}).out, HasSubstr("keras-efficientnet-b0"));
  done(dir, {"convert", "x.pth", "back.pth", "--rules", "keras:efficientnet-b0", "--reverse"});
  EXPECT_EQ(ckpt::origin_of(ckpt::open(dir.path() / "back.pth")), "");
}

TEST(KerasRulesOfAFamily, ReadFilesOfKerasBefore3) {
  const auto golden = golden_file("keras_legacy/keras-efficientnet-b0");
  if (!golden) GTEST_SKIP() << "no golden data";
  TempDir dir;
  std::filesystem::copy(*golden, dir.path());
  done(dir, {"convert", "weights.h5", "x.safetensors", "--rules", "keras:efficientnet-b0"});
  done(dir, {"diff", "x.safetensors", "torch.safetensors"});
  // Another format has its own order, and nothing says that of the model.
  done(dir, {"convert", "weights.h5", "weights.safetensors"});
  expect_refused(dir, {"convert", "weights.safetensors", "x.pth", "--rules", "keras:efficientnet-b0"}, 3,
                 "weights.safetensors", "only the .h5 file that Keras wrote says that order");
  EXPECT_THAT(done(dir, {"convert", "inside.h5", "inside.pth", "--rules", "keras:efficientnet-b0"}).err,
              HasSubstr("'model_weights.own.sequential.own.kernel'"));
}

TEST(KerasRulesByLayers, LeadThereAndBack) {
  const auto golden = golden_file("keras_layers/texts-keras");
  if (!golden) GTEST_SKIP() << "no golden data";
  TempDir dir;
  std::filesystem::copy(*golden, dir.path());
  const Outcome there = done(dir, {"convert", "in.keras", "x.pth", "--rules", "keras"});
  EXPECT_THAT(there.out, HasSubstr("10 layers of Keras as torch has them"));
  EXPECT_THAT(there.err, HasSubstr("are states of an optimizer or of random numbers, and are left out"));
  done(dir, {"diff", "x.pth", "torch.safetensors"});
  EXPECT_THAT(done(dir, {"why", "in.keras", "--for", "torch.safetensors"}, 1).out,
              HasSubstr("note: the names are those of Keras 3; 'ckpt convert FILE OUT --rules keras' makes them"));
  done(dir, {"convert", "x.pth", "back.weights.h5", "--rules", "keras", "--reverse", "--like", "in.keras"});
  const Outcome diff = run_ckpt(dir.path(), {"diff", "back.weights.h5", "in.keras", "--exclude", "optimizer.*"});
  EXPECT_EQ(diff.code, 0) << diff.out << diff.err;
}

TEST(KerasRulesByLayers, SayWhatTheyNeed) {
  TempDir dir;
  write_model(dir, "torch.pth", {"fc.weight", "fc.bias"});
  write_model(dir, "keras.pth", {"layers.layer_normalization.vars.0", "layers.layer_normalization.vars.1"});
  expect_refused(dir, {"convert", "torch.pth", "x.pth", "--rules", "keras"}, 2, "torch.pth",
                 "no tensor has a name that Keras gives");
  expect_refused(dir, {"convert", "torch.pth", "x.pth", "--rules", "keras", "--reverse"}, 2, "ckpt",
                 "needs --like FILE");
  expect_refused(dir, {"convert", "torch.pth", "x.pth", "--rules", "keras", "--like", "keras.pth"}, 2, "ckpt",
                 "--like is for --rules keras --reverse");
  expect_refused(dir, {"convert", "torch.pth", "x.pth", "--rules", "keras", "--reverse", "--like", "keras.pth"}, 2,
                 "torch.pth", "'layers.layer_normalization.vars.0' of the model of Keras would have no values");
  expect_refused(dir, {"rename", "torch.pth", "-o", "x.pth", "--rules", "keras"}, 2, "the rules 'keras'",
                 "ckpt convert IN OUT --rules keras");
}

TEST(KerasRulesByLayers, YieldToAFileOfThatName) {
  TempDir dir;
  write_model(dir, "torch.pth", {"fc.weight"});
  write_file(dir.path() / "keras", "[[rule]]\nrename = 'fc.*'\nto = 'head.*'\n");
  done(dir, {"convert", "torch.pth", "x.pth", "--rules", "keras"});
  EXPECT_EQ(names_in(dir.path() / "x.pth"), std::vector<std::string>{"head.weight"});
}

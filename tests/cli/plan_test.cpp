// ckpt plan: from files and key lists to tables.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using ckpt::JsonDocument;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

class CliPlan : public testing::Test {
 protected:
  void SetUp() override {
    write_checkpoint(dir_.path() / "net.pth", dict({{"fc.weight", matrix({10, 20})},
                                                    {"fc.bias", tensor({1, 2, 3, 4, 5, 6, 7, 8, 9, 10})},
                                                    {"bn.running_mean", tensor({0, 0})}}));
  }
  static ckpt::Value matrix(const core::Shape& shape) {
    ckpt::Entry entry = float_entry(std::vector<float>(static_cast<std::size_t>(shape.numel()), 0.5F));
    entry.shape = shape;
    return ckpt::Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
  }
  Outcome plan(std::vector<std::string> words) const {
    words.insert(words.begin(), {"plan", "net.pth"});
    return run_ckpt(dir_.path(), words, {.in_child = [] { ::setenv("CORE_LOGICAL_DEVICES", "host:2", 1); }});
  }
  TempDir dir_;
};

}  // namespace

TEST_F(CliPlan, CountsTheTensorsOfAFile) {
  const Outcome done = plan({});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("net.pth: 210 trainable values in 3 tensors, to be run\n"));
  EXPECT_THAT(done.out, HasSubstr("weights        float32  always  840 B\n"));
  EXPECT_THAT(done.out, HasSubstr("buffers        float32  always    8 B\n"));
  EXPECT_THAT(done.out, HasSubstr("tensors of the file         while loading  848 B\n"));
  EXPECT_THAT(done.out, HasSubstr("not counted: activations"));
  EXPECT_THAT(done.out, Not(HasSubstr("gradients")));
}

TEST_F(CliPlan, TrainsOnSeveralDevices) {
  const Outcome done = plan({"--optimizer", "adamw", "--devices", "2"});
  EXPECT_THAT(done.out, HasSubstr("to be trained with adamw, DataParallel on 2 devices"));
  EXPECT_THAT(done.out, HasSubstr("  cuda:1"));
  EXPECT_THAT(done.out, HasSubstr("exp_avg_sq              float32  always                  840 B\n"));
  const Outcome many = plan({"--optimizer", "adamw", "--devices", "64", "--parallel", "ddp"});
  EXPECT_THAT(many.out, HasSubstr("cuda:0 to cuda:63, each about"));
  EXPECT_THAT(many.out, HasSubstr("gradient_as_bucket_view=True saves them"));
}

TEST_F(CliPlan, TakesTheModelFromKeys) {
  write_file(dir_.path() / "keys.txt",
             "fc.weight 10x20 float16 parameter\nfc.bias\nlast.weight 2x2 float32 parameter\n");
  const Outcome done = plan({"--for", "keys.txt"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("keys.txt: 214 trainable values in 3 tensors"));
  EXPECT_THAT(done.out,
              HasSubstr("1 key of 3 missing, 0 of another shape; 'ckpt why --for keys.txt net.pth' says more"));
  EXPECT_THAT(done.out, HasSubstr("1 tensor of float32 becomes float16"));
  write_file(dir_.path() / "bare.txt", "fc.weight\nother\n");
  expect_refused(dir_, {"plan", "net.pth", "--for", "bare.txt"}, 2, "'other'", "no shape");
  const Outcome known = plan({"--for", "resnet50", "--optimizer", "sgd+momentum", "--json"});
  const JsonDocument json = JsonDocument::parse(known.out);
  EXPECT_EQ(json.root().at("parameters").as_integer(), 25557032);
  EXPECT_EQ(json.root().at("places").items()[0].at("between_steps").as_integer(),
            3 * 4 * 25557032LL + 53120 * 4 + 53 * 8);
}

TEST_F(CliPlan, SaysWhetherItFits) {
  EXPECT_EQ(plan({"--memory", "1GB"}).code, 0);
  EXPECT_THAT(plan({"--memory", "1GB"}).out, HasSubstr("fits: "));
  const Outcome small = plan({"--optimizer", "adam", "--memory", "3000"});
  EXPECT_EQ(small.code, 1);
  EXPECT_THAT(small.out, HasSubstr("does not fit: cuda:0 needs 4.1 KiB before any activation and has 2.9 KiB"));
  EXPECT_THAT(plan({"--optimizer", "adam", "--memory", "3000", "--json"}).out, HasSubstr("\"fits\": false"));
  expect_refused(dir_, {"plan", "net.pth", "--memory", "lots"}, 2, "'lots'", "24GB");
  if (!std::filesystem::exists(built_program("ckpt-run"))) GTEST_SKIP() << "ckpt-run was not built";
  EXPECT_EQ(plan({"--memory", "here", "--devices", "2"}).code, 0);
  const Outcome more = plan({"--memory", "here", "--devices", "3"});
  EXPECT_EQ(more.code, 1);
  EXPECT_THAT(more.out, HasSubstr("does not fit: this machine has 2 devices of 3"));
}

TEST_F(CliPlan, NamesWhatItCannotPlan) {
  expect_refused(dir_, {"plan", "net.pth", "--optimizer", "adamv"}, 2, "'adamv'", "adamw");
  expect_refused(dir_, {"plan", "net.pth", "--for", "resnet5"}, 2, "'resnet5'", "known model");
  expect_refused(dir_, {"plan", "net.pth", "--dtype", "int8"}, 2, "int8", "floating");
  write_checkpoint(dir_.path() / "none.pth", dict({{"epoch", ckpt::Value::integer(3)}}));
  expect_refused(dir_, {"plan", "none.pth"}, 2, "none.pth", "no tensors");
}

// 'ckpt set': plain values of whole files, and what is said of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/analyze/plain_values.h"
#include "tests/cli/files.h"

using ckpt::Value;
using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;

namespace {

Value run_state() {
  Value betas = Value::tuple({Value::real(0.9), Value::real(0.999)});
  Value groups = Value::list({dict({{"lr", Value::real(0.1)}, {"betas", betas}})});
  return dict({{"epoch", Value::integer(11)},
               {"best_acc", Value::real(0.91)},
               {"note", Value::text("first")},
               {"model", state_dict({"fc.weight", "fc.bias"}, {"fc"})},
               {"optimizer", dict({{"param_groups", groups}})}});
}

std::string run_well(const TempDir& dir, const std::vector<std::string>& arguments) {
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

std::string text_at(const fs::path& file, const std::string& key) {
  ckpt::Checkpoint checkpoint = ckpt::open(file);
  return ckpt::value_text(ckpt::value_at(checkpoint.root, key));
}

}  // namespace

TEST(Set, ChangesValuesInEveryFormatThatHoldsThem) {
  for (const char* file : {"net.pth", "net.ckpt"}) {
    TempDir dir;
    write_checkpoint(dir.path() / file, run_state());
    std::vector<std::string> words = {
        "set", file, "epoch=12", "best_acc=0.93", "optimizer.param_groups.0.lr=1e-4", "note=final", "--in-place"};
    std::string before = read_file(dir.path() / file);
    words.push_back("--dry-run");
    std::string said = run_well(dir, words);
    EXPECT_EQ(said.find("  epoch: 11 -> 12\n  best_acc: 0.91 -> 0.93\n  optimizer.param_groups.0.lr: 0.1 -> 0.0001\n"
                        "  note: 'first' -> 'final'\n"),
              0U)
        << said;
    EXPECT_THAT(said, HasSubstr("4 of 4 values set"));
    EXPECT_EQ(read_file(dir.path() / file), before) << file;
    words.pop_back();
    EXPECT_THAT(run_well(dir, words), HasSubstr(std::string(file) + ": 4 of 4 values set, "));
    EXPECT_EQ(text_at(dir.path() / file, "epoch"), "12") << file;
    EXPECT_EQ(text_at(dir.path() / file, "optimizer.param_groups.0"), "{'lr': 0.0001, 'betas': (0.9, 0.999)}");
    EXPECT_EQ(names_in(dir.path() / file), (std::vector<std::string>{"model.fc.weight", "model.fc.bias"}));
    EXPECT_EQ(modules(*ckpt::open(dir.path() / file).root.find("model")), std::vector<std::string>{"fc"});
    EXPECT_THAT(run_well(dir, words), HasSubstr("0 of 4 values set, file left as it is"));
  }
}

TEST(Set, AddsAndRemovesWhenAsked) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", run_state());
  EXPECT_THAT(run_well(dir, {"set", "net.pth", "--create", "seed:int=-3", "--unset", "note", "-o", "new.pth", "-n"}),
              HasSubstr("  + seed: -3\n  - note: 'first'\nnew.pth: 1 of 1 value set, 1 value removed, "));
  run_well(dir, {"set", "net.pth", "--create", "seed:int=-3", "--unset", "note", "-o", "new.pth"});
  ckpt::Checkpoint made = ckpt::open(dir.path() / "new.pth");
  EXPECT_EQ(made.root.find("note"), nullptr);
  EXPECT_EQ(*made.root.find("seed"), Value::integer(-3));
  EXPECT_EQ(text_at(dir.path() / "net.pth", "note"), "'first'");
  EXPECT_THAT(run_well(dir, {"set", "net.pth", "--unset", "note"}), HasSubstr("net.set.pth: 1 value removed, "));
  run_well(dir, {"set", "net.pth::optimizer", "param_groups.0.lr=3", "-q", "--in-place"});
  EXPECT_EQ(text_at(dir.path() / "net.pth", "optimizer.param_groups.0.lr"), "3.0");
}

TEST(Set, RefusesInOneLineAndLeavesTheFile) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", run_state());
  auto refused = [&](const std::vector<std::string>& more, const std::string& subject, const std::string& text) {
    std::vector<std::string> words = {"set", "net.pth", "--in-place"};
    words.insert(words.end(), more.begin(), more.end());
    expect_refused(dir, words, 2, subject, text);
  };
  refused({"epohc=12"}, "'epohc'", "did you mean 'epoch'? (--create adds a key that is not there)");
  refused({"--unset", "nota"}, "'nota'", "did you mean 'note'?");
  refused({"epoch=soon"}, "'soon'", "'epoch' is an int");
  refused({"model.fc.weight=0"}, "net.pth", "is a tensor of shape [1]; 'ckpt set' changes plain values");
  refused({"epoch"}, "'epoch'", "is not of the form KEY=VALUE");
  expect_refused(dir, {"set", "net.pth", "--in-place"}, 2, "ckpt", "give KEY=VALUE, or --unset KEY");
}

TEST(Set, NamesMetaWhereAFormatHasTextAlone) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"a"});
  write_model(dir, "net.npz", {"a"});
  write_model(dir, "net.gguf", {"a"});
  write_model(dir, "net.h5", {"a"});
  write_checkpoint(dir.path() / "net.pth", run_state());
  const std::string meta = "the text that it has for the whole file is changed by 'ckpt meta'";
  for (const char* file : {"net.safetensors", "net.gguf", "net.h5"}) {
    expect_refused(dir, {"set", file, "epoch=12", "--in-place"}, 3, file, meta);
  }
  expect_refused(dir, {"set", "net.npz", "epoch=12", "--in-place"}, 3, "net.npz", "holds tensors and no plain values");
  expect_refused(dir, {"set", "net.pth", "epoch=12", "-o", "net2.safetensors"}, 3, "net.pth", meta);
  run_well(dir, {"set", "net.safetensors", "--create", "epoch:int=1", "-o", "new.pth"});
  EXPECT_EQ(text_at(dir.path() / "new.pth", "epoch"), "1");
}

TEST(Set, SaysInJsonWhatChanged) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", run_state());
  ckpt::JsonDocument said =
      ckpt::JsonDocument::parse(run_well(dir, {"set", "net.pth", "--json", "--in-place", "--create", "epoch=12",
                                               "best_acc=nan", "seed:none=", "--unset", "note"}));
  auto changes = said.root().at("changes").items();
  ASSERT_EQ(changes.size(), 4U);
  EXPECT_EQ(changes[0].at("key").as_text(), "epoch");
  EXPECT_EQ(changes[0].at("from").at("value").as_integer(), 11);
  EXPECT_EQ(changes[0].at("to").at("value").as_integer(), 12);
  EXPECT_EQ(changes[1].at("to").at("type").as_text(), "float");
  EXPECT_EQ(changes[1].at("to").at("value").as_text(), "nan");
  EXPECT_FALSE(changes[2].has("from"));
  EXPECT_FALSE(changes[3].has("to"));
}

TEST(Set, CompletesValuesAndNotTensors) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", run_state());
  EXPECT_EQ(run_well(dir, {"completion", "bash", "--", "set", "net.pth", "e"}), "words\nepoch=\n");
  EXPECT_EQ(run_well(dir, {"completion", "bash", "--", "set", "net.pth", "optimizer.param_groups.0."}),
            "words\noptimizer.param_groups.0.betas.\noptimizer.param_groups.0.lr=\n");
  EXPECT_EQ(run_well(dir, {"completion", "bash", "--", "set", "net.pth", "--unset", "n"}), "words\nnote\n");
}

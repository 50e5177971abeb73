// split, join, compact, publish, avg, delta, optim, and strip-prefix with nothing to strip: what they write, what they
// refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libckpt/delta/delta.h"
#include "libckpt/io/json.h"
#include "libcore/base/text.h"
#include "tests/cli/files.h"
#include "tests/libckpt/transform/views.h"
#include "tests/support/sha256.h"

using ckpt::JsonDocument;
using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

Outcome expect_done(const TempDir& dir, const std::vector<std::string>& arguments) {
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome;
}

/// A model in a wrapper with its average and an optimizer.
Value training() {
  Value::List numbers = {Value::integer(0), Value::integer(1)};
  ckpt::Dict state;
  for (int i : {0, 1}) {
    state.items.emplace_back(Value::integer(i),
                             dict({{"step", tensor({1})}, {"exp_avg", tensor({static_cast<float>(i)})}}));
  }
  Value group = dict({{"lr", Value::real(0.1)}, {"params", Value::list(numbers)}});
  return dict({{"epoch", Value::integer(3)},
               {"model", state_dict({"module.fc.weight", "module.fc.bias"})},
               {"optimizer", dict({{"state", Value::dict(std::move(state))}, {"param_groups", Value::list({group})}})},
               {"ema", dict({{"module.fc.weight", tensor({10})}, {"module.fc.bias", tensor({20})}})}});
}

/// The only file of a folder that begins like this.
std::string file_like(const TempDir& dir, const std::string& start) {
  for (const std::string& name : list_folder(dir.path())) {
    if (name.starts_with(start)) return name;
  }
  return "";
}

}  // namespace

TEST(Split, WritesShardsBehindAnIndexAndJoinBringsThemBack) {
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b", "c"}, {"", "a"});
  Outcome outcome = expect_done(dir, {"split", "--shards", "2", "net.pth"});
  EXPECT_THAT(outcome.out, HasSubstr("net-shards/model.safetensors.index.json: 3 tensors from torch-zip"));
  EXPECT_THAT(list_folder(dir.path() / "net-shards"),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  JsonDocument index = JsonDocument::parse(read_file(dir.path() / "net-shards" / "model.safetensors.index.json"));
  EXPECT_EQ(index.root().at("metadata").at("total_size").as_integer(), 12);
  write_file(dir.path() / "net-shards" / "stray.safetensors", "not named by the index");
  expect_done(dir, {"join", "net-shards", "-o", "back.pth"});
  EXPECT_EQ(expect_done(dir, {"diff", "net.pth", "back.pth"}).err, "");
  EXPECT_THAT(modules(ckpt::open(dir.path() / "back.pth").root), ElementsAre("", "a"));
}

TEST(Split, BySizeByPrefixAndOverItself) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"enc.a", "enc.b", "head.c"});
  expect_done(dir, {"split", "--max-shard-size", "4", "net.safetensors", "-o", "s"});
  EXPECT_EQ(list_folder(dir.path() / "s").size(), 4u);
  expect_done(dir, {"split", "-f", "--prefix", "enc.", "net.safetensors", "-o", "s"});
  EXPECT_THAT(list_folder(dir.path() / "s"),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  // The same files are found to be there; others need names of their own.
  EXPECT_THAT(expect_done(dir, {"split", "--shards", "2", "--in-place", "s/model.safetensors.index.json"}).out,
              HasSubstr(core::format_size(std::filesystem::file_size(dir.path() / "s/model.safetensors.index.json"))));
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "s" / "model-00001-of-00002.safetensors"));
  expect_done(dir, {"split", "--prefix", "head.", "--in-place", "s/model.safetensors.index.json"});
  EXPECT_THAT(list_folder(dir.path() / "s"),
              ElementsAre("model-g2-00001-of-00002.safetensors", "model-g2-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  EXPECT_EQ(names_in(dir.path() / "s" / "model.safetensors.index.json").size(), 3u);
}

TEST(Split, RefusesWhatMakesNoSense) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"a"});
  write_checkpoint(dir.path() / "nested.pth", dict({{"model", state_dict({"a"})}}));
  expect_refused(dir, {"split", "net.safetensors"}, 2, "", "say how to split");
  expect_refused(dir, {"split", "--shards", "2", "--max-shard-size", "1K", "net.safetensors"}, 2, "",
                 "say how to split");
  expect_refused(dir, {"split", "--shards", "2", "net.safetensors", "-o", "x"}, 2, "x", "cannot spread 1 tensor");
  expect_refused(dir, {"split", "--shards", "1", "nested.pth", "-o", "x"}, 3, "nested", "cannot hold");
  expect_refused(dir, {"split", "--shards", "1", "--in-place", "net.safetensors"}, 2, "", "--in-place needs an index");
  expect_refused(dir, {"split", "--shards", "1", "net.safetensors", "-o", "net.safetensors"}, 4, "net.safetensors",
                 "is a file");
}

TEST(Join, RefusesFoldersThatAreNoModel) {
  TempDir dir;
  std::filesystem::create_directory(dir.path() / "empty");
  expect_refused(dir, {"join", "empty", "-o", "x.safetensors"}, 3, "empty", "neither an index");
  expect_refused(dir, {"join", "empty", "-o", "x.unknown"}, 2, "x.unknown", "does not say a format");
}

TEST(Io, EveryWayGivesTheSameFile) {
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b", "c"});
  for (const std::string extension : {".ckpt", ".pth", ".safetensors", ".npz", ".gguf", ".h5"}) {
    for (const std::string way : {"auto", "buffered", "direct"}) {
      const Outcome made = run_ckpt(dir.path(), {"convert", "-q", "--io", way, "net.pth", way + extension});
      EXPECT_EQ(made.code, 0) << made.err;
      EXPECT_EQ(read_file(dir.path() / (way + extension)), read_file(dir.path() / ("auto" + extension))) << way;
      EXPECT_EQ(run_ckpt(dir.path(), {"verify", "-q", "--io", way, way + extension}).code, 0);
    }
  }
  expect_refused(dir, {"verify", "--io", "fast", "net.pth"}, 2, "--io", "use auto, buffered or direct");
}

TEST(Compact, TrimsAndSaysWhatItSaved) {
  TempDir dir;
  auto storage = floats_storage(1000);
  write_checkpoint(dir.path() / "net.pth",
                   dict({{"row", view(storage, {4}, {1}, 100)}, {"w", tensor({1})}, {"v", tensor({1})}}));
  EXPECT_THAT(expect_done(dir, {"compact", "net.pth"}).out, HasSubstr("1 view trimmed (3.9 KiB)"));
  EXPECT_LT(std::filesystem::file_size(dir.path() / "net.compact.pth"), 2500u);
  Outcome outcome = expect_done(dir, {"compact", "--dedupe", "--dry-run", "net.pth", "-o", "x.pth"});
  EXPECT_THAT(outcome.out, HasSubstr("v shares the bytes of w"));
  expect_refused(dir, {"compact", "--dedupe", "--untie", "net.pth", "-o", "x.pth"}, 2, "", "excludes");
}

TEST(Publish, NamesTheFileByItsHash) {
  TempDir dir;
  write_checkpoint(dir.path() / "last.pth", training());
  Outcome outcome = expect_done(dir, {"publish", "last.pth"});
  std::string name = file_like(dir, "last-");
  std::string content = read_file(dir.path() / name);
  EXPECT_EQ(name, "last-" + sha256(core::as_bytes(content)).substr(0, 8) + ".pth");
  EXPECT_THAT(outcome.out, HasSubstr("published (moving average)"));
  EXPECT_THAT(outcome.out, HasSubstr("sha256 " + sha256(core::as_bytes(content))));
  ckpt::Checkpoint file = ckpt::open(dir.path() / name);
  EXPECT_THAT(names(file), ElementsAre("fc.weight", "fc.bias"));
  EXPECT_THAT(values_at(file.root, "fc.weight"), ElementsAre(10));
  EXPECT_EQ(list_folder(dir.path()).size(), 2u);
  expect_refused(dir, {"publish", "last.pth"}, 4, name, "already exists");
}

TEST(Publish, TakesTheNameItIsGiven) {
  TempDir dir;
  write_checkpoint(dir.path() / "last.pth", training());
  expect_done(dir, {"publish", "--ema", "off", "--to", "bf16", "last.pth", "-o", "net.safetensors"});
  EXPECT_THAT(names_in(dir.path() / "net.safetensors"), testing::UnorderedElementsAre("fc.weight", "fc.bias"));
  expect_done(dir, {"publish", "--hash-name", "last.pth", "-o", "net.safetensors"});
  EXPECT_EQ(file_like(dir, "net-").size(), std::string("net-12345678.safetensors").size());
  std::filesystem::create_directory(dir.path() / "out");
  expect_done(dir, {"publish", "last.pth", "-o", "out"});
  EXPECT_EQ(list_folder(dir.path() / "out").size(), 1u);
  expect_done(dir, {"publish", "--max-shard-size", "4", "last.pth", "-o", "out/m.safetensors"});
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "out" / "m.safetensors.index.json"));
}

TEST(Publish, DryRunWritesNothingAndJsonSaysAll) {
  TempDir dir;
  write_checkpoint(dir.path() / "last.pth", training());
  EXPECT_THAT(expect_done(dir, {"publish", "-n", "last.pth"}).out, HasSubstr("nothing written"));
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("last.pth"));
  JsonDocument json = JsonDocument::parse(expect_done(dir, {"publish", "--json", "last.pth"}).out);
  EXPECT_EQ(json.root().at("source").as_text(), "ema");
  EXPECT_TRUE(json.root().at("published").as_boolean());
  EXPECT_EQ(json.root().at("output").as_text(), file_like(dir, "last-"));
}

TEST(Publish, RefusesNan) {
  TempDir dir;
  write_checkpoint(dir.path() / "bad.pth", dict({{"w", tensor({1, NAN})}, {"v", tensor({1})}}));
  Outcome outcome = run_ckpt(dir.path(), {"publish", "bad.pth"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("bad.pth: not published, 1 tensor with NaN: 'w'"));
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("bad.pth"));
  EXPECT_EQ(run_ckpt(dir.path(), {"publish", "--allow-nan", "bad.pth"}).code, 0);
}

TEST(Publish, RefusesInfinities) {
  TempDir dir;
  write_checkpoint(dir.path() / "bad.pth", dict({{"w", tensor({1, INFINITY})}, {"v", tensor({1})}}));
  Outcome outcome = run_ckpt(dir.path(), {"publish", "bad.pth"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("bad.pth: not published, 1 tensor with infinities: 'w'"));
  EXPECT_EQ(run_ckpt(dir.path(), {"publish", "--allow-nan", "bad.pth"}).code, 0);
}

TEST(Avg, AveragesAndWarns) {
  TempDir dir;
  for (int i : {1, 2, 3}) {
    auto value = static_cast<float>(i);
    write_checkpoint(dir.path() / (std::to_string(i) + ".pth"),
                     dict({{"w", tensor({value})}, {"bn.running_mean", tensor({value})}}));
  }
  Outcome outcome = expect_done(dir, {"avg", "1.pth", "2.pth", "3.pth", "-o", "soup.pth"});
  EXPECT_THAT(outcome.out, HasSubstr("soup.pth: 2 tensors averaged over 3 files"));
  EXPECT_THAT(outcome.err, HasSubstr("warning: 1 batch-norm statistic averaged too"));
  EXPECT_THAT(values_at(ckpt::open(dir.path() / "soup.pth").root, "w"), ElementsAre(2));
  expect_done(dir, {"avg", "-q", "--weights", "3,1", "1.pth", "3.pth", "-o", "w.safetensors"});
  EXPECT_THAT(values_at(ckpt::open(dir.path() / "w.safetensors").root, "w"), ElementsAre(1.5));
  write_model(dir, "other.pth", {"v"});
  expect_refused(dir, {"avg", "1.pth", "other.pth", "-o", "x.pth"}, 3, "other.pth", "'w' is missing");
  expect_refused(dir, {"avg", "1.pth", "-o", "x.pth"}, 2, "", "two checkpoints or more");
  expect_refused(dir, {"avg", "--weights", "1,x", "1.pth", "2.pth", "-o", "x.pth"}, 2, "", "not a list");
  expect_refused(dir, {"avg", "1.pth", "2.pth", "-o", "1.pth"}, 2, "1.pth", "both input and output");
}

TEST(Delta, GivesTheLaterCheckpointAndRefusesAnotherBase) {
  TempDir dir;
  for (int i : {1, 2, 3}) {
    auto value = static_cast<float>(i);
    write_checkpoint(dir.path() / (std::to_string(i) + ".pth"),
                     dict({{"epoch", Value::integer(i)}, {"w", tensor({value, 5})}}));
  }
  Outcome made = expect_done(dir, {"delta", "make", "1.pth", "2.pth", "-o", "2.delta.ckpt"});
  EXPECT_THAT(made.out, HasSubstr("2.delta.ckpt: 1 of 1 tensor as differences"));
  expect_done(dir, {"delta", "make", "2.pth", "3.pth", "-o", "3.delta.ckpt"});
  expect_done(dir, {"delta", "apply", "1.pth", "2.delta.ckpt", "3.delta.ckpt", "-o", "back.pth"});
  ckpt::Checkpoint back = ckpt::open(dir.path() / "back.pth");
  EXPECT_THAT(values_at(back.root, "w"), ElementsAre(3, 5));
  EXPECT_EQ(ckpt::value_at(back.root, "epoch").as_integer(), 3);
  EXPECT_EQ(run_ckpt(dir.path(), {"delta", "chain", "1.pth", "2.delta.ckpt", "3.delta.ckpt"}).code, 0);
  Outcome broken = run_ckpt(dir.path(), {"delta", "chain", "1.pth", "3.delta.ckpt"});
  EXPECT_EQ(broken.code, 1);
  EXPECT_THAT(broken.out, HasSubstr("does not follow"));
  expect_refused(dir, {"delta", "apply", "3.pth", "2.delta.ckpt", "-o", "x.pth"}, 3, "3.pth", "was made for");
  expect_refused(dir, {"delta", "make", "1.pth", "2.pth", "-o", "x.pth"}, 2, "x.pth", "a delta is a .ckpt file");
  expect_refused(dir, {"delta", "apply", "1.pth", "2.pth", "-o", "x.pth"}, 2, "1.pth", "is no delta");
  expect_refused(dir, {"convert", "2.delta.ckpt", "x.pth"}, 3, "2.delta.ckpt", "ckpt delta apply");
  ckpt::Checkpoint other = ckpt::open_delta(dir.path() / "2.delta.ckpt");
  other.metadata[1].second = std::string(32, '5');  // not what comes out
  ckpt::save(other, dir.path() / "other.ckpt");
  expect_refused(dir, {"delta", "apply", "1.pth", "other.ckpt", "-o", "x.pth"}, 3, "other.ckpt",
                 "what comes out of '1.pth' by 'other.ckpt' has the digest ");
  Outcome why = run_ckpt(dir.path(), {"why", "2.delta.ckpt"});
  EXPECT_EQ(why.code, 3);
  EXPECT_THAT(why.out, HasSubstr("1. this is the difference to a checkpoint with the digest "));
  EXPECT_THAT(why.out, HasSubstr("fix\n  ckpt delta apply BASE 2.delta.ckpt -o OUT\n"));
  EXPECT_THAT(why.out, testing::Not(testing::AnyOf(HasSubstr("curl"), HasSubstr("rescue"))));
  Outcome verified = run_ckpt(dir.path(), {"verify", "--deep", "2.delta.ckpt"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out + verified.err, HasSubstr("not looked at one by one: this is the difference"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "x.pth"));
}

/// Which has no name, and gets one in a .ckpt.
TEST(Delta, OfALoneTensorGivesOne) {
  TempDir dir;
  for (int i : {1, 2, 3}) {
    ckpt::Checkpoint lone;
    lone.root = tensor({static_cast<float>(i), 5});
    ckpt::save(lone, dir.path() / (std::to_string(i) + ".npy"));
  }
  expect_done(dir, {"delta", "make", "1.npy", "2.npy", "-o", "2.ckpt"});
  expect_done(dir, {"delta", "make", "2.npy", "3.npy", "-o", "3.ckpt"});
  expect_done(dir, {"delta", "apply", "1.npy", "2.ckpt", "3.ckpt", "-o", "back.npy"});
  EXPECT_EQ(read_file(dir.path() / "back.npy"), read_file(dir.path() / "3.npy"));
  expect_done(dir, {"delta", "apply", "1.npy", "2.ckpt", "-o", "back.pth"});
}

TEST(Optim, ShowsNamesAndSizes) {
  TempDir dir;
  write_checkpoint(dir.path() / "last.pth", training());
  std::string text = expect_done(dir, {"optim", "show", "last.pth"}).out;
  EXPECT_THAT(text, HasSubstr("optimizer: 2 parameters in 1 group, 16 B"));
  EXPECT_THAT(text, HasSubstr("lr=0.1"));
  EXPECT_THAT(text, HasSubstr("module.fc.weight"));
  JsonDocument json = JsonDocument::parse(expect_done(dir, {"optim", "show", "--json", "last.pth"}).out);
  JsonDocument::parse(json.text());
  auto optimizers = json.root().at("optimizers").items();
  ASSERT_EQ(optimizers.size(), 1u);
  EXPECT_EQ(optimizers[0].at("parameters").items()[1].at("name").as_text(), "module.fc.bias");
}

TEST(Optim, DropsMovesAndRekeys) {
  TempDir dir;
  write_checkpoint(dir.path() / "last.pth", training());
  expect_done(dir, {"optim", "drop", "last.pth"});
  EXPECT_EQ(ckpt::open(dir.path() / "last.weights.pth").root.find("optimizer"), nullptr);
  expect_done(dir, {"optim", "move", "--to", "cuda:1", "last.pth"});
  ckpt::Checkpoint moved = ckpt::open(dir.path() / "last.moved.pth");
  EXPECT_EQ(ckpt::value_at(moved.root, "optimizer.state.0.exp_avg").as_entry().location, "cuda:1");
  expect_done(dir, {"optim", "rekey", "--to", "name", "last.pth"});
  expect_done(dir, {"optim", "rekey", "--to", "index", "last.rekeyed.pth", "-o", "back.pth"});
  ckpt::Checkpoint back = ckpt::open(dir.path() / "back.pth");
  EXPECT_EQ(ckpt::value_at(back.root, "optimizer.param_groups.0.param_names").as_list()[0].as_text(),
            "module.fc.weight");
  write_model(dir, "plain.pth", {"w"});
  expect_refused(dir, {"optim", "show", "plain.pth"}, 2, "plain.pth", "no optimizer state");
  expect_refused(dir, {"optim", "rekey", "--to", "colour", "last.pth", "-o", "x.pth"}, 2, "",
                 "is not 'name' or 'index'");
}

TEST(StripPrefix, SaysWhenThereIsNothingToStrip) {
  TempDir dir;
  write_model(dir, "net.pth", {"encoder.w", "head.w"});
  Outcome outcome = expect_done(dir, {"strip-prefix", "net.pth"});
  EXPECT_EQ(outcome.err,
            "ckpt: net.pth: warning: no key begins with 'module.'; the keys begin with 'encoder.' (1), 'head.' (1)\n");
  EXPECT_TRUE(std::filesystem::exists(dir.path() / "net.plain.pth"));
  write_model(dir, "mid.pth", {"features.module.0.w"});
  EXPECT_THAT(expect_done(dir, {"strip-prefix", "mid.pth"}).err, HasSubstr("--anywhere removes it there"));
  expect_done(dir, {"strip-prefix", "-f", "--anywhere", "mid.pth"});
  EXPECT_THAT(names_in(dir.path() / "mid.plain.pth"), ElementsAre("features.0.w"));
}

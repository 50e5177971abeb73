// Every command does what its help says, on small files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using ckpt::JsonDocument;
using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using namespace test;

namespace {

const std::vector<std::string> kWrapped = {"module.fc1.weight", "module.fc1.bias", "module.fc2.weight"};

/// A training file: model, optimizer, plain values.
Value training() {
  Value optimizer = dict({{"state", dict({{"0", state_dict({"exp_avg"})}})}, {"param_groups", Value::list({})}});
  return dict(
      {{"epoch", Value::integer(3)}, {"model", state_dict({"fc.weight", "fc.bias"})}, {"optimizer", optimizer}});
}

Outcome expect_done(const TempDir& dir, const std::vector<std::string>& arguments) {
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome;
}

}  // namespace

TEST(Ls, ShowsAlignedColumnsAndASummary) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"fc.weight", tensor({1, 2, 3}, "cuda:0")}, {"b", tensor({1})}}));
  Outcome outcome = expect_done(dir, {"ls", "net.pth"});
  EXPECT_EQ(outcome.out,
            "NAME       DTYPE    SHAPE  LOCATION  SIZE\n"
            "fc.weight  float32  [3]    cuda:0    12 B\n"
            "b          float32  [1]    cpu        4 B\n"
            "2 tensors, 4 elements, 16 B in a PyTorch zip checkpoint\n");
}

TEST(Ls, QuietPrintsNamesOnly) {
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b"});
  EXPECT_EQ(expect_done(dir, {"ls", "-q", "net.pth"}).out, "a\nb\n");
}

TEST(Ls, SeparatesSeveralFiles) {
  TempDir dir;
  write_model(dir, "a.pth", {"x"});
  write_model(dir, "b.pth", {"y"});
  std::string text = expect_done(dir, {"ls", "a.pth", "b.pth"}).out;
  EXPECT_THAT(text, StartsWith("a.pth:\nNAME"));
  EXPECT_THAT(text, HasSubstr("checkpoint\n\nb.pth:\nNAME"));
  Outcome json = expect_done(dir, {"ls", "--json", "a.pth", "b.pth"});
  JsonDocument both = JsonDocument::parse(json.out);
  EXPECT_EQ(both.root().at("files").items()[1].at("path").as_text(), "b.pth");
  std::vector<ckpt::JsonView> tensors = both.root().at("tensors").items();
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[1].at("file").as_text(), "b.pth");
  EXPECT_EQ(tensors[1].at("name").as_text(), "y");
}

TEST(Ls, JsonIsExact) {
  TempDir dir;
  Value shared = tensor({1, 2}, "cuda:1");
  write_checkpoint(dir.path() / "net.pth", dict({{"a", shared}, {"tied", shared}, {"epoch", Value::integer(3)}}));
  Outcome outcome = expect_done(dir, {"inspect", "--json", "net.pth"});
  JsonDocument json = JsonDocument::parse(outcome.out);
  EXPECT_EQ(first_file(json).at("format").as_text(), "torch-zip");
  EXPECT_EQ(first_file(json).at("path").as_text(), "net.pth");
  std::vector<ckpt::JsonView> tensors = json.root().at("tensors").items();
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[1].at("name").as_text(), "tied");
  EXPECT_EQ(tensors[1].at("dtype").as_text(), "float32");
  EXPECT_EQ(tensors[1].at("shape").items()[0].as_integer(), 2);
  EXPECT_EQ(tensors[1].at("location").as_text(), "cuda:1");
  EXPECT_EQ(tensors[1].at("bytes").as_integer(), 8);
  EXPECT_EQ(tensors[1].at("tied").as_text(), "a");
  EXPECT_EQ(first_file(json).at("values").items()[0].at("value").as_integer(), 3);
}

// Where all of a flat file is listed, its index alone says it; with --top the tree does.
TEST(Ls, AFlatFileIsListedAsItsTreeIs) {
  TempDir dir;
  auto weight = std::make_shared<ckpt::Entry>(tensor({2, 3}, "cuda:1").as_entry());
  auto tied = std::make_shared<ckpt::Entry>(*weight);
  tied->parameter = tied->requires_grad = true;
  const Value flat = dict({{"odd \"name\"\n", Value::tensor(weight)},
                           {"epoch", Value::integer(3)},
                           {"tied", Value::tensor(tied)},
                           {"scalar", tensor({})},
                           {"none", dict({})}});
  const Value only = dict({{"a", tensor({2})}});
  const Value nested = dict({{"model", flat}, {"a", tensor({2})}});
  for (const Value& root : {flat, only, nested, dict({}), dict({{"epoch", Value::integer(3)}})}) {
    write_checkpoint(dir.path() / "net.ckpt", root);
    const std::string all = expect_done(dir, {"ls", "--json", "net.ckpt"}).out;
    EXPECT_EQ(all, expect_done(dir, {"ls", "--json", "--top", "100", "net.ckpt"}).out);
    EXPECT_EQ(JsonDocument::parse(all).root().at("tensors").items().size(), names_in(dir.path() / "net.ckpt").size());
    EXPECT_EQ(expect_done(dir, {"ls", "--jsonl", "net.ckpt"}).out,
              expect_done(dir, {"ls", "--jsonl", "--top", "100", "net.ckpt"}).out);
  }
}

// Lines are printed hundreds at a time, whatever stands where one piece ends and the next begins.
TEST(Ls, ALongFlatFileIsListedAsItsTreeIs) {
  TempDir dir;
  const ckpt::Entry weight = tensor({2, 3}).as_entry();
  const auto tied = [&] { return Value::tensor(std::make_shared<ckpt::Entry>(weight)); };
  std::vector<std::pair<std::string, Value>> items;
  for (int i = 0; i < 4000; ++i) {
    std::string name = std::to_string(i) + std::string(static_cast<std::size_t>(i % 61), 'x');
    if (i % 7 == 0 || i % 1000 > 990) name += "\"\x7f\n";
    if (i % 11 == 0) name += '"';
    const Value other = i % 100 < 50 ? tensor({1, 2}) : tensor({1}, "cuda:1");
    items.emplace_back(name, i % 5 == 0 || i % 1000 > 995 ? tied() : other);
  }
  for (char c : {'x', 'y', 'z'}) items.emplace_back(std::string(60'000, c), tensor({2}));
  items.emplace_back("last", tensor({2}));
  write_checkpoint(dir.path() / "net.ckpt", dict(std::move(items)));
  const std::string all = expect_done(dir, {"ls", "--json", "net.ckpt"}).out;
  EXPECT_GT(all.size(), 500'000U);
  EXPECT_EQ(all, expect_done(dir, {"ls", "--json", "--top", "10000", "net.ckpt"}).out);
  EXPECT_EQ(expect_done(dir, {"ls", "--json", "net.ckpt", "net.ckpt"}).out,
            expect_done(dir, {"ls", "--json", "--top", "10000", "net.ckpt", "net.ckpt"}).out);
}

TEST(Ls, ListsOneDictOfAFile) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth", training());
  EXPECT_EQ(expect_done(dir, {"ls", "-q", "best.pth::model"}).out, "fc.weight\nfc.bias\n");
  EXPECT_THAT(run_ckpt(dir.path(), {"ls", "best.pth::nope"}).err,
              HasSubstr("best.pth: no 'nope' in the file: the top has 'epoch', 'model', 'optimizer'"));
}

TEST(Ls, ShowsPlainValuesWhenAsked) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth", training());
  EXPECT_THAT(expect_done(dir, {"ls", "--values", "best.pth"}).out, HasSubstr("epoch                   int   3\n"));
}

TEST(Info, SaysWhatAFileIs) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth",
                   dict({{"epoch", Value::integer(3)}, {"model", state_dict({"module.fc.weight", "n_averaged"})}}));
  std::string text = expect_done(dir, {"info", "best.pth"}).out;
  EXPECT_THAT(text, StartsWith("best.pth\n  format       PyTorch zip checkpoint (torch-zip)\n"));
  EXPECT_THAT(text, HasSubstr("state dict   'model': 2 tensors, 1 behind 'module.'\n"));
  EXPECT_THAT(text, HasSubstr("value        epoch = 3\n"));
  Outcome json = expect_done(dir, {"info", "--json", "best.pth"});
  JsonDocument parsed = JsonDocument::parse(json.out);
  EXPECT_EQ(first_file(parsed).at("state_dicts").items()[0].at("wrappers").at("module.").as_integer(), 1);
}

TEST(StripPrefix, WritesANewFileBesideTheInputByDefault) {
  TempDir dir;
  write_model(dir, "net.pth", kWrapped);
  std::string before = read_file(dir.path() / "net.pth");
  Outcome outcome = expect_done(dir, {"strip-prefix", "net.pth"});
  EXPECT_THAT(outcome.out,
              testing::MatchesRegex(
                  "net.plain.pth: 3 of 3 keys renamed, [0-9.]+ [KM]?i?B written as PyTorch zip checkpoint\n"));
  EXPECT_THAT(names_in(dir.path() / "net.plain.pth"), ElementsAre("fc1.weight", "fc1.bias", "fc2.weight"));
  EXPECT_EQ(read_file(dir.path() / "net.pth"), before);
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("net.plain.pth", "net.pth"));
}

TEST(StripPrefix, DryRunListsTheRenamesAndWritesNothing) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a", "b"});
  EXPECT_EQ(expect_done(dir, {"strip-prefix", "net.pth", "--dry-run"}).out,
            "  module.a -> a\nnet.plain.pth: 1 of 2 keys renamed, nothing written (dry run)\n");
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("net.pth"));
}

TEST(StripPrefix, InPlaceReplacesTheInputOnlyWhenSomethingChanges) {
  TempDir dir;
  write_model(dir, "net.pth", kWrapped);
  expect_done(dir, {"strip-prefix", "net.pth", "--in-place"});
  EXPECT_THAT(names_in(dir.path() / "net.pth"), ElementsAre("fc1.weight", "fc1.bias", "fc2.weight"));
  auto written = std::filesystem::last_write_time(dir.path() / "net.pth");
  Outcome outcome = run_ckpt(dir.path(), {"strip-prefix", "net.pth", "--in-place"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "net.pth: 0 of 3 keys renamed, file left as it is\n");
  EXPECT_THAT(outcome.err, HasSubstr("warning: no key begins with 'module.'"));
  EXPECT_EQ(std::filesystem::last_write_time(dir.path() / "net.pth"), written);
}

TEST(StripPrefix, TakesSeveralFilesToAFolder) {
  TempDir dir;
  write_model(dir, "a.pth", kWrapped);
  write_model(dir, "b.pth", kWrapped);
  std::filesystem::create_directory(dir.path() / "out");
  expect_done(dir, {"strip-prefix", "a.pth", "b.pth", "-o", "out"});
  EXPECT_THAT(list_folder(dir.path() / "out"), ElementsAre("a.pth", "b.pth"));
}

TEST(StripPrefix, JsonSaysWhatChanged) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a", "b"});
  JsonDocument json = JsonDocument::parse(expect_done(dir, {"strip-prefix", "--json", "net.pth"}).out);
  EXPECT_EQ(first_file(json).at("output").as_text(), "net.plain.pth");
  EXPECT_EQ(first_file(json).at("keys").as_integer(), 2);
  EXPECT_EQ(first_file(json).at("renamed").items()[0].at("to").as_text(), "a");
  EXPECT_EQ(first_file(json).at("bytes_written").as_unsigned(),
            std::filesystem::file_size(dir.path() / "net.plain.pth"));
}

TEST(StripPrefix, PeelsKnownWrappersAndRepeats) {
  TempDir dir;
  write_model(dir, "net.pth", {"_orig_mod.module.fc.weight", "_orig_mod.module.features.module.0.bias"});
  expect_done(dir, {"strip-prefix", "--wrappers", "net.pth"});
  EXPECT_THAT(names_in(dir.path() / "net.plain.pth"), ElementsAre("fc.weight", "features.0.bias"));
  write_model(dir, "twice.pth", {"module.module.w"});
  expect_done(dir, {"strip-prefix", "--repeat", "twice.pth"});
  EXPECT_THAT(names_in(dir.path() / "twice.plain.pth"), ElementsAre("w"));
}

TEST(StripPrefix, ConvertsWhenTheOutputSaysSo) {
  TempDir dir;
  write_model(dir, "net.pth", kWrapped);
  expect_done(dir, {"strip-prefix", "net.pth", "-o", "net.safetensors"});
  EXPECT_EQ(ckpt::open(dir.path() / "net.safetensors").format, "safetensors");
}

TEST(StripPrefix, KeepsTheFormatOfAFileWithAMisleadingName) {
  TempDir dir;
  write_model(dir, "net.pth", kWrapped);
  std::filesystem::rename(dir.path() / "net.pth", dir.path() / "lightning.ckpt");
  expect_done(dir, {"strip-prefix", "lightning.ckpt", "-o", "out.ckpt"});
  EXPECT_EQ(ckpt::open(dir.path() / "out.ckpt").format, "torch-zip");
}

TEST(AddPrefix, PutsModuleBeforeEveryKey) {
  TempDir dir;
  write_model(dir, "net.pth", {"fc.weight"});
  EXPECT_THAT(expect_done(dir, {"add-prefix", "net.pth"}).out, StartsWith("net.prefixed.pth: 1 of 1 key renamed"));
  EXPECT_THAT(names_in(dir.path() / "net.prefixed.pth"), ElementsAre("module.fc.weight"));
  expect_done(dir, {"add-prefix", "--prefix", "encoder.", "net.pth", "-o", "enc.pth"});
  EXPECT_THAT(names_in(dir.path() / "enc.pth"), ElementsAre("encoder.fc.weight"));
}

TEST(AddPrefix, AsksWhichOfSeveralStateDicts) {
  TempDir dir;
  write_checkpoint(dir.path() / "two.pth", dict({{"model", state_dict({"w"})}, {"ema", state_dict({"w"})}}));
  expect_refused(dir, {"add-prefix", "two.pth"}, 2, "two.pth", "'model' (1 tensor), 'ema' (1 tensor)");
  expect_done(dir, {"add-prefix", "two.pth::ema"});
  EXPECT_THAT(names_in(dir.path() / "two.prefixed.pth"), ElementsAre("model.w", "ema.module.w"));
}

TEST(Rename, SwapsByATable) {
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b", "c"});
  write_file(dir.path() / "names.json", R"({"a": "b", "b": "a"})");
  expect_done(dir, {"rename", "--map", "names.json", "net.pth"});
  EXPECT_THAT(names_in(dir.path() / "net.renamed.pth"), ElementsAre("b", "a", "c"));
}

TEST(Rename, RefusesUnknownNamesAndBrokenTables) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  write_file(dir.path() / "unknown.json", R"({"nope": "b"})");
  expect_refused(dir, {"rename", "--map", "unknown.json", "net.pth"}, 2, "net.pth", "'nope'");
  expect_done(dir, {"rename", "--map", "unknown.json", "--allow-unknown", "net.pth", "--dry-run"});
  write_file(dir.path() / "broken.json", R"({"a": )");
  expect_refused(dir, {"rename", "--map", "broken.json", "net.pth"}, 3, "broken.json", "");
  write_file(dir.path() / "number.json", R"({"a": 1})");
  expect_refused(dir, {"rename", "--map", "number.json", "net.pth"}, 3, "number.json", "new name of 'a' is not text");
}

TEST(Remap, ChangesTagsExactly) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"a", tensor({1}, "cuda:1")}, {"b", tensor({1}, "cuda:10")}}));
  EXPECT_THAT(expect_done(dir, {"remap", "--map", "cuda:1=cpu", "net.pth"}).out,
              StartsWith("net.remapped.pth: 1 of 2 tensors moved"));
  EXPECT_THAT(expect_done(dir, {"ls", "net.remapped.pth"}).out, HasSubstr("b     float32  [1]    cuda:10"));
  expect_done(dir, {"remap", "--to", "cpu", "net.pth", "--in-place"});
  EXPECT_THAT(expect_done(dir, {"ls", "net.pth"}).out, testing::Not(HasSubstr("cuda")));
}

TEST(Remap, RefusesWhatIsNoDevice) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  expect_refused(dir, {"remap", "--to", "cuda:x", "net.pth"}, 2, "'cuda:x'", "is not a device");
  expect_refused(dir, {"remap", "--map", "cuda:0", "net.pth"}, 2, "'cuda:0'", "OLD=NEW");
  expect_refused(dir, {"remap", "net.pth"}, 2, "--to DEVICE", "--map OLD=NEW");
}

TEST(Select, KeepsAPart) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth", training());
  EXPECT_THAT(expect_done(dir, {"select", "--include", "model", "best.pth"}).out,
              StartsWith("best.selected.pth: 2 of 3 tensors and 0 of 2 plain values kept"));
  EXPECT_THAT(names_in(dir.path() / "best.selected.pth"), ElementsAre("model.fc.weight", "model.fc.bias"));
  expect_done(dir, {"select", "--exclude", "*.bias", "--exclude", "optimizer", "best.pth", "-f"});
  EXPECT_THAT(names_in(dir.path() / "best.selected.pth"), ElementsAre("model.fc.weight"));
  expect_refused(dir, {"select", "--include", "modle", "best.pth", "-f"}, 2, "best.pth", "no name matches 'modle'");
}

TEST(Convert, GoesThereAndBack) {
  TempDir dir;
  write_model(dir, "net.pth", kWrapped);
  EXPECT_THAT(expect_done(dir, {"convert", "net.pth", "net.safetensors"}).out,
              StartsWith("net.safetensors: 3 tensors from torch-zip, "));
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "net.safetensors", "-o", "back.pth"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "net.pth", "back.pth"}).code, 0);
}

TEST(Convert, ListsWhatTheFormatCannotHoldAndDropsItWhenTold) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth", dict({{"w", tensor({1})}, {"epoch", Value::list({Value::integer(3)})}}));
  Outcome refused = run_ckpt(dir.path(), {"convert", "best.pth", "best.safetensors"});
  if (refused.code == 0) GTEST_SKIP() << "this format holds plain values";
  expect_refused(dir, {"convert", "best.pth", "best.safetensors"}, 3, "best.safetensors", "'epoch");
  Outcome dropped = run_ckpt(dir.path(), {"convert", "--drop", "best.pth", "best.safetensors"});
  EXPECT_EQ(dropped.code, 0);
  EXPECT_THAT(dropped.err, HasSubstr("left out: 'epoch"));
  EXPECT_THAT(names_in(dir.path() / "best.safetensors"), ElementsAre("w"));
}

TEST(Convert, TakesOneDictOfAFile) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth", training());
  expect_done(dir, {"convert", "best.pth::model", "model.safetensors"});
  EXPECT_THAT(names_in(dir.path() / "model.safetensors"), testing::UnorderedElementsAre("fc.weight", "fc.bias"));
}

TEST(Convert, RefusesWhatTheFormatDoesNotDo) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"a", "b"});
  for (const char* name : {"net.pth", "net2.safetensors", "net.npz", "net.gguf"}) {
    Outcome packed = run_ckpt(dir.path(), {"convert", "net.safetensors", name, "--codec", "zstd"});
    EXPECT_EQ(packed.code, 2) << name;
    EXPECT_THAT(packed.err, HasSubstr("is not compressed; leave the codec out, or save as .ckpt")) << name;
    EXPECT_FALSE(std::filesystem::exists(dir.path() / name));
  }
  for (const char* name : {"net.pth", "net.npz", "net.gguf", "net.ckpt", "net.h5"}) {
    Outcome split = run_ckpt(dir.path(), {"convert", "net.safetensors", name, "--max-shard-size", "4"});
    EXPECT_EQ(split.code, 3) << name;
    EXPECT_THAT(split.err, HasSubstr("is not split into shards; save as .safetensors")) << name;
  }
  for (const char* name : {"net.ckpt", "net.h5"}) {
    for (const char* codec : {"zstd", "tight", "gzip"}) {
      EXPECT_EQ(run_ckpt(dir.path(), {"convert", "-f", "net.safetensors", name, "--codec", codec}).code, 0) << name;
    }
  }
}

TEST(Convert, FastIsForNativeFilesAlone) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"a", "b"});
  expect_done(dir, {"convert", "net.safetensors", "net.ckpt", "--codec", "fast"});
  Outcome plain = run_ckpt(dir.path(), {"convert", "net.safetensors", "net.h5", "--codec", "fast"});
  EXPECT_EQ(plain.code, 2);
  EXPECT_THAT(plain.err, HasSubstr("none of them reads the codec fast; use zstd or gzip, or save as .ckpt"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "net.h5"));
}

TEST(Convert, PacksByTheCodecThatInfoNames) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth",
                   dict({{"a", tensor(std::vector<float>(100'000))}, {"b", tensor(std::vector<float>(10))}}));
  struct Case {
    const char* codec;
    const char* named;
    std::uintmax_t below;
  };
  for (auto [codec, named, below] :
       {Case{"tight", "zstd", 50'000}, {"gzip", "gzip", 50'000}, {"fast", "fast", 360'000}}) {
    expect_done(dir, {"convert", "-f", "net.pth", "net.ckpt", "--codec", codec});
    EXPECT_LT(std::filesystem::file_size(dir.path() / "net.ckpt"), below) << codec;
    EXPECT_THAT(run_ckpt(dir.path(), {"info", "net.ckpt"}).out,
                testing::AllOf(HasSubstr("codecs"), HasSubstr(std::string(named) + " (1)")));
    expect_done(dir, {"diff", "net.pth", "net.ckpt"});
  }
  EXPECT_THAT(run_ckpt(dir.path(), {"info", "net.pth"}).out, testing::Not(HasSubstr("codecs")));
}

TEST(Convert, SplitsIntoShards) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth",
                   dict({{"a", tensor(std::vector<float>(1000))}, {"b", tensor(std::vector<float>(1000))}}));
  expect_done(dir, {"convert", "--max-shard-size", "5K", "net.pth", "net.safetensors"});
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("net-00001-of-00002.safetensors", "net-00002-of-00002.safetensors",
                                                   "net.pth", "net.safetensors.index.json"));
}

TEST(Native, GoesThroughEveryCommand) {
  TempDir dir;
  write_model(dir, "net.pth", kWrapped, {"", "module", "module.fc1"});
  expect_done(dir, {"convert", "net.pth", "net.ckpt"});
  EXPECT_EQ(expect_done(dir, {"ls", "-q", "net.ckpt"}).out, "module.fc1.weight\nmodule.fc1.bias\nmodule.fc2.weight\n");
  EXPECT_THAT(expect_done(dir, {"verify", "net.ckpt"}).out, StartsWith("net.ckpt: good; 3 tensors, "));
  EXPECT_THAT(expect_done(dir, {"strip-prefix", "--in-place", "net.ckpt"}).out, StartsWith("net.ckpt: 3 of 3 keys"));
  expect_done(dir, {"remap", "--to", "cuda:1", "net.ckpt", "-o", "gpu.ckpt"});
  ckpt::Checkpoint moved = ckpt::open(dir.path() / "gpu.ckpt");
  EXPECT_EQ(moved.format, "native");
  EXPECT_EQ(ckpt::list_entries(moved.root)[0].entry->location, "cuda:1");
  EXPECT_THAT(names(moved), ElementsAre("fc1.weight", "fc1.bias", "fc2.weight"));
  EXPECT_THAT(modules(moved.root), ElementsAre("", "fc1"));
  expect_done(dir, {"add-prefix", "gpu.ckpt", "-o", "back.pth"});
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "net.pth", "back.pth"}).code, 0);
}

TEST(Diff, SaysWhetherAndWhereTheyDiffer) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"x", tensor({1, 2})}, {"only", tensor({1})}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"x", tensor({1, 4})}}));
  Outcome outcome = run_ckpt(dir.path(), {"diff", "a.pth", "b.pth"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out,
            "A and B differ: 'only' is gone\n"
            "also: values are close, as after some more training (cosine 0.9762 over 1 tensor)\n"
            "2 differences: 0 of 1 common tensor equal, 8 B compared, \u2016A\u2212B\u2016/\u2016A\u2016 0.894 where "
            "they differ\n"
            "- only  float32 [1]\n"
            "~ x  1 of 2 elements differ, by up to 2 (relative 0.5, 8,388,608 ULP, cosine 0.976187, "
            "\u2016A\u2212B\u2016/\u2016A\u2016 0.894)\n");
  EXPECT_EQ(expect_done(dir, {"diff", "a.pth", "a.pth"}).out,
            "no difference: 2 of 2 common tensors equal, 12 B compared\n");
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"diff", "--json", "a.pth", "b.pth"}).out);
  EXPECT_FALSE(json.root().at("equal").as_boolean());
  EXPECT_EQ(json.root().at("differences").items()[1].at("max_difference").as_real(), 2.0);
}

TEST(Diff, CountsDeviceTagsOnlyWhenAsked) {
  TempDir dir;
  write_checkpoint(dir.path() / "a.pth", dict({{"x", tensor({1}, "cuda:0")}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"x", tensor({1})}}));
  EXPECT_THAT(expect_done(dir, {"diff", "a.pth", "b.pth"}).out, HasSubstr("not counted: x  location cuda:0 -> cpu"));
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "--locations", "a.pth", "b.pth"}).code, 1);
}

TEST(Verify, DeepReadsEveryTensorAndNamesNaN) {
  TempDir dir;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  write_checkpoint(dir.path() / "net.ckpt", dict({{"good", tensor({1, 2})}, {"bad", tensor({nan, 1, inf, nan})}}));
  EXPECT_THAT(expect_done(dir, {"verify", "net.ckpt"}).out, testing::Not(HasSubstr("NaN")));
  std::string said = expect_done(dir, {"verify", "--deep", "net.ckpt"}).out;
  EXPECT_THAT(said, HasSubstr("net.ckpt: note: bad: of its 4 values 2 NaN and 1 infinite\n"));
  EXPECT_THAT(said, HasSubstr("from the disk; every tensor as it is loaded"));
  EXPECT_THAT(said, testing::Not(HasSubstr("good: of")));
  std::string bytes = read_file(dir.path() / "net.ckpt");
  bytes.resize(bytes.size() / 2);
  write_file(dir.path() / "net.ckpt", bytes);
  EXPECT_EQ(run_ckpt(dir.path(), {"verify", "--deep", "net.ckpt"}).code, 3);
}

TEST(Verify, FindsAFlippedBit) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", tensor(std::vector<float>(500, 1.0F))}}));
  EXPECT_THAT(expect_done(dir, {"verify", "net.pth"}).out, StartsWith("net.pth: good; 1 tensor, "));
  std::string bytes = read_file(dir.path() / "net.pth");
  std::size_t at = bytes.find(std::string("\x00\x00\x80\x3f\x00\x00\x80\x3f", 8));
  bytes[at + 40] ^= 1;
  write_file(dir.path() / "net.pth", bytes);
  Outcome outcome = run_ckpt(dir.path(), {"verify", "net.pth"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("net.pth: finding: "));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"verify", "--json", "net.pth"}).out);
  EXPECT_FALSE(first_file(json).at("good").as_boolean());
}

// why, fix and zoo as a user meets them.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using ckpt::JsonDocument;
using ckpt::Value;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

/// A LeNet-5 as the zoo knows it, under other names.
Value lenet(const std::string& prefix = "", const std::string& location = "cpu") {
  const std::vector<std::pair<std::string, core::Shape>> parts = {
      {"conv1.weight", {6, 1, 5, 5}}, {"conv1.bias", {6}}, {"conv2.weight", {16, 6, 5, 5}}, {"conv2.bias", {16}},
      {"fc1.weight", {120, 400}},     {"fc1.bias", {120}}, {"fc2.weight", {84, 120}},       {"fc2.bias", {84}},
      {"fc3.weight", {10, 84}},       {"fc3.bias", {10}}};
  std::vector<std::pair<std::string, Value>> items;
  for (const auto& [key, shape] : parts) {
    ckpt::Entry entry = float_entry(std::vector<float>(static_cast<std::size_t>(shape.numel()), 1.5F), location);
    entry.shape = shape;
    items.emplace_back(prefix + key, Value::tensor(std::make_shared<ckpt::Entry>(entry)));
  }
  return dict(std::move(items));
}

}  // namespace

TEST(WhyCommand, EndsWithTheCommandThatHelps) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", lenet("module."));
  Outcome why = run_ckpt(dir.path(), {"why", "net.pth", "--for", "lenet5"});
  EXPECT_EQ(why.code, 1) << why.err;
  EXPECT_THAT(why.out, HasSubstr("0 of 10 keys match lenet5"));
  EXPECT_THAT(why.out, HasSubstr("10 of 10 after: strip 'module.'"));
  EXPECT_THAT(why.out, HasSubstr("  ckpt strip-prefix --prefix module. net.pth -o net.fixed.pth\n"));
  Outcome quiet = run_ckpt(dir.path(), {"why", "-q", "net.pth", "--for", "lenet5"});
  EXPECT_EQ(quiet.out, "ckpt strip-prefix --prefix module. net.pth -o net.fixed.pth\n");
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "--prefix", "module.", "net.pth", "-o", "net.fixed.pth"}).code, 0);
  Outcome after = run_ckpt(dir.path(), {"why", "net.fixed.pth", "--for", "lenet5"});
  EXPECT_EQ(after.code, 0) << after.out;
  EXPECT_THAT(after.out, HasSubstr("it loads as it is"));
}

TEST(WhyCommand, TakesKeysFromFilesCheckpointsAndMessages) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a", "module.b"});
  write_model(dir, "other.safetensors", {"a", "b"});
  write_file(dir.path() / "keys.txt", "a\nb\n");
  write_file(dir.path() / "keys.json", R"({"a": [1], "b": [1]})");
  write_file(
      dir.path() / "error.txt",
      "Missing key(s) in state_dict: \"a\", \"b\". \n\tUnexpected key(s) in state_dict: \"module.a\", \"module.b\". ");
  for (const char* target : {"keys.txt", "keys.json", "other.safetensors"}) {
    Outcome why = run_ckpt(dir.path(), {"why", "net.pth", "--for", target});
    EXPECT_EQ(why.code, 1) << why.err;
    EXPECT_THAT(why.out, HasSubstr("strip-prefix --prefix module. net.pth")) << target;
  }
  Outcome told = run_ckpt(dir.path(), {"why", "net.pth", "--error", "error.txt"});
  EXPECT_EQ(told.code, 1) << told.err;
  EXPECT_THAT(told.out, HasSubstr("strip-prefix --prefix module. net.pth"));
}

namespace {

constexpr const char* kMessage =
    "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: \"a\", \"b\". \n"
    "\tUnexpected key(s) in state_dict: \"module.a\", \"module.b\". \n";

/// Standard input of the program is the file `name` in `dir`.
RunOptions reading(const TempDir& dir, const std::string& name) {
  return {.in_child = [path = (dir.path() / name).string()] {
    ::dup2(::open(path.c_str(), O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  }};
}

}  // namespace

TEST(WhyCommand, TakesTheMessageInAFileOnStandardInput) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a", "module.b"});
  write_file(dir.path() / "error.txt", kMessage);
  write_file(dir.path() / "list.txt", "net.pth\nother.pth\n");
  Outcome why = run_ckpt(dir.path(), {"why", "net.pth"}, reading(dir, "error.txt"));
  EXPECT_EQ(why.code, 1) << why.err;
  EXPECT_THAT(why.out, HasSubstr("0 of 2 keys match Net"));
  EXPECT_THAT(why.out, HasSubstr("ckpt strip-prefix --prefix module. net.pth -o net.fixed.pth\n"));
  Outcome fix = run_ckpt(dir.path(), {"fix", "net.pth"}, reading(dir, "error.txt"));
  EXPECT_EQ(fix.code, 0) << fix.err;
  EXPECT_THAT(fix.out, HasSubstr("2 of 2 keys match Net"));
  EXPECT_THAT(run_ckpt(dir.path(), {"why", "net.pth"}, reading(dir, "list.txt")).out, Not(HasSubstr("Net")));
}

TEST(WhyCommand, TellsWhatAMessageAloneSays) {
  TempDir dir;
  write_file(dir.path() / "error.txt", kMessage);
  write_file(dir.path() / "device.txt",
             "Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1.");
  write_file(dir.path() / "other.txt", "no module named numpy\n");
  write_file(dir.path() / "cut.txt",
             "PytorchStreamReader failed reading zip archive: failed finding central directory");
  Outcome keys = run_ckpt(dir.path(), {"why"}, reading(dir, "error.txt"));
  EXPECT_EQ(keys.code, 1) << keys.err;
  EXPECT_THAT(keys.out, HasSubstr("0 of 2 keys match Net"));
  EXPECT_THAT(keys.out, HasSubstr("2 of 2 after: strip 'module.'"));
  EXPECT_THAT(keys.out, HasSubstr("ckpt strip-prefix --prefix module. FILE -o FILE.fixed"));
  Outcome device = run_ckpt(dir.path(), {"why"}, reading(dir, "device.txt"));
  EXPECT_EQ(device.code, 1) << device.err;
  EXPECT_THAT(device.out, HasSubstr("tensors were saved on devices that are not here: cuda:3"));
  EXPECT_THAT(device.out, HasSubstr("ckpt remap --to cpu FILE"));
  Outcome other = run_ckpt(dir.path(), {"why"}, reading(dir, "other.txt"));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("the text holds no error message about a checkpoint; name the file"));
  Outcome cut = run_ckpt(dir.path(), {"why"}, reading(dir, "cut.txt"));
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.out, HasSubstr("the file is a zip archive that lost its end"));
}

TEST(FixCommand, TakesOneMessageForAllFiles) {
  TempDir dir;
  write_model(dir, "one.pth", {"module.a", "module.b"});
  write_model(dir, "two.pth", {"module.a", "module.b"});
  write_file(dir.path() / "error.txt", kMessage);
  Outcome fix = run_ckpt(dir.path(), {"fix", "--error", "-", "one.pth", "two.pth"}, reading(dir, "error.txt"));
  EXPECT_EQ(fix.code, 0) << fix.err;
  EXPECT_THAT(fix.out, HasSubstr("one.fixed.pth: 1 step, 2 of 2 keys match Net"));
  EXPECT_THAT(fix.out, HasSubstr("two.fixed.pth: 1 step, 2 of 2 keys match Net"));
}

TEST(WhyCommand, ShowsHowToTakeTheOtherDictThatFits) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth",
                   dict({{"model", lenet()}, {"state_dict_ema", lenet()}, {"epoch", Value::integer(3)}}));
  Outcome why = run_ckpt(dir.path(), {"why", "best.pth", "--for", "lenet5"});
  EXPECT_EQ(why.code, 1) << why.err;
  EXPECT_THAT(why.out, HasSubstr("'model' and 'state_dict_ema' both fit the model; 'model' is taken"));
  EXPECT_THAT(why.out, HasSubstr("to take 'state_dict_ema' instead\n"
                                 "  ckpt convert best.pth::state_dict_ema best.state_dict_ema.pth\n"
                                 "  model.load_state_dict(torch.load('best.pth')['state_dict_ema'])\n"));
  EXPECT_THAT(run_ckpt(dir.path(), {"why", "best.pth"}).out, HasSubstr("to take 'state_dict_ema' instead\n"));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"why", "--json", "best.pth", "--for", "lenet5"}).out);
  EXPECT_EQ(json.root().at("alternatives").items()[0].at("at").as_text(), "state_dict_ema");
}

TEST(WhyCommand, SaysThatAListOfNamesLeavesSizesOpen) {
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b"});
  write_file(dir.path() / "keys.txt", "a\nb\n");
  Outcome why = run_ckpt(dir.path(), {"why", "net.pth", "--for", "keys.txt"});
  EXPECT_EQ(why.code, 0) << why.err;
  EXPECT_THAT(why.out, HasSubstr("every name matches; sizes cannot be compared, as the list has names alone"));
}

TEST(WhyCommand, ShowsWhatMakesAPyTorchFileOfANativeOne) {
  TempDir dir;
  write_model(dir, "net.ckpt", {"module.a", "module.b"});
  write_model(dir, "plain.ckpt", {"a", "b"});
  write_model(dir, "want.pth", {"a", "b"});
  Outcome why = run_ckpt(dir.path(), {"why", "net.ckpt", "--for", "want.pth"});
  EXPECT_THAT(why.out, HasSubstr("fix\n  ckpt strip-prefix --prefix module. net.ckpt -o net.fixed.ckpt\n"
                                 "for PyTorch\n  ckpt convert net.fixed.ckpt net.fixed.pth\n"
                                 "python\n  model.load_state_dict(torch.load('net.fixed.pth'))"));
  EXPECT_THAT(run_ckpt(dir.path(), {"why", "plain.ckpt"}).out,
              HasSubstr("for PyTorch\n  ckpt convert plain.ckpt plain.pth\n"));
}

TEST(WhyCommand, WritesJson) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", lenet("module.", "cuda:5"));
  Outcome why = run_ckpt(dir.path(), {"why", "--json", "--devices", "1", "net.pth", "--for", "lenet5"});
  EXPECT_EQ(why.code, 1) << why.err;
  JsonDocument json = JsonDocument::parse(why.out);
  EXPECT_TRUE(json.root().at("fixable").as_boolean());
  EXPECT_EQ(json.root().at("after").at("keys").as_integer(), 10);
  auto causes = json.root().at("causes").items();
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes[0].at("id").as_text(), "wrapper_prefix");
  EXPECT_EQ(causes[1].at("id").as_text(), "device_tags");
  EXPECT_EQ(json.root().at("fix").as_text(), "ckpt fix net.pth --for lenet5 -o net.fixed.pth");
}

TEST(WhyCommand, SaysWhatAnUnreadableFileIs) {
  TempDir dir;
  write_file(dir.path() / "model.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5000000\n");
  Outcome why = run_ckpt(dir.path(), {"why", "model.safetensors"});
  EXPECT_EQ(why.code, 3);
  EXPECT_THAT(why.out, HasSubstr("git lfs pull --include=model.safetensors"));
  EXPECT_THAT(why.out, HasSubstr("4.8 MiB"));
  expect_refused(dir, {"fix", "model.safetensors"}, 3, "model.safetensors", "git lfs pull --include=model.safetensors");
  EXPECT_EQ(run_ckpt(dir.path(), {"why", "absent.pth"}).code, 4);
}

TEST(WhyCommand, SuggestsNamesOfModels) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  expect_refused(dir, {"why", "net.pth", "--for", "resnet5"}, 2, "resnet5", "did you mean resnet50");
}

TEST(FixCommand, MakesTheFileLoad) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth",
                   dict({{"epoch", Value::integer(3)}, {"state_dict", lenet("module._orig_mod.", "cuda:3")}}));
  Outcome fix = run_ckpt(dir.path(), {"fix", "best.pth", "--for", "lenet5", "-o", "lenet.pth"});
  EXPECT_EQ(fix.code, 0) << fix.err;
  EXPECT_THAT(fix.out, HasSubstr("10 of 10 keys match lenet5"));
  EXPECT_EQ(run_ckpt(dir.path(), {"zoo", "verify", "lenet5", "lenet.pth"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"why", "lenet.pth", "--for", "lenet5"}).code, 0);
  EXPECT_EQ(ckpt::list_entries(ckpt::open(dir.path() / "lenet.pth").root)[0].entry->location, "cpu");
}

TEST(FixCommand, NeverLosesDataInPlaceUnasked) {
  TempDir dir;
  write_checkpoint(dir.path() / "best.pth", dict({{"epoch", Value::integer(3)}, {"state_dict", lenet("module.")}}));
  expect_refused(dir, {"fix", "best.pth", "--for", "lenet5", "--in-place"}, 2, "best.pth",
                 "leaves out part of the file");
  Outcome dry = run_ckpt(dir.path(), {"fix", "best.pth", "--for", "lenet5", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, HasSubstr("take 'state_dict'"));
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("best.pth"));
  EXPECT_EQ(run_ckpt(dir.path(), {"fix", "best.pth", "--for", "lenet5", "--in-place", "-f"}).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"why", "best.pth", "--for", "lenet5"}).code, 0);
}

TEST(FixCommand, RefusesWhatNoEditCures) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", lenet());
  Outcome fix = run_ckpt(dir.path(), {"fix", "net.pth", "--for", "resnet18"});
  EXPECT_EQ(fix.code, 3);
  EXPECT_THAT(fix.err, HasSubstr("no change to the file makes it load"));
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("net.pth"));
  Outcome nothing = run_ckpt(dir.path(), {"fix", "net.pth", "--for", "lenet5", "--in-place"});
  EXPECT_EQ(nothing.code, 0) << nothing.err;
  EXPECT_THAT(nothing.out, HasSubstr("nothing to fix"));
}

TEST(ZooCommand, ListsModelsAndKeys) {
  TempDir dir;
  Outcome ls = run_ckpt(dir.path(), {"zoo", "ls", "lenet*"});
  EXPECT_EQ(ls.code, 0) << ls.err;
  EXPECT_THAT(ls.out, HasSubstr("lenet5"));
  EXPECT_THAT(ls.out, HasSubstr("61,706"));
  EXPECT_EQ(run_ckpt(dir.path(), {"zoo", "ls", "nothing*"}).code, 1);
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "keys", "lenet5"}).out,
              HasSubstr("conv1.weight  [6, 1, 5, 5]   float32  parameter"));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"zoo", "keys", "--json", "lenet5"}).out);
  EXPECT_EQ(json.root().at("tensors").items().size(), 10u);
  EXPECT_EQ(run_ckpt(dir.path(), {"zoo"}).code, 2);
}

TEST(ZooCommand, ComparesAFileWithAModel) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", lenet());
  write_checkpoint(dir.path() / "bad.pth", lenet("x."));
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "verify", "lenet5", "net.pth"}).out,
              HasSubstr("matches lenet5: all 10 keys, shapes and dtypes"));
  Outcome bad = run_ckpt(dir.path(), {"zoo", "verify", "lenet5", "bad.pth"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.out, HasSubstr("missing keys (10), unexpected keys (10)"));
}

TEST(ZooCommand, SaysWhichModelsRun) {
  TempDir dir;
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "ls", "resnet18"}).out, ContainsRegex("resnet18 .* yes "));
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "ls", "ssd*"}).out, HasSubstr("2 models, 0 of which"));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"zoo", "ls", "--json", "mvit_v1_b"}).out);
  EXPECT_FALSE(json.root().at("models").items()[0].at("runs").as_boolean());
}

/// A file of batchnorm_net, with the version of its first batch norm.
Value batchnorm_net(std::int64_t version) {
  const std::vector<std::pair<std::string, core::Shape>> parts = {
      {"features.0.weight", {8, 1, 3, 3}}, {"features.1.weight", {8}}, {"features.1.bias", {8}}};
  std::vector<std::pair<std::string, Value>> items;
  for (const auto& [key, shape] : parts) {
    ckpt::Entry entry = float_entry(std::vector<float>(static_cast<std::size_t>(shape.numel()), 1.5F));
    entry.shape = shape;
    items.emplace_back(key, Value::tensor(std::make_shared<ckpt::Entry>(entry)));
  }
  const auto of = [](std::int64_t number) { return dict({{"version", Value::integer(number)}}); };
  ckpt::Dict state = dict(std::move(items)).as_dict();
  state.type = "collections.OrderedDict";  // a plain dict has no attributes
  state.attributes = dict({{"_metadata", dict({{"features.1", of(version)}, {"features.5", of(2)}})}});
  return Value::dict(std::move(state));
}

TEST(ZooCommand, ComparesModuleVersionsWhereTheFileHasThem) {
  TempDir dir;
  write_checkpoint(dir.path() / "old.pth", batchnorm_net(1));
  write_checkpoint(dir.path() / "new.pth", batchnorm_net(2));
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "verify", "batchnorm_net", "old.pth"}).out,
              HasSubstr("\n  version: features.1: version 1 where 2 is wanted\n"));
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "verify", "batchnorm_net", "new.pth"}).out,
              Not(HasSubstr("version: features")));
  write_checkpoint(dir.path() / "net.pth", lenet());
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "verify", "lenet5", "net.pth"}).out,
              HasSubstr("note: the file has no module versions\n"));
}

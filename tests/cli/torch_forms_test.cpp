// Old and divided forms of PyTorch files, and the scanner, as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"
#include "tests/libckpt/format/evasions.h"

using ckpt::JsonDocument;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

std::string wrapped_object() {
  return pickled_dict({{text("module.w"), tensor(storage("FloatStorage", "0", 2), 0, {2}, {1})}});
}
std::string legacy_file() {
  return legacy_stream(wrapped_object(), {{"0", 2, floats({1, 2})}});
}
/// A state dict beside an object of an unknown class.
std::string partly_foreign() {
  std::string model = pickled_dict({{text("w"), tensor(storage("FloatStorage", "0", 2), 0, {2}, {1})}});
  std::string object = pickled_dict({{text("model"), model}, {text("args"), symbol("my.module", "Args") + ")\x81"}});
  return torch_zip(pickle(object), {floats({1, 2})}).bytes();
}

}  // namespace

TEST(TorchForms, AnEditOfALegacyFileIsAZipFile) {
  TempDir dir;
  write_file(dir.path() / "net.pth", legacy_file());
  Outcome outcome = run_ckpt(dir.path(), {"strip-prefix", "net.pth"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the result is a PyTorch zip checkpoint"));
  EXPECT_EQ(ckpt::open(dir.path() / "net.plain.pth").format, "torch-zip");
  EXPECT_THAT(names_in(dir.path() / "net.plain.pth"), ElementsAre("w"));
}

TEST(TorchForms, InPlaceALegacyFileBecomesAZipFileOfItsName) {
  TempDir dir;
  for (const char* name : {"net.pth", "net.ckpt", "net"}) {
    write_file(dir.path() / name, legacy_file());
    EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "--in-place", name}).code, 0) << name;
    EXPECT_EQ(ckpt::open(dir.path() / name).format, "torch-zip") << name;
  }
}

TEST(TorchForms, AShardedModelIsEditedIntoOneFileButNotInPlace) {
  TempDir dir;
  std::filesystem::create_directory(dir.path() / "model");
  write_file(dir.path() / "model/pytorch_model.bin.index.json", R"({"weight_map": {"module.w": "1.bin"}})");
  write_file(dir.path() / "model/1.bin", torch_zip(pickle(wrapped_object()), {floats({1, 2})}).bytes());
  Outcome refused = run_ckpt(dir.path(), {"strip-prefix", "--in-place", "model"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("name an output with -o"));
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "model"}).code, 0);
  EXPECT_THAT(names_in(dir.path() / "model/pytorch_model.plain.bin"), ElementsAre("w"));
  EXPECT_EQ(run_ckpt(dir.path(), {"convert", "model", "one.safetensors"}).code, 0);
  EXPECT_THAT(names_in(dir.path() / "one.safetensors"), ElementsAre("module.w"));
}

TEST(TorchForms, UnknownClassesAreNamedWhileTheRestIsShown) {
  TempDir dir;
  write_file(dir.path() / "net.pth", partly_foreign());
  for (const char* command : {"ls", "info"}) {
    Outcome outcome = run_ckpt(dir.path(), {command, "net.pth"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.out, HasSubstr("float32"));
    EXPECT_THAT(outcome.err, HasSubstr("my.module.Args"));
    EXPECT_EQ(run_ckpt(dir.path(), {command, "--foreign-objects", "net.pth"}).code, 0);
  }
}

TEST(TorchForms, AFileThatIsOneUnknownObjectIsRefused) {
  TempDir dir;
  write_file(dir.path() / "net.pth", torch_zip(pickle(symbol("my.module", "Net") + ")\x81")).bytes());
  expect_refused(dir, {"ls", "net.pth"}, 3, "net.pth", "'my.module.Net'");
}

TEST(ScanCommand, EveryFamilyOfEvasionsEndsInAnExitCode) {
  TempDir dir;
  for (const Evasion& evasion : all_evasions()) {
    write_file(dir.path() / evasion.file_name, evasion.bytes);
    for (const char* command : {"scan", "verify"}) {
      Outcome outcome = run_ckpt(dir.path(), {command, evasion.file_name});
      EXPECT_THAT(outcome.code, AnyOf(1, 3)) << evasion.family << ", " << evasion.what << ": " << outcome.err;
    }
  }
}

TEST(ScanCommand, SaysCleanAndListsWhatIsNot) {
  TempDir dir;
  write_file(dir.path() / "good.pkl", harmless_pickle());
  write_file(dir.path() / "bad.pkl", harmful_pickle());
  write_file(dir.path() / "cut.pkl", harmful_pickle().substr(0, 20));
  Outcome good = run_ckpt(dir.path(), {"scan", "good.pkl"});
  EXPECT_EQ(good.code, 0);
  EXPECT_THAT(good.out, HasSubstr("good.pkl: clean; "));
  Outcome bad = run_ckpt(dir.path(), {"scan", "bad.pkl"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.out, HasSubstr("dangerous  posix.system (1 call)"));
  Outcome cut = run_ckpt(dir.path(), {"scan", "cut.pkl"});
  EXPECT_EQ(cut.code, 3);
  EXPECT_THAT(cut.out, HasSubstr("not read to its end, so it may hold more"));
  EXPECT_EQ(run_ckpt(dir.path(), {"scan", "good.pkl", "bad.pkl", "cut.pkl"}).code, 3);
}

TEST(ScanCommand, JsonHasTheSame) {
  TempDir dir;
  write_file(dir.path() / "bad.pkl", harmful_pickle());
  Outcome outcome = run_ckpt(dir.path(), {"scan", "--json", "bad.pkl"});
  EXPECT_EQ(outcome.code, 1);
  JsonDocument json = JsonDocument::parse(outcome.out);
  EXPECT_FALSE(first_file(json).at("clean").as_boolean());
  EXPECT_TRUE(first_file(json).at("complete").as_boolean());
  auto symbol = first_file(json).at("pickles").items().at(0).at("symbols").items().at(0);
  EXPECT_EQ(symbol.at("name").as_text(), "posix.system");
  EXPECT_EQ(symbol.at("verdict").as_text(), "dangerous");
  EXPECT_EQ(symbol.at("arguments").items().at(0).as_text(), "posix.system('true')");
  EXPECT_EQ(first_file(json).at("verdict").as_text(), "dangerous");
}

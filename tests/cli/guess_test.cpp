// What the program proposes for a word that it does not know, and how help is asked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/files.h"

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace test;

namespace {

Outcome refused(const TempDir& dir, const std::vector<std::string>& arguments) {
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_NE(outcome.code, 0);
  return outcome;
}

}  // namespace

TEST(Guess, FindsCommandsByWhatTheyDo) {
  TempDir dir;
  const std::vector<std::pair<std::string, std::string>> meant = {
      {"list", "'ls'"},        {"show", "'info' or 'tree'"}, {"combine", "'join' or 'merge'"},
      {"half", "'cast'"},      {"average", "'avg'"},         {"validate", "'verify'"},
      {"check", "'verify'"},   {"rename-keys", "'rename'"},  {"compare", "'diff'"},
      {"checksum", "'hash'"},  {"shard", "'split'"},         {"repair", "'fix' or 'rescue'"},
      {"verfy", "'verify'"},   {"diagnose", "'why'"},        {"unwrap", "'strip-prefix'"},
      {"to", "'remap'"},       {"mv", "'rename'"},           {"cp", "'convert'"},
      {"rm", "'select'"},      {"ensemble", "'avg'"},        {"sha256sum", "'hash'"},
      {"lint", "'verify'"},    {"graph", "'tree'"},          {"lsit", "'ls'"},
      {"validat", "'verify'"}, {"peft", "'lora'"},           {"slerp", "'merge'"}};
  for (const auto& [word, command] : meant) {
    expect_refused(dir, {word, "net.pth"}, 2, "'" + word + "'", "did you mean " + command + "?; see 'ckpt --help'");
    expect_refused(dir, {"help", word}, 2, "'" + word + "'", "did you mean " + command + "?");
  }
  expect_refused(dir, {"git", "list"}, 2, "'list'", "see 'ckpt git --help'");
}

TEST(Guess, NamesOnlyCommandsThatAreThere) {
  TempDir dir;
  std::string all = run_ckpt(dir.path(), {"--help"}).out;
  for (const char* word :
       {"list",      "show",      "print",    "combine",  "average", "half",    "validate", "rename-keys",
        "strip",     "prefix",    "device",   "compare",  "filter",  "shard",   "unshard",  "transform",
        "release",   "shrink",    "metadata", "checksum", "audit",   "recover", "repair",   "diagnose",
        "histogram", "optimizer", "models",   "gpus",     "index"}) {
    std::string said = refused(dir, {word}).err;
    std::size_t at = said.find("did you mean '");
    ASSERT_NE(at, std::string::npos) << said;
    for (std::size_t open = said.find('\'', at); said.find("';") == std::string::npos && open < said.find('?', at);) {
      std::size_t close = said.find('\'', open + 1);
      EXPECT_THAT(all, HasSubstr("\n  " + said.substr(open + 1, close - open - 1))) << word;
      open = said.find('\'', close + 1);
    }
  }
}

TEST(Guess, FindsTensorsPlacesFilesDtypesAndRules) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"model", state_dict({"fc.weight", "fc.bias"})}}));
  auto said = [&](const std::vector<std::string>& arguments) { return refused(dir, arguments).err; };
  EXPECT_THAT(said({"cat", "net.pth", "model.fc.weigt"}), HasSubstr("did you mean 'model.fc.weight'?"));
  EXPECT_THAT(said({"cat", "net.pth", "fc.bias"}), HasSubstr("did you mean 'model.fc.bias'?"));
  EXPECT_THAT(said({"ls", "net.pth::modle"}), HasSubstr("did you mean 'model'?"));
  EXPECT_THAT(said({"ls", "net.pth::optimizer"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(said({"ls", "nett.pth"}), HasSubstr("no such file or folder; did you mean 'net.pth'?"));
  EXPECT_THAT(said({"ls", "quite-another-name"}), Not(HasSubstr("did you mean")));
  EXPECT_THAT(said({"cast", "--to", "bflot16", "net.pth"}), HasSubstr("is not a dtype; did you mean 'bfloat16'?"));
  EXPECT_THAT(said({"select", "--include", "modle.*", "net.pth"}), HasSubstr("did you mean 'model.*'?"));
  write_model(dir, "flat.pth", {"layer1.0.weight", "layer1.0.bias", "fc.weight"});
  EXPECT_THAT(said({"select", "--include", "layre1.*", "flat.pth"}), HasSubstr("did you mean 'layer1.*'?"));
  EXPECT_THAT(said({"rename", "--glob", "layr1.*=body.*", "flat.pth"}), HasSubstr("did you mean 'layer1.*'?"));
  EXPECT_THAT(said({"rename", "--rules", "timm-vitt", "net.pth"}), HasSubstr("did you mean 'timm-vit'?"));
}

TEST(Guess, FindsFormatsExtensionsAndKeysToRename) {
  TempDir dir;
  write_model(dir, "net.pth", {"fc.weight", "fc.bias"});
  auto said = [&](const std::vector<std::string>& arguments) { return refused(dir, arguments).err; };
  EXPECT_THAT(said({"convert", "net.pth", "net.safetensor"}), HasSubstr("did you mean '.safetensors'?"));
  EXPECT_THAT(said({"convert", "net.pth", "o", "--format", "safetensor"}), HasSubstr("did you mean 'safetensors'?"));
  EXPECT_THAT(said({"cast", "--to", "bfloat", "net.pth"}), HasSubstr("did you mean 'bfloat16'?"));
  EXPECT_THAT(said({"rename", "--glob", "fc.weigth=w", "net.pth"}), HasSubstr("did you mean 'fc.weight'?"));
  expect_refused(dir, {"convert", "net.pth", "out/"}, 4, "out/", "say which format to write: --format safetensors");
}

/// The parser's own words were printed: "The following argument was not expected: -q".
TEST(Usage, SaysThatOptionsGoBehindTheCommand) {
  TempDir dir;
  expect_refused(dir, {"-q", "verify", "net.pth"}, 2, "'-q'", "options of 'verify' go behind it");
}

TEST(Guess, InAHugeFileCostsLittle) {
  TempDir dir;
  std::vector<std::string> keys;
  for (int i = 0; i < 50'000; ++i) keys.push_back("encoder.layers." + std::to_string(i) + ".attention.weight");
  write_model(dir, "net.safetensors", keys);
  Outcome outcome = refused(dir, {"cat", "net.safetensors", "encoder.layers.7.atention.weight"});
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'encoder.layers."));
}

TEST(HelpCommand, PrintsWhatHelpOfTheCommandPrints) {
  TempDir dir;
  auto text = [&](const std::vector<std::string>& arguments) {
    Outcome outcome = run_ckpt(dir.path(), arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(text({"help"}), text({"--help"}));
  EXPECT_EQ(text({"help", "ls"}), text({"ls", "--help"}));
  EXPECT_EQ(text({"help", "inspect"}), text({"ls", "--help"}));
  EXPECT_EQ(text({"help", "zoo", "run"}), text({"zoo", "run", "--help"}));
  EXPECT_EQ(text({"-V"}), text({"--version"}));
}

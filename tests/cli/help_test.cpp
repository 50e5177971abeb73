// What the program says about itself: groups, guesses, manual pages, completion.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/edit_distance.h"
#include "tests/cli/files.h"
#include "tools/support/suggest.h"

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using namespace test;

namespace {

std::string complete(const TempDir& dir, const std::string& shell, std::vector<std::string> words) {
  std::vector<std::string> arguments = {"completion", shell, "--"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.out;
}

}  // namespace

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(core::edit_distance("", "abc"), 3U);
  EXPECT_EQ(core::edit_distance("sl", "ls"), 1U);
  EXPECT_EQ(core::edit_distance("strip", "strip"), 0U);
  EXPECT_EQ(core::edit_distance("kitten", "sitting"), 3U);
}

TEST(Nearest, GuessesWhatIsCloseEnough) {
  std::vector<std::string> names = {"ls", "strip-prefix", "diff"};
  EXPECT_EQ(cli::nearest("sl", names), "ls");
  EXPECT_EQ(cli::nearest("stripprefix", names), "strip-prefix");
  EXPECT_EQ(cli::nearest("strip", names), "strip-prefix");
  EXPECT_EQ(cli::nearest("quantum", names), std::nullopt);
  EXPECT_EQ(cli::nearest("", names), std::nullopt);
}

TEST(Usage, GuessesCommandsAndOptions) {
  TempDir dir;
  expect_refused(dir, {"dif", "a", "b"}, 2, "'dif'", "did you mean 'diff'?; see 'ckpt --help'");
  expect_refused(dir, {"ls", "--jsno", "a"}, 2, "'--jsno'", "did you mean '--json'?; see 'ckpt ls --help'");
  expect_refused(dir, {"diff", "a", "b", "c"}, 2, "'c'", "unexpected word");
  expect_refused(dir, {"git", "instal"}, 2, "'instal'", "did you mean 'install'?; see 'ckpt git --help'");
}

TEST(Help, ShowsHowACommandIsCalled) {
  TempDir dir;
  EXPECT_THAT(run_ckpt(dir.path(), {"ls", "--help"}).out, HasSubstr("\nUsage: ckpt ls [OPTIONS] FILE...\n"));
  EXPECT_THAT(run_ckpt(dir.path(), {"zoo", "keys", "--help"}).out,
              HasSubstr("\nUsage: ckpt zoo keys [OPTIONS] NAME\n"));
}

TEST(Help, HasGroupsAndNestedCommands) {
  TempDir dir;
  std::string text = run_ckpt(dir.path(), {"--help"}).out;
  EXPECT_THAT(text, StartsWith("Examples:\n"));
  std::size_t look = text.find("Look at a checkpoint:\n");
  std::size_t keys = text.find("Change keys, tags and values:\n");
  EXPECT_LT(look, text.find("\n  ls, inspect "));
  EXPECT_LT(text.find("\n  ls, inspect "), keys);
  EXPECT_LT(keys, text.find("\n  strip-prefix "));
  EXPECT_THAT(run_ckpt(dir.path(), {"git", "--help"}).out, AllOf(HasSubstr("install"), HasSubstr("textconv")));
  EXPECT_THAT(run_ckpt(dir.path(), {"git", "install", "--help"}).out,
              AllOf(StartsWith("Examples:\n  ckpt git install"), HasSubstr("Usage: ckpt git install")));
}

TEST(Man, SaysWhatHelpSays) {
  TempDir dir;
  std::string page = run_ckpt(dir.path(), {"man", "strip-prefix"}).out;
  EXPECT_THAT(page, StartsWith(".TH CKPT-STRIP-PREFIX 1 "));
  for (const char* part : {".SH NAME\nckpt\\-strip\\-prefix \\- Remove a prefix", ".SH OPTIONS\n", "\\-\\-in\\-place",
                           ".SH EXAMPLES\n", "ckpt strip\\-prefix net.pth"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  std::string all = run_ckpt(dir.path(), {"man"}).out;
  EXPECT_THAT(all, AllOf(StartsWith(".TH CKPT 1 "), HasSubstr(".SH EXIT STATUS"), HasSubstr("ckpt\\-ls(1)")));
  expect_refused(dir, {"man", "lss"}, 2, "'lss'", "did you mean 'ls'?");
}

TEST(Man, WritesAllPages) {
  TempDir dir;
  EXPECT_EQ(run_ckpt(dir.path(), {"man", "--write", "man1"}).code, 0);
  std::vector<std::string> pages = list_folder(dir.path() / "man1");
  EXPECT_THAT(pages, testing::Contains("ckpt.1"));
  EXPECT_THAT(pages, testing::Contains("ckpt-ls.1"));
  for (const std::string& page : pages) {
    std::string text = read_file(dir.path() / "man1" / page);
    EXPECT_EQ(text.find("\n."), text.find("\n.SH NAME")) << page;
    for (const char* part : {".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH EXAMPLES\n"}) {
      EXPECT_THAT(text, HasSubstr(part)) << page;
    }
  }
}

TEST(Completion, OffersCommandsOptionsAndValues) {
  TempDir dir;
  EXPECT_EQ(complete(dir, "bash", {"str"}), "words\nstrip-prefix\n");
  EXPECT_EQ(complete(dir, "bash", {"ls", "--rev"}), "words\n--reverse\n");
  EXPECT_EQ(complete(dir, "bash", {"git", "unin"}), "words\nuninstall\n");
  EXPECT_EQ(complete(dir, "bash", {"convert", "a", "b", "--codec", "z"}), "words\nzstd\n");
  EXPECT_EQ(complete(dir, "bash", {"completion", "z"}), "words\nzsh\n");
  EXPECT_EQ(complete(dir, "bash", {"man", "strip-p"}), "words\nstrip-prefix\n");
  EXPECT_EQ(complete(dir, "bash", {"convert", "a", "--format", "safet"}), "words\nsafetensors\nsafetensors-sharded\n");
  EXPECT_THAT(complete(dir, "bash", {"why", "a.pth", "--for", "resnet5"}), HasSubstr("\nresnet50\n"));
  EXPECT_THAT(complete(dir, "bash", {"zoo", "keys", "resnet5"}), HasSubstr("\nresnet50\n"));
  EXPECT_THAT(complete(dir, "fish", {"ls", "--rev"}), testing::Eq("--reverse\treverse the order\n"));
  EXPECT_THAT(complete(dir, "zsh", {"d"}), HasSubstr("diff\t"));
}

TEST(Completion, OffersCheckpointsAndFolders) {
  TempDir dir;
  write_file(dir.path() / "net.pth", "");
  write_file(dir.path() / "my net.safetensors", "");
  write_file(dir.path() / "notes.md", "");
  std::filesystem::create_directory(dir.path() / "runs");
  write_file(dir.path() / "runs/readme", "");
  EXPECT_EQ(complete(dir, "bash", {"ls", ""}), "files\nmy net.safetensors\nnet.pth\nruns/\n");
  EXPECT_EQ(complete(dir, "bash", {"ls", "runs/"}), "files\nruns/readme\n");
  EXPECT_EQ(complete(dir, "bash", {"ls", "net.pth", "-o"}), "words\n");
}

TEST(Completion, OffersPlacesAndKeysInsideAFile) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth",
                   dict({{"model", state_dict({"a.w", "a.b", "c"})}, {"ema", state_dict({"e"})}}));
  EXPECT_EQ(complete(dir, "bash", {"ls", "net.pth::m"}), "words\nnet.pth::model\n");
  EXPECT_EQ(complete(dir, "bash", {"select", "net.pth", "--include", "model."}), "words\nmodel.a.*\nmodel.c\n");
  EXPECT_EQ(complete(dir, "bash", {"cat", "net.pth", "model.a."}), "words\nmodel.a.b\nmodel.a.w\n");
  EXPECT_EQ(complete(dir, "bash", {"ls", "broken.pth::"}), "words\n");
}

TEST(Completion, ScriptsAskTheProgram) {
  TempDir dir;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(run_ckpt(dir.path(), {"completion", shell}).out,
                HasSubstr(std::string("completion ") + shell + " -- "));
  }
  expect_refused(dir, {"completion", "tcsh"}, 2, "'tcsh'", "bash, zsh or fish");
}

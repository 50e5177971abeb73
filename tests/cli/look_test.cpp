// tree, the orders and choices of ls, the page of info, meta, doctor, git.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "libckpt/io/json.h"
#include "libckpt/transform/metadata.h"
#include "tests/cli/files.h"
#include "tools/ckpt/output/order.h"

using ckpt::JsonDocument;
using ckpt::Value;
using testing::HasSubstr;
using testing::StartsWith;
using namespace test;

namespace {

Value layers() {
  return dict({{"layer10.w", tensor({1, 2, 3, 4})}, {"layer2.w", tensor({1, 2})}, {"layer2.b", tensor({1})}});
}

}  // namespace

TEST(NaturalOrder, CountsAsPeopleDo) {
  EXPECT_TRUE(cli::natural_less("layer2", "layer10"));
  EXPECT_FALSE(cli::natural_less("layer10", "layer2"));
  EXPECT_TRUE(cli::natural_less("a", "b"));
  EXPECT_TRUE(cli::natural_less("a", "a1"));
  EXPECT_TRUE(cli::natural_less("x1.2", "x01.2"));
  EXPECT_FALSE(cli::natural_less("x01.2", "x1.2"));
  EXPECT_FALSE(cli::natural_less("x1", "x1"));
  EXPECT_TRUE(cli::natural_less("v99999999999999999999998", "v99999999999999999999999"));
}

TEST(Ls, SortsAndChooses) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", layers());
  auto names = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"ls", "-q", "net.pth"});
    return run_ckpt(dir.path(), options).out;
  };
  EXPECT_EQ(names({}), "layer10.w\nlayer2.w\nlayer2.b\n");
  EXPECT_EQ(names({"--sort", "name"}), "layer2.b\nlayer2.w\nlayer10.w\n");
  EXPECT_EQ(names({"--sort", "size", "--reverse"}), "layer2.b\nlayer2.w\nlayer10.w\n");
  EXPECT_EQ(names({"--sort", "size", "--top", "1"}), "layer10.w\n");
  EXPECT_EQ(names({"--include", "*.w", "--exclude", "layer2.*"}), "layer10.w\n");
  EXPECT_EQ(names({"--include", "@numel>1"}), "layer10.w\nlayer2.w\n");
  EXPECT_THAT(run_ckpt(dir.path(), {"ls", "--include", "*.b", "net.pth"}).out, HasSubstr("\n1 of 3 tensors, "));
  expect_refused(dir, {"ls", "--sort", "colour", "net.pth"}, 2, "'colour'", "file, name, size");
}

TEST(Tree, ShowsTheTotalsOfEveryBranch) {
  TempDir dir;
  write_checkpoint(
      dir.path() / "net.pth",
      dict({{"model", dict({{"enc.a.w", tensor({1, 2, 3})}, {"enc.b.w", tensor({1})}, {"head", tensor({1, 2})}})},
            {"epoch", Value::integer(1)}}));
  EXPECT_EQ(run_ckpt(dir.path(), {"tree", "net.pth"}).out,
            "MODULE   TENSORS  ELEMENTS  SIZE  SHARE              DTYPES\n"
            "net.pth        3         6  24 B  ########## 100.0%  float32\n"
            "  model        3         6  24 B  ########## 100.0%  float32\n"
            "    enc        2         4  16 B  #######...  66.7%  float32\n"
            "      a        1         3  12 B  #####.....  50.0%  float32\n"
            "      b        1         1   4 B  ##........  16.7%  float32\n");
  EXPECT_THAT(run_ckpt(dir.path(), {"tree", "--depth", "1", "net.pth"}).out, testing::Not(HasSubstr("enc")));
  EXPECT_THAT(run_ckpt(dir.path(), {"tree", "--tensors", "net.pth"}).out,
              HasSubstr("    head        1         2   8 B  ###.......  33.3%  float32 [2]\n"));
  EXPECT_THAT(run_ckpt(dir.path(), {"tree", "net.pth::model"}).out, StartsWith("MODULE          "));
}

TEST(Tree, JsonIsExact) {
  TempDir dir;
  Value shared = tensor({1, 2});
  write_checkpoint(dir.path() / "net.pth", dict({{"a.w", shared}, {"b.w", shared}}));
  JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {"tree", "--json", "net.pth"}).out);
  std::vector<ckpt::JsonView> branches = first_file(json).at("branches").items();
  ASSERT_EQ(branches.size(), 3U);
  EXPECT_EQ(branches[0].at("bytes").as_integer(), 8);
  EXPECT_EQ(branches[0].at("elements").as_integer(), 4);
  EXPECT_EQ(branches[1].at("name").as_text(), "a");
  EXPECT_EQ(branches[1].at("bytes").as_integer(), 8);
  EXPECT_EQ(branches[2].at("bytes").as_integer(), 0) << "a tied tensor counts where it stands first";
}

TEST(Info, CountsParametersApartFromBuffers) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"bn.weight", tensor({1, 2})}, {"bn.running_mean", tensor({1, 2})}}));
  EXPECT_THAT(
      run_ckpt(dir.path(), {"info", "net.pth"}).out,
      testing::AllOf(HasSubstr("  tensors      2 tensors, 4 elements, 16 B\n"), HasSubstr("  parameters   2\n")));
}

TEST(Info, WritesAPage) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", layers());
  EXPECT_EQ(run_ckpt(dir.path(), {"info", "net.pth", "--html", "net.html"}).code, 0);
  std::string page = read_file(dir.path() / "net.html");
  EXPECT_THAT(page, StartsWith("<!doctype html>"));
  for (const char* part : {"<h1>net.pth</h1>", "Layers by bytes", "Largest tensors", "layer10.w", "<svg "}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_EQ(run_ckpt(dir.path(), {"info", "net.pth", "--html", "-"}).out, page);
  expect_refused(dir, {"info", "net.pth", "--html", "net.pth"}, 4, "net.pth", "not an HTML page");
}

TEST(Meta, ShowsAndEdits) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"a"});
  auto run = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"meta", "net.safetensors"});
    Outcome outcome = run_ckpt(dir.path(), options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(run({}), "KEY     TEXT\nformat  pt\n");
  EXPECT_THAT(run({"--set", "license=MIT", "--set", "a=b=c", "--in-place"}),
              HasSubstr("2 added, 0 changed, 0 removed"));
  EXPECT_EQ(run({"--get", "a"}), "b=c\n");
  EXPECT_THAT(run({"--unset", "a", "--set", "license=BSD", "-o", "other.safetensors"}),
              StartsWith("other.safetensors: 0 added, 1 changed, 1 removed, "));
  EXPECT_THAT(run({"--set", "license=MIT", "--in-place"}), HasSubstr("file left as it is"));
  EXPECT_EQ(first_file(JsonDocument::parse(run({"--json"}))).at("metadata").at("license").as_text(), "MIT");
  EXPECT_EQ(names_in(dir.path() / "other.safetensors"), std::vector<std::string>{"a"});
}

TEST(Meta, RefusesWhatHasNoPlace) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"a"});
  write_model(dir, "net.pth", {"a"});
  expect_refused(dir, {"meta", "net.safetensors", "--unset", "x", "--in-place"}, 2, "'x'", "there is 'format'");
  expect_refused(dir, {"meta", "net.safetensors", "--set", "novalue"}, 2, "'novalue'", "KEY=TEXT");
  expect_refused(dir, {"meta", "net.pth", "--set", "a=b", "--in-place"}, 3, "net.pth", "has no file-level metadata");
  write_model(dir, "net.npz", {"a"});
  expect_refused(dir, {"meta", "net.npz", "--set", "a=b", "--in-place"}, 3, "net.npz", "has no file-level metadata");
  expect_refused(dir, {"meta", "net.safetensors", "--get", "x"}, 2, "'x'", "no metadata");
}

TEST(Doctor, SaysWhatThereIs) {
  TempDir dir;
  Outcome outcome = run_ckpt(dir.path(), {"doctor", "."});
  EXPECT_THAT(outcome.code, testing::AnyOf(0, 1)) << outcome.err;
  for (const char* part :
       {"ckpt " CKPT_VERSION, "torch-zip", "memory", "cores", "free space", "with fsync", "Landlock"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  EXPECT_EQ(list_folder(dir.path()), std::vector<std::string>{});
  Outcome missing = run_ckpt(dir.path(), {"doctor", "/no/such/folder"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.out, HasSubstr("! path"));
}

/// No save inserts blocks or asks for shared ones, and what is not done is not spoken of.
TEST(Doctor, SpeaksOnlyOfWhatASaveDoes) {
  TempDir dir;
  JsonDocument said = JsonDocument::parse(run_ckpt(dir.path(), {"doctor", "--json", "."}).out);
  std::vector<std::string> names;
  for (const auto& line : said.root().at("lines").items()) {
    if (line.at("topic").as_text() == "folder") names.emplace_back(line.at("name").as_text());
  }
  // Behind "free space" each is one answer of try_folder(), which folder_trial_test pins to the calls of a save.
  EXPECT_THAT(names, testing::ElementsAre("path", "file system", "free space", "saving", "fsync of the folder",
                                          "new names", "room on the disk", "copying without a check", "writer lock"));
  EXPECT_EQ(list_folder(dir.path()), std::vector<std::string>{});
}

namespace {

/// A repository whose git reads no configuration of the machine.
class Repository : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
    std::filesystem::create_directory(dir_.path() / "home");
    ASSERT_EQ(shell("git init -q . && git config user.name a && git config user.email a@b"), 0);
  }
  std::string environment() const {
    return "cd '" + dir_.path().string() +
           "' && export HOME=$PWD/home XDG_CONFIG_HOME=$PWD/home/.config "
           "GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES='" +
           dir_.path().parent_path().string() + "' && ";
  }
  int shell(const std::string& command) const { return std::system((environment() + command).c_str()); }
  Outcome git(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "git");
    RunOptions options;
    options.in_child = [this] {
      ::setenv("HOME", (dir_.path() / "home").c_str(), 1);
      ::unsetenv("XDG_CONFIG_HOME");
      ::setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
      ::setenv("GIT_CEILING_DIRECTORIES", dir_.path().parent_path().c_str(), 1);
    };
    return run_ckpt(dir_.path(), arguments, options);
  }
  TempDir dir_;
};

}  // namespace

TEST_F(Repository, DiffSpeaksOfTensors) {
  write_checkpoint(dir_.path() / "net.pth",
                   dict({{"a", tensor({1, 2})}, {"b", tensor({3})}, {"epoch", Value::integer(1)}}));
  write_file(dir_.path() / ".gitattributes", "*.txt text\n");
  EXPECT_EQ(git({"status"}).code, 1);
  EXPECT_EQ(git({"install"}).code, 0);
  EXPECT_EQ(git({"status"}).code, 0);
  EXPECT_THAT(read_file(dir_.path() / ".gitattributes"),
              testing::AllOf(StartsWith("*.txt text\n"), HasSubstr("*.pth diff=ckpt\n")));
  ASSERT_EQ(shell("git add -A && git commit -qm one"), 0);
  write_checkpoint(dir_.path() / "net.pth",
                   dict({{"a", tensor({1, 2})}, {"b", tensor({4})}, {"epoch", Value::integer(2)}}));
  ASSERT_EQ(shell("git --no-pager diff > home/diff.txt"), 0);
  std::string diff = read_file(dir_.path() / "home/diff.txt");
  EXPECT_THAT(diff, testing::AllOf(HasSubstr("\n-epoch = 1\n"), HasSubstr("\n+epoch = 2\n")));
  EXPECT_THAT(diff, HasSubstr("\n-b: float32 [1], 3 to 3, mean 3, deviation 0, content "));
  EXPECT_THAT(diff, HasSubstr("\n+b: float32 [1], 4 to 4, mean 4, deviation 0, content "));
  EXPECT_THAT(diff, HasSubstr("\n a: float32 [2], "));
  EXPECT_EQ(git({"uninstall"}).code, 0);
  EXPECT_EQ(git({"status"}).code, 1);
  EXPECT_EQ(read_file(dir_.path() / ".gitattributes"), "*.txt text\n");
  EXPECT_NE(shell("git config diff.ckpt.textconv"), 0);
}

TEST_F(Repository, InstallsForTheUserToo) {
  EXPECT_EQ(git({"install", "--global"}).code, 0);
  EXPECT_THAT(read_file(dir_.path() / "home/.config/git/attributes"), HasSubstr("*.safetensors diff=ckpt\n"));
  EXPECT_EQ(git({"status", "--global"}).code, 0);
  EXPECT_EQ(git({"status"}).code, 1);
  EXPECT_EQ(git({"uninstall", "--global"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "home/.config/git/attributes"));
}

TEST_F(Repository, DryRunWritesNothing) {
  EXPECT_THAT(git({"install", "--dry-run"}).out, HasSubstr("*.pth diff=ckpt"));
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / ".gitattributes"));
}

TEST(GitTextconv, SaysWhyAFileIsNoCheckpoint) {
  TempDir dir;
  write_file(dir.path() / "net.pth", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  Outcome outcome = run_ckpt(dir.path(), {"git", "textconv", "net.pth"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out,
              testing::AllOf(StartsWith("no checkpoint that ckpt can read"), HasSubstr("git-LFS pointer")));
}

TEST(Git, OutsideARepositoryIsAnError) {
  TempDir dir;
  RunOptions options;
  options.in_child = [&] { ::setenv("GIT_CEILING_DIRECTORIES", "/", 1); };
  expect_refused(dir, {"git", "install"}, 4, "git", "not a git repository", options);
}

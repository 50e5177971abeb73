// What the program may remove from a folder: nothing that it did not make, whatever index, note or name lies there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using namespace test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kKeys = {"module.l0.weight", "module.l0.bias", "module.l1.weight"};
const std::string kIndex = "model.safetensors.index.json";
const std::string kDead = ".net.pth.ckpt-tmp-00000000-1-0123456789abcdef";

/// Starts the program and kills it after so many microseconds.
void run_and_kill(const fs::path& folder, const std::vector<std::string>& arguments, useconds_t delay) {
  std::string program = fs::absolute(ckpt_program()).string();
  std::vector<std::string> words = arguments;
  std::vector<char*> argv = {program.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = ::fork();
  if (pid == 0) {
    if (::chdir(folder.c_str()) == 0) ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  ::usleep(delay);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

class ShardSet : public testing::Test {
 protected:
  void SetUp() override { write_model(dir_, "mine.safetensors", kKeys); }

  Outcome run(const std::vector<std::string>& arguments) const { return run_ckpt(dir_.path(), arguments); }
  void expect_done(const std::vector<std::string>& arguments) const {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  void write(const std::string& name, const std::string& text) const { write_file(dir_.path() / name, text); }
  std::string read(const std::string& name) const { return read_file(dir_.path() / name); }
  std::vector<std::string> names() const { return list_folder(dir_.path()); }
  /// An index that lists these keys of the model, all in "mine.safetensors".
  static std::string index_of(const std::vector<std::string>& keys) {
    std::string list;
    for (const std::string& key : keys) list += (list.empty() ? "" : ",") + ("\"" + key + "\":\"mine.safetensors\"");
    return "{\"weight_map\":{" + list + "}}";
  }

  TempDir dir_;
};

}  // namespace

TEST_F(ShardSet, HostileNoteDoesNotDeleteTheInput) {
  write("." + kIndex + ".ckpt-set", "mine.safetensors\n");
  std::string before = read("mine.safetensors");
  expect_done({"split", "--shards", "2", "mine.safetensors", "-o", "."});
  EXPECT_EQ(read("mine.safetensors"), before);
}

TEST_F(ShardSet, HostileIndexDoesNotDeleteTheInput) {
  std::string before = read("mine.safetensors");
  for (const std::vector<std::string>& keys : {std::vector<std::string>{"module.l0.bias"}, kKeys}) {
    write(kIndex, index_of(keys));
    Outcome outcome = run({"split", "-f", "--shards", "2", "mine.safetensors", "-o", "."});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("files that '" + kIndex + "' named before were left beside it: 'mine.saf"));
    EXPECT_EQ(read("mine.safetensors"), before);
  }
}

TEST_F(ShardSet, ACastLeavesEachTensorInItsShard) {
  expect_done({"split", "-q", "--shards", "3", "mine.safetensors", "-o", kIndex});
  auto places = [&] {
    std::vector<std::pair<std::string, std::string>> list;
    const ckpt::JsonDocument index = ckpt::JsonDocument::parse(read(kIndex));
    for (const std::string& key : kKeys) {
      std::string file(index.root().at("weight_map").at(key).as_text());
      list.emplace_back(key, file.substr(file.find("-of-") - 5, 5));
    }
    return list;
  };
  const auto before = places();
  EXPECT_NE(before.front().second, before.back().second);
  expect_done({"cast", "-q", "--in-place", "--to", "f16", kIndex});
  EXPECT_EQ(places(), before);
  EXPECT_THAT(run({"ls", kIndex}).out, HasSubstr("float16"));
}

/// Also under a name that a shard has, and when every tensor is listed: nobody's input goes.
TEST_F(ShardSet, AnInputThatIsNamedLikeAShardStays) {
  std::string input = "model-00001-of-00001.safetensors";
  fs::rename(dir_.path() / "mine.safetensors", dir_.path() / input);
  std::string before = read(input);
  std::string text = index_of(kKeys);
  for (std::size_t at = 0; (at = text.find("mine.safetensors")) != std::string::npos;) text.replace(at, 16, input);
  write(kIndex, text);
  Outcome outcome = run({"split", "-f", "--shards", "2", input, "-o", "."});
  EXPECT_THAT(outcome.err, HasSubstr("the new model was read from it"));
  EXPECT_EQ(read(input), before);
}

TEST_F(ShardSet, EditInPlaceKeepsTensorsThatTheIndexDoesNotList) {
  write(kIndex, index_of({"module.l0.bias"}));
  std::string before = read("mine.safetensors");
  for (bool dry : {true, false}) {
    std::vector<std::string> arguments = {"strip-prefix", "--in-place", kIndex};
    if (dry) arguments.emplace_back("--dry-run");
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 3) << dry;
    EXPECT_THAT(outcome.err, HasSubstr(kIndex + ": this would drop 2 tensors of the model: 'module.l0.weight'"));
    EXPECT_THAT(outcome.err, HasSubstr("--lenient"));
    EXPECT_THAT(names(), ElementsAre("mine.safetensors", kIndex));
  }
  Outcome outcome = run({"strip-prefix", "--in-place", "--lenient", kIndex});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("'mine.safetensors' (the index does not list 2 of its tensors)"));
  EXPECT_EQ(read("mine.safetensors"), before);
  EXPECT_THAT(names_in(dir_.path() / kIndex), ElementsAre("l0.bias"));
}

TEST_F(ShardSet, EditInPlaceRemovesWhatItCarried) {
  expect_done({"split", "--shards", "2", "mine.safetensors", "-o", "s"});
  expect_done({"strip-prefix", "--in-place", "s/" + kIndex});  // headers alone
  EXPECT_THAT(list_folder(dir_.path() / "s"),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", kIndex));
  const std::string prefix(10'000, 'p');  // longer than the room of the headers
  expect_done({"add-prefix", "--prefix", prefix, "--in-place", "s/" + kIndex});
  EXPECT_THAT(list_folder(dir_.path() / "s"),
              ElementsAre("model-g2-00001-of-00002.safetensors", "model-g2-00002-of-00002.safetensors", kIndex));
  expect_done({"select", "--in-place", "--include", prefix + ".l0.*", "s/" + kIndex});
  EXPECT_EQ(names_in(dir_.path() / "s" / kIndex).size(), 2U);
}

TEST_F(ShardSet, AShardOfAnotherIndexStays) {
  expect_done({"split", "--shards", "2", "mine.safetensors", "-o", "s"});
  fs::copy_file(dir_.path() / "s" / kIndex, dir_.path() / "s" / "copy.safetensors.index.json");
  expect_done({"strip-prefix", "--in-place", "s/" + kIndex});
  EXPECT_THAT(list_folder(dir_.path() / "s"), Contains("model-00001-of-00002.safetensors"));
  EXPECT_EQ(names_in(dir_.path() / "s" / "copy.safetensors.index.json").size(), 3U);
}

/// What a killed save had finished under its own name is used by the next one, generation 1 for good.
TEST_F(ShardSet, SplitAfterAKilledSplitLeavesNoGenerations) {
  expect_done({"split", "--shards", "2", "mine.safetensors", "-o", "s"});
  ASSERT_TRUE(fs::remove(dir_.path() / "s" / kIndex));
  ASSERT_TRUE(fs::remove(dir_.path() / "s" / "model-00002-of-00002.safetensors"));
  expect_done({"split", "--shards", "2", "mine.safetensors", "-o", "s"});
  EXPECT_THAT(list_folder(dir_.path() / "s"),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", kIndex));
  for (useconds_t delay = 0; delay < 15'000; delay += 500) {
    run_and_kill(dir_.path(), {"split", "-fq", "--shards", "2", "mine.safetensors", "-o", "s"}, delay);
  }
  expect_done({"split", "-f", "--shards", "2", "mine.safetensors", "-o", "s"});
  EXPECT_THAT(list_folder(dir_.path() / "s"),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", kIndex));
}

/// Another file of a shard's name is neither used nor touched.
TEST_F(ShardSet, AFileOfAShardsNameWithOtherContentStays) {
  fs::create_directory(dir_.path() / "s");
  expect_done({"strip-prefix", "mine.safetensors", "-o", "s/model-00001-of-00001.safetensors"});
  std::string before = read("s/model-00001-of-00001.safetensors");
  EXPECT_EQ(run({"split", "--shards", "1", "mine.safetensors", "-o", "s"}).code, 4);
  expect_done({"split", "-f", "--shards", "1", "mine.safetensors", "-o", "s"});
  EXPECT_THAT(list_folder(dir_.path() / "s"),
              ElementsAre("model-00001-of-00001.safetensors", "model-g2-00001-of-00001.safetensors", kIndex));
  EXPECT_EQ(read("s/model-00001-of-00001.safetensors"), before);
}

TEST_F(ShardSet, KilledPublishLeavesNothingForGood) {
  for (useconds_t delay = 0; delay < 15'000; delay += 1'000) {
    run_and_kill(dir_.path(), {"publish", "-fq", "mine.safetensors"}, delay);
  }
  expect_done({"publish", "-f", "mine.safetensors"});
  EXPECT_EQ(names().size(), 2U);
  EXPECT_THAT(names(), Contains("mine.safetensors"));
}

TEST_F(ShardSet, PublishKeepsModeAndFollowsLinksOfWhatItReplaces) {
  fs::create_directory(dir_.path() / "real");
  write("real/net.safetensors", "old");
  fs::permissions(dir_.path() / "real/net.safetensors", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real/net.safetensors", dir_.path() / "net.safetensors");
  expect_done({"publish", "-f", "mine.safetensors", "-o", "net.safetensors"});
  EXPECT_TRUE(fs::is_symlink(dir_.path() / "net.safetensors"));
  EXPECT_EQ(names_in(dir_.path() / "real/net.safetensors").size(), 3U);
  EXPECT_EQ(fs::status(dir_.path() / "real/net.safetensors").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(list_folder(dir_.path() / "real").size(), 1U);
}

TEST_F(ShardSet, LeftoversGoWithTheNextCommandThatWritesThere) {
  write(kDead, "half");
  write(".other.pth.ckpt-lock", "");
  expect_done({"ls", "mine.safetensors"});
  EXPECT_THAT(names(), Contains(kDead));
  expect_done({"convert", "mine.safetensors", "net.npz"});
  EXPECT_THAT(names(), ElementsAre("mine.safetensors", "net.npz"));
}

TEST_F(ShardSet, DoctorListsLeftoversAndSweepsThem) {
  write(kDead, "half");
  fs::copy_file(dir_.path() / "mine.safetensors", dir_.path() / "old-00001-of-00002.safetensors");
  write(".x.ckpt-set", "mine.safetensors\n");
  Outcome found = run({"doctor", "."});
  EXPECT_THAT(found.out, HasSubstr(kDead + "  temporary file, 4 B, 0 minutes old"));
  EXPECT_THAT(found.out, HasSubstr("its writer is gone; 'ckpt doctor --sweep'"));
  EXPECT_THAT(found.out, HasSubstr("shard that no index names"));
  EXPECT_THAT(found.out, HasSubstr("left by an earlier version"));
  EXPECT_THAT(names(), Contains(kDead));
  Outcome swept = run({"doctor", "--sweep", "."});
  EXPECT_EQ(swept.code, 0) << swept.err;
  EXPECT_THAT(swept.out, HasSubstr("removed\n  " + kDead));
  EXPECT_THAT(swept.out, HasSubstr("1 file removed"));
  EXPECT_THAT(names(), ElementsAre(".x.ckpt-set", "mine.safetensors", "old-00001-of-00002.safetensors"));
  Outcome json = run({"doctor", "--sweep", "--json", "."});
  ckpt::JsonDocument document = ckpt::JsonDocument::parse(json.out);
  EXPECT_TRUE(document.root().at("good").as_boolean());
  EXPECT_EQ(run({"doctor", "--sweep", "nowhere/x"}).code, 4);
}

/// A shard that cannot be removed is named; the new model stands.
TEST_F(ShardSet, ShardsThatCannotBeTidiedAwayAreNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs two users";
  constexpr uid_t kUser = 12345;
  expect_done({"split", "--shards", "2", "mine.safetensors", "-o", "s"});
  fs::permissions(dir_.path(), fs::perms::all);
  fs::permissions(dir_.path() / "s", fs::perms::all | fs::perms::sticky_bit);
  ASSERT_EQ(::chown((dir_.path() / "s").c_str(), kUser + 1, kUser + 1), 0);
  ASSERT_EQ(::chown((dir_.path() / "s" / kIndex).c_str(), kUser, kUser), 0);
  RunOptions options;
  options.in_child = [] {
    if (::setresgid(kUser, kUser, kUser) != 0 || ::setresuid(kUser, kUser, kUser) != 0) ::_exit(9);
  };
  Outcome outcome = run_ckpt(dir_.path(), {"strip-prefix", "--in-place", "s/" + kIndex}, options);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("were left beside it: 'model-00001-of-00002.safetensors' (it cannot be removed: "
                                     "permission denied), 'model-00002-of-00002.safetensors' ("));
  EXPECT_EQ(names_in(dir_.path() / "s" / kIndex).size(), 3U);
}

// Edits that write a part of a file in place, and 'ckpt undo'.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/files.h"
#include "tests/support/pending_edit.h"

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

namespace {

constexpr const char* kFile = "net.safetensors";

std::string run_well(const TempDir& dir, const std::vector<std::string>& arguments) {
  Outcome outcome = run_ckpt(dir.path(), arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.out;
}

/// What an edit in place writes of a file.
struct Rung {
  std::string file;
  std::string part;
  std::string verb = "rewritten in place";
};

void PrintTo(const Rung& rung, std::ostream* out) {
  *out << rung.file;
}

class UndoOf : public testing::TestWithParam<Rung> {};

TEST_P(UndoOf, AnEditInPlaceGivesTheFileBack) {
  TempDir dir;
  const std::string file = GetParam().file;
  write_model(dir, file, {"module.a", "module.b"});
  const std::string before = read_file(dir.path() / file);
  std::string said = run_well(dir, {"strip-prefix", "--in-place", "--dry-run", file});
  EXPECT_THAT(said, HasSubstr(GetParam().part + " to be " + GetParam().verb + ", "));
  EXPECT_THAT(said, HasSubstr("nothing written (dry run)"));
  EXPECT_TRUE(read_file(dir.path() / file) == before);
  said = run_well(dir, {"strip-prefix", "--in-place", file});
  EXPECT_THAT(said, HasSubstr("2 of 2 keys renamed, " + GetParam().part + " " + GetParam().verb + ", "));
  EXPECT_EQ(names_in(dir.path() / file), (Names{"a", "b"}));
  EXPECT_THAT(run_well(dir, {"undo", file}), HasSubstr("the last edit in place was taken back"));
  EXPECT_TRUE(read_file(dir.path() / file) == before);
  EXPECT_EQ(run_well(dir, {"undo", "-q", file}), "");
  EXPECT_EQ(names_in(dir.path() / file), (Names{"a", "b"}));
}

INSTANTIATE_TEST_SUITE_P(Formats, UndoOf,
                         testing::Values(Rung{"net.safetensors", "header"}, Rung{"net.ckpt", "index"},
                                         Rung{"net.gguf", "header"}, Rung{"net.npz", "directory"},
                                         Rung{"net.pth", "data.pkl and directory", "appended"}),
                         [](const auto& one) { return one.param.file.substr(sizeof "net"); });

TEST(Undo, AnEditInPlaceOfShardsGivesAllOfThemBack) {
  TempDir dir;
  const std::string index = "m.safetensors.index.json";
  write_model(dir, "net.safetensors", {"module.a", "module.b"});
  run_well(dir, {"split", "--shards", "2", "net.safetensors", "-o", index});
  Names files = list_folder(dir.path());
  auto contents = [&] {
    std::string all;
    for (const std::string& name : list_folder(dir.path())) all += name + read_file(dir.path() / name);
    return all;
  };
  const std::string before = contents();
  EXPECT_THAT(run_well(dir, {"strip-prefix", "--in-place", "--dry-run", "."}),
              HasSubstr("headers and index to be rewritten in place, "));
  EXPECT_EQ(contents(), before);
  EXPECT_THAT(run_well(dir, {"strip-prefix", "--in-place", "."}), HasSubstr("headers and index rewritten in place, "));
  EXPECT_EQ(names_in(dir.path() / index), (Names{"a", "b"}));
  EXPECT_EQ(list_folder(dir.path()), files);
  EXPECT_THAT(run_ckpt(dir.path(), {"doctor"}).out, HasSubstr("'ckpt undo " + index + "'"));
  EXPECT_THAT(run_well(dir, {"undo", "."}), HasSubstr(index + ": the last edit in place was taken back"));
  EXPECT_EQ(contents(), before);
}

TEST(Undo, JsonSaysWhatAnEditWrites) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  auto edit = [&](std::vector<std::string> words, const std::string& rung, const std::string& part) {
    std::uintmax_t before = fs::file_size(dir.path() / "net.pth");
    words.insert(words.end(), {"--in-place", "--json", "net.pth"});
    ckpt::JsonDocument json = ckpt::JsonDocument::parse(run_well(dir, words));
    EXPECT_EQ(first_file(json).at("rung").as_text(), rung);
    EXPECT_EQ(first_file(json).at("part").as_text(), part);
    if (rung != "append") return;
    EXPECT_EQ(first_file(json).at("bytes_written").as_unsigned(), fs::file_size(dir.path() / "net.pth") - before);
  };
  edit({"strip-prefix", "--dry-run"}, "append", "data.pkl and directory");
  edit({"strip-prefix"}, "append", "data.pkl and directory");
  edit({"cast", "--to", "float16"}, "rewrite", "");
}

TEST(Undo, AnEditThatChangesNothingOfTheFileSaysSo) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  const std::string before = read_file(dir.path() / "net.pth");
  EXPECT_THAT(run_well(dir, {"convert", "--in-place", "net.pth"}), HasSubstr("data.pkl and directory unchanged"));
  EXPECT_EQ(read_file(dir.path() / "net.pth"), before);
}

TEST(Undo, RefusesWhereThereIsNothingToTakeBack) {
  TempDir dir;
  write_model(dir, kFile, {"module.a"});
  write_model(dir, "net.pth", {"module.a"});
  expect_refused(dir, {"undo", kFile}, 4, kFile, "there is no record of an edit in place");
  expect_refused(dir, {"undo", "none.safetensors"}, 4, "none.safetensors", "no such file");
  run_well(dir, {"cast", "--to", "float16", "--in-place", "net.pth"});  // a new file
  expect_refused(dir, {"undo", "net.pth"}, 4, "net.pth", "there is no record of an edit in place");
  run_well(dir, {"strip-prefix", "--in-place", kFile});
  const std::string longer(20'000, 'x');
  run_well(dir, {"add-prefix", "--in-place", "--prefix", longer, kFile});  // copied, as it does not fit
  expect_refused(dir, {"undo", kFile}, 4, kFile, "there is no record of an edit in place");
}

TEST(Undo, AHardLinkIsLeftAloneAndALinkIsFollowedOnlyWhenAsked) {
  TempDir dir;
  write_model(dir, kFile, {"module.a"});
  fs::create_symlink(kFile, dir.path() / "link.safetensors");
  expect_refused(dir, {"strip-prefix", "--in-place", "link.safetensors"}, 2, "link.safetensors", "--follow");
  EXPECT_THAT(run_well(dir, {"strip-prefix", "--in-place", "--follow", "link.safetensors"}),
              HasSubstr("header rewritten in place"));
  expect_refused(dir, {"undo", "link.safetensors"}, 2, "link.safetensors", "--follow");
  run_well(dir, {"undo", "--follow", "link.safetensors"});
  EXPECT_TRUE(fs::is_symlink(dir.path() / "link.safetensors"));
  EXPECT_EQ(names_in(dir.path() / kFile), Names{"module.a"});
  fs::create_hard_link(dir.path() / kFile, dir.path() / "other.safetensors");
  EXPECT_THAT(run_well(dir, {"strip-prefix", "--in-place", "-f", kFile}), HasSubstr("written as safetensors file"));
  EXPECT_EQ(names_in(dir.path() / kFile), Names{"a"});
  EXPECT_EQ(names_in(dir.path() / "other.safetensors"), Names{"module.a"});
}

TEST(Undo, AnInterruptedEditReadsAsBeforeAndGoesWithTheNext) {
  TempDir dir;
  write_model(dir, kFile, {"module.a", "module.b"});
  const std::string before = read_file(dir.path() / kFile);
  run_well(dir, {"strip-prefix", "--in-place", kFile});
  std::string torn = read_file(dir.path() / kFile);
  const std::size_t at = before.find("module.a") + 3;
  torn.replace(0, at, before, 0, at);
  auto interrupt = [&] {
    make_pending(dir.path() / kFile);
    write_file(dir.path() / kFile, torn);
  };
  interrupt();
  Outcome listed = run_ckpt(dir.path(), {"ls", "-q", kFile});
  EXPECT_EQ(listed.out, "module.a\nmodule.b\n") << listed.err;
  EXPECT_THAT(run_ckpt(dir.path(), {"ls", kFile}).err, HasSubstr("'ckpt undo'"));
  EXPECT_EQ(read_file(dir.path() / kFile), torn);
  EXPECT_THAT(run_well(dir, {"strip-prefix", "--in-place", kFile}), HasSubstr("header rewritten in place"));
  EXPECT_EQ(names_in(dir.path() / kFile), (Names{"a", "b"}));
  interrupt();
  std::string examined = run_ckpt(dir.path(), {"doctor"}).out;
  EXPECT_THAT(examined, HasSubstr("an edit goes on or was interrupted, "));
  EXPECT_THAT(examined,
              HasSubstr("the file reads as before; the next edit or 'ckpt undo net.safetensors' takes it back"));
  run_well(dir, {"undo", kFile});
  EXPECT_EQ(read_file(dir.path() / kFile), before);
  EXPECT_EQ(list_folder(dir.path()), Names{kFile});
}

TEST(Undo, WhereTheUserHasNoStateFolderTheRecordLiesBesideTheFileAndThatIsSaid) {
  TempDir dir;
  write_model(dir, kFile, {"module.a"});
  const std::string before = read_file(dir.path() / kFile);
  WithoutStateFolder none;
  Outcome outcome = run_ckpt(dir.path(), {"strip-prefix", "--in-place", kFile});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("what 'ckpt undo' needs lies in a hidden file beside it: the state folder"));
  EXPECT_EQ(list_folder(dir.path()), (Names{".net.safetensors.ckpt-undo", kFile}));
  run_well(dir, {"undo", kFile});
  EXPECT_EQ(read_file(dir.path() / kFile), before);
}

TEST(Doctor, SaysWhichEditsMayBeTakenBack) {
  TempDir dir;
  fs::create_directory(dir.path() / "my runs");
  write_model(dir, "my runs/net.safetensors", {"module.a"});
  auto edits = [&] {
    std::vector<std::string> lines;
    ckpt::JsonDocument said = ckpt::JsonDocument::parse(run_ckpt(dir.path(), {"doctor", "--json", "my runs"}).out);
    for (const auto& line : said.root().at("lines").items()) {
      if (line.at("topic").as_text() != "edits in place") continue;
      std::string advice = line.has("advice") ? " (" + std::string(line.at("advice").as_text()) + ")" : "";
      lines.push_back(std::string(line.at("name").as_text()) + ": " + std::string(line.at("value").as_text()) + advice);
    }
    return lines;
  };
  Names before = edits();
  ASSERT_EQ(before.size(), 8U);
  EXPECT_THAT(before[0], testing::MatchesRegex("editing: header or end rewritten in .* ms, with fsync"));
  EXPECT_EQ(before[2], "undo: the record is kept in the state folder of the user");
  EXPECT_THAT(before[6], HasSubstr("files here: 1 file, all may be edited"));
  EXPECT_THAT(before[7], HasSubstr("records: none"));
  run_well(dir, {"strip-prefix", "--in-place", "my runs/net.safetensors"});
  EXPECT_THAT(edits()[7], testing::MatchesRegex("net.safetensors: the last edit can be taken back, .*B "
                                                "\\('ckpt undo 'my runs/net.safetensors''\\)"));
  fs::create_hard_link(dir.path() / "my runs/net.safetensors", dir.path() / "other");
  EXPECT_THAT(edits()[6], HasSubstr("files here: 0 of 1 file may be edited (the others have several hard links"));
  EXPECT_EQ(list_folder(dir.path() / "my runs"), Names{kFile});
}

TEST(Undo, OfADistributedCheckpointTheMetadataGoBack) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"module.a", "module.b"});
  run_well(dir, {"convert", "net.safetensors", "run.dcp", "--ranks", "2"});
  const std::string before = read_file(dir.path() / "run.dcp" / ".metadata");
  EXPECT_THAT(run_well(dir, {"strip-prefix", "--in-place", "run.dcp"}), HasSubstr(".metadata rewritten in place, "));
  EXPECT_EQ(names_in(dir.path() / "run.dcp"), (Names{"a", "b"}));
  EXPECT_THAT(run_well(dir, {"undo", "run.dcp"}), HasSubstr("the last edit in place was taken back"));
  EXPECT_TRUE(read_file(dir.path() / "run.dcp" / ".metadata") == before);
  run_well(dir, {"undo", "run.dcp"});
  EXPECT_EQ(names_in(dir.path() / "run.dcp"), (Names{"a", "b"}));
  run_well(dir, {"verify", "run.dcp"});
}

}  // namespace

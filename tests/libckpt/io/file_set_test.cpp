#include "libckpt/io/file_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace test::fault;
using ckpt::FileSet;
using test::list_folder;
using test::read_file;
using test::write_file;
using testing::ElementsAre;
using testing::HasSubstr;
using Names = std::vector<std::string>;

std::string index_of(const Names& members) {
  std::string text = "{";
  for (const std::string& name : members) text += "\"" + name + "\",";
  return text + "}";
}

/// Members hold their own names and `content`.
void save(const std::filesystem::path& head, const Names& members, const Names& superseded, const std::string& content,
          FileSet::Options options = {}) {
  FileSet set(head, options);
  set.announce(members, superseded, 100);
  for (const std::string& name : members) {
    set.write_member(name, 0, [&](ckpt::AtomicFile& file) { file.write(core::as_bytes(name + content)); });
  }
  set.commit(core::as_bytes(index_of(members)));
}

TEST(FileSet, ReplacesOneSetByAnother) {
  test::TempDir dir;
  auto head = dir.path() / "m.index.json";
  save(head, {"m-1", "m-2"}, {}, "old");
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("m-1", "m-2", "m.index.json"));
  save(head, {"m-g2-1"}, {"m-1", "m-2"}, "new");
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("m-g2-1", "m.index.json"));
  EXPECT_EQ(read_file(dir.path() / "m-g2-1"), "m-g2-1new");
}

TEST(FileSet, KeepsWhatAnotherIndexMentions) {
  test::TempDir dir;
  auto head = dir.path() / "m.index.json";
  save(head, {"m-1", "m-2"}, {}, "old");
  write_file(dir.path() / "other.index.fp16.json", index_of({"m-2"}));
  save(head, {"n-1"}, {"m-1", "m-2"}, "new");
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("m-2", "m.index.json", "n-1", "other.index.fp16.json"));
}

TEST(FileSet, NeverRemovesWhatIsNoPlainName) {
  test::TempDir dir;
  write_file(dir.path() / "outside", "x");
  std::filesystem::create_directory(dir.path() / "in");
  save(dir.path() / "in" / "m.index.json", {"m-1"}, {"../outside", "a\\b", ".."}, "new");
  EXPECT_EQ(read_file(dir.path() / "outside"), "x");
}

TEST(FileSet, FailureLeavesTheFolderAsItWas) {
  test::TempDir dir;
  auto head = dir.path() / "m.index.json";
  save(head, {"m-1"}, {}, "old");
  {
    FileSet set(head, {});
    set.announce({"n-1", "n-2"}, {"m-1"}, 100);
    set.write_member("n-1", 0, [](ckpt::AtomicFile& file) { file.write(core::as_bytes("x")); });
    EXPECT_THROW(set.write_member("n-2", 0, [](ckpt::AtomicFile&) { throw core::Error(core::ErrorCode::io, "no"); }),
                 core::Error);
  }
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("m-1", "m.index.json"));
}

TEST(FileSet, RefusesTakenNamesAndTooMuch) {
  test::TempDir dir;
  auto head = dir.path() / "m.index.json";
  save(head, {"m-1"}, {}, "old");
  EXPECT_THAT(error_of([&] { save(head, {"m-1"}, {}, "new"); }), HasSubstr("m-1: it already exists"));
  EXPECT_THAT(error_of([&] { save(head, {"n-1"}, {}, "new", {.overwrite = false}); }), HasSubstr("already exists"));
  EXPECT_THAT(error_of([&] { FileSet(head, {}).announce({"n-1"}, {}, 1ULL << 60); }), HasSubstr("no space left"));
  EXPECT_EQ(read_file(dir.path() / "m-1"), "m-1old");
}

TEST(FileSet, MembersLieBesideALinkToTheHead) {
  test::TempDir dir;
  std::filesystem::create_directory(dir.path() / "blobs");
  std::filesystem::create_directory(dir.path() / "snapshot");
  write_file(dir.path() / "blobs" / "head", index_of({"m-1"}));
  write_file(dir.path() / "blobs" / "member", "old");
  std::filesystem::create_symlink("../blobs/head", dir.path() / "snapshot" / "m.index.json");
  std::filesystem::create_symlink("../blobs/member", dir.path() / "snapshot" / "m-1");
  save(dir.path() / "snapshot" / "m.index.json", {"m-g2-1"}, {"m-1"}, "new");
  // A link is no member of ours: whoever put it there takes it away.
  EXPECT_THAT(list_folder(dir.path() / "snapshot"), ElementsAre("m-1", "m-g2-1", "m.index.json"));
  EXPECT_EQ(read_file(dir.path() / "blobs" / "head"), index_of({"m-g2-1"}));
  EXPECT_EQ(read_file(dir.path() / "blobs" / "member"), "old");
}

TEST(FileSet, OneWriterAHead) {
  test::TempDir dir;
  FileSet first(dir.path() / "m.index.json", {});
  EXPECT_THAT(error_of([&] { FileSet second(dir.path() / "m.index.json", {}); }), HasSubstr("is writing this file"));
}

/// What the head says, and whether all of it is there as it was written.
std::string state_of(const std::filesystem::path& folder) {
  std::string index = read_file(folder / "m.index.json");
  bool is_new = index == index_of({"m-g2-1", "m-g2-2"});
  for (const std::string& name : is_new ? Names{"m-g2-1", "m-g2-2"} : Names{"m-1", "m-2", "m-3"}) {
    if (read_file(folder / name) != name + (is_new ? "new" : "old")) return "broken";
  }
  return is_new ? "new" : index == index_of({"m-1", "m-2", "m-3"}) ? "old" : "broken";
}

TEST(FileSet, KilledAtAnyCallTheOldOrTheNewSetIsWholeAndTheNextSaveTidiesUp) {
  int kills = 0;
  int orphans = 0;
  bool seen_new = false;
  for (int at = 0;; ++at) {
    test::TempDir dir;
    auto head = dir.path() / "m.index.json";
    save(head, {"m-1", "m-2", "m-3"}, {}, "old");
    int status = run_child([&] {
      Injection injection(at, 0);
      save(head, {"m-g2-1", "m-g2-2"}, {"m-1", "m-2", "m-3"}, "new");
    });
    if (WIFEXITED(status)) break;
    ++kills;
    std::string state = state_of(dir.path());
    EXPECT_NE(state, "broken") << at;
    EXPECT_TRUE(state == "new" || !seen_new) << at;
    seen_new |= state == "new";
    Names before = list_folder(dir.path());
    save(head, {"m-g3-1"}, state == "new" ? Names{"m-g2-1", "m-g2-2"} : Names{"m-1", "m-2", "m-3"}, "newest");
    // Nothing hidden stays. What had its own name when the process died and is named by no index is nobody's to remove.
    Names left = list_folder(dir.path());
    for (const std::string& name : left) {
      bool orphan = std::find(before.begin(), before.end(), name) != before.end() && name != "m.index.json";
      if (orphan) ++orphans;
      EXPECT_TRUE(!orphan || name.starts_with(state == "new" ? "m-" : "m-g2-")) << at << " " << name;
    }
    EXPECT_NE(left.front()[0], '.') << at;
  }
  EXPECT_EQ(orphans, 5 + 9);  // between the renames of two members and the head, and of three that are superseded
  EXPECT_GT(kills, 20);
  EXPECT_TRUE(seen_new);
}

TEST(FileSet, WhicheverCallFailsTheOldOrTheNewSetIsWhole) {
  for (int at = 0;; ++at) {
    test::TempDir dir;
    auto head = dir.path() / "m.index.json";
    save(head, {"m-1", "m-2", "m-3"}, {}, "old");
    std::string message;
    {
      Injection injection(at, EIO);
      message = error_of([&] { save(head, {"m-g2-1", "m-g2-2"}, {"m-1", "m-2", "m-3"}, "new"); });
      if (!Injection::struck()) break;
    }
    bool in_place = message.find("/m.index.json: the new file is in place") != std::string::npos;
    bool only_tidying = message.empty();
    EXPECT_EQ(state_of(dir.path()), in_place || only_tidying ? "new" : "old") << at << " " << message;
    Names left = list_folder(dir.path());
    bool sure = !in_place && !only_tidying;  // else the old members are kept, and named by left()
    if (!sure) continue;
    EXPECT_THAT(left, ElementsAre("m-1", "m-2", "m-3", "m.index.json")) << at << " " << message;
  }
}

/// A note of what to remove could be written by whoever may write to the folder.
TEST(FileSet, NoFileInTheFolderSaysWhatIsRemoved) {
  test::TempDir dir;
  write_file(dir.path() / "mine", "precious");
  write_file(dir.path() / ".m.index.json.ckpt-set", "mine\n");
  write_file(dir.path() / ".mine.ckpt-lock", "1 host 00000000\n");
  write_file(dir.path() / ".mine.ckpt-tmp-00000000-1-0123456789abcdef", "mine\n");
  save(dir.path() / "m.index.json", {"m-1"}, {}, "new");
  EXPECT_EQ(read_file(dir.path() / "mine"), "precious");
  EXPECT_THAT(list_folder(dir.path()), ElementsAre(".m.index.json.ckpt-set", "m-1", "m.index.json", "mine"));
}

TEST(FileSet, MembersHaveNoNamesBeforeAllAreWritten) {
  test::TempDir dir;
  {
    FileSet set(dir.path() / "m.index.json", {});
    set.announce({"m-1", "m-2"}, {}, 100);
    for (const std::string& name : Names{"m-1", "m-2"}) {
      set.write_member(name, 0, [](ckpt::AtomicFile& file) { file.write(core::as_bytes("x")); });
      for (const std::string& file : list_folder(dir.path())) EXPECT_EQ(file[0], '.') << file;
    }
    set.commit(core::as_bytes(index_of({"m-1", "m-2"})));
  }
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("m-1", "m-2", "m.index.json"));
}

TEST(FileSet, AFileThatTookTheNameOfASupersededOneStays) {
  test::TempDir dir;
  auto head = dir.path() / "m.index.json";
  save(head, {"m-1"}, {}, "old");
  FileSet set(head, {});
  set.announce({"m-2"}, {"m-1"}, 100);
  set.write_member("m-2", 0, [](ckpt::AtomicFile& file) { file.write(core::as_bytes("x")); });
  std::filesystem::rename(dir.path() / "m-1", dir.path() / "kept");
  write_file(dir.path() / "m-1", "of somebody else");
  set.commit(core::as_bytes(index_of({"m-2"})));
  EXPECT_EQ(read_file(dir.path() / "m-1"), "of somebody else");
  EXPECT_THAT(set.left(), ElementsAre("'m-1' (it was replaced by another program)"));
}

int refuse_to_hide_m1(int old_dir, const char* old_name, int new_dir, const char* new_name, unsigned flags) {
  if (std::string(old_name) != "m-1") return ::renameat2(old_dir, old_name, new_dir, new_name, flags);
  errno = EACCES;
  return -1;
}

TEST(FileSet, SupersededFilesThatCannotBeRemovedAreNamed) {
  test::TempDir dir;
  auto head = dir.path() / "m.index.json";
  save(head, {"m-1", "m-2"}, {}, "old");
  ckpt::detail::FileOps ops = ckpt::detail::system_file_ops();
  ops.renameat2 = refuse_to_hide_m1;
  Injection injection(-1, 0, ops);
  FileSet set(head, {});
  set.announce({"m-g2-1"}, {"m-1", "m-2"}, 100);
  set.write_member("m-g2-1", 0, [](ckpt::AtomicFile& file) { file.write(core::as_bytes("x")); });
  set.commit(core::as_bytes(index_of({"m-g2-1"})));
  EXPECT_THAT(set.left(), ElementsAre("'m-1' (it cannot be removed: permission denied)"));
  EXPECT_THAT(list_folder(dir.path()), testing::Contains("m-1"));
  EXPECT_THAT(list_folder(dir.path()), testing::Not(testing::Contains("m-2")));
}

}  // namespace

#include "libckpt/io/leftovers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libckpt/io/draft.h"
#include "libckpt/io/hidden_names.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace test::fault;
using ckpt::Leftover;
using test::list_folder;
using test::read_file;
using test::write_file;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = Leftover::Kind;
using Writer = Leftover::Writer;
namespace fs = std::filesystem;

constexpr uid_t kFirstUser = 12345;
constexpr uid_t kSecondUser = 12346;
constexpr uid_t kThirdUser = 12347;

std::string elsewhere(const std::string& name) {
  return "." + name + ".ckpt-tmp-00000000-1-0123456789abcdef";
}

void save(const fs::path& path, const std::string& text) {
  ckpt::AtomicFile file(path);
  file.write(core::as_bytes(text));
  file.commit();
}

void die_while_saving(const fs::path& path) {
  int status = run_child([&] {
    ckpt::AtomicFile file(path);
    file.write(core::as_bytes("half"));
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
}

/// Runs `body` as another user; its exit status is 0 when it returns true.
int run_as(uid_t user, const std::function<bool()>& body) {
  return run_child([&] {
    if (::setresgid(user, user, user) != 0 || ::setresuid(user, user, user) != 0) ::_exit(8);
    ::_exit(body() ? 0 : 7);
  });
}

TEST(Leftovers, AreListedWithTheirWriters) {
  test::TempDir dir;
  ckpt::AtomicFile alive(dir.path() / "b");
  die_while_saving(dir.path() / "a");
  std::vector<Leftover> found = ckpt::find_leftovers(dir.path());
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].name, ".a.ckpt-lock");
  EXPECT_EQ(found[0].kind, Kind::lock);
  EXPECT_EQ(found[0].writer, Writer::dead);
  EXPECT_EQ(found[1].kind, Kind::temporary);
  EXPECT_EQ(found[1].writer, Writer::dead);
  EXPECT_EQ(found[1].size, 4U);
  EXPECT_TRUE(found[1].is_mine);
  EXPECT_EQ(found[2].writer, Writer::alive);
  EXPECT_EQ(found[3].writer, Writer::alive);
  EXPECT_EQ(ckpt::sweep_leftovers(dir.path()).size(), 2U);
  alive.write(core::as_bytes("b"));
  alive.commit();
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("b"));
}

TEST(Leftovers, FoldersOfSavesThatDidNotEndAreListedAndSwept) {
  test::TempDir dir;
  auto alive = std::make_unique<ckpt::AtomicFolder>(dir.path() / "b", ckpt::AtomicFolder::Options());
  int status = run_child([&] {
    ckpt::AtomicFolder folder(dir.path() / "a", {});
    write_file(folder.hidden() / "__0_0.distcp", "half");
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  std::vector<Leftover> found = ckpt::find_hidden_folders(dir.path());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].kind, Kind::folder);
  EXPECT_EQ(found[0].writer, Writer::dead);
  EXPECT_EQ(found[1].writer, Writer::alive);
  ckpt::sweep_hidden_folders(dir.path());
  found = ckpt::find_hidden_folders(dir.path());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].writer, Writer::alive);
  alive->commit();
  alive.reset();
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("b"));
}

TEST(AtomicFolder, RemovesWhatWasMovedAsideAndNothingElseOfThatName) {
  test::TempDir dir;
  ckpt::AtomicFolder::Options options{.overwrite = true,
                                      .may_replace = [](std::string_view name) { return name == "x"; }};
  auto save_folder = [&] {
    ckpt::AtomicFolder folder(dir.path() / "run", options);
    write_file(folder.hidden() / "x", "1");
    folder.commit();
  };
  save_folder();
  fs::path aside = dir.path() / "run.ckpt-old";
  fs::create_directory(aside);
  write_file(aside / "x", "0");
  write_file(aside / "thesis.txt", "years of work");
  save_folder();
  EXPECT_EQ(read_file(aside / "thesis.txt"), "years of work");
  fs::remove(aside / "thesis.txt");
  save_folder();
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("run"));
}

TEST(AtomicFolder, GetsItsNameWhenItIsWhole) {
  test::TempDir dir;
  {
    ckpt::AtomicFolder dropped(dir.path() / "run", {});
    write_file(dropped.hidden() / "x", "1");
    EXPECT_FALSE(fs::exists(dir.path() / "run"));
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
  ckpt::AtomicFolder::Options options{.overwrite = true,
                                      .may_replace = [](std::string_view name) { return name == "x"; }};
  for (const char* text : {"1", "2"}) {
    ckpt::AtomicFolder folder(dir.path() / "run", options);
    write_file(folder.hidden() / "x", text);
    EXPECT_THAT(error_of([&] { ckpt::AtomicFolder(dir.path() / "run", options); }), HasSubstr("is writing this file"));
    folder.commit();
    EXPECT_EQ(read_file(dir.path() / "run" / "x"), text);
  }
  EXPECT_THAT(error_of([&] { ckpt::AtomicFolder(dir.path() / "run", {}); }), HasSubstr("it already exists"));
  EXPECT_THAT(error_of([&] { ckpt::AtomicFolder(dir.path() / "no" / "run", {}); }),
              HasSubstr("no such file or folder"));
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("run"));
}

TEST(Leftovers, OfAnotherBootOrContainerStayWhileAnybodyWritesHere) {
  test::TempDir dir;
  {
    ckpt::AtomicFile writer(dir.path() / "other");
    write_file(dir.path() / elsewhere("m-1"), "x");
    EXPECT_EQ(ckpt::find_leftovers(dir.path()).at(0).writer, Writer::unknown);
    EXPECT_TRUE(ckpt::sweep_leftovers(dir.path()).empty());
    save(dir.path() / "third", "a save sweeps, too");
    EXPECT_EQ(read_file(dir.path() / elsewhere("m-1")), "x");
  }
  EXPECT_EQ(ckpt::sweep_leftovers(dir.path()).size(), 1U);
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("third"));
}

TEST(Leftovers, OnlyNamesThatOnlyWeMakeGo) {
  test::TempDir dir;
  std::vector<std::string> kept = {"a.ckpt-tmp-00000000-1-0123456789abcdef",
                                   ".a.ckpt-tmp-00000000-1-0123456789abcde",
                                   ".a.ckpt-tmp-00000000-0-0123456789abcdef",
                                   ".a.ckpt-tmp-00000000-x-0123456789abcdef",
                                   ".a.ckpt-tmp-0000000g-1-0123456789abcdef",
                                   ".a.ckpt-tmp-00000000-1-0123456789abcdef.pth",
                                   ".ckpt-lock",
                                   "a.ckpt-lock",
                                   ".a.ckpt-publish-1.pth",
                                   ".a.ckpt-set"};
  for (const std::string& name : kept) write_file(dir.path() / name, "x");
  write_file(dir.path() / ".text.ckpt-lock", "dear diary");
  write_file(dir.path() / "target", "x");
  fs::create_symlink("target", dir.path() / elsewhere("link"));
  fs::create_directory(dir.path() / elsewhere("folder"));
  std::size_t before = list_folder(dir.path()).size();
  save(dir.path() / "a", "new");
  EXPECT_TRUE(ckpt::sweep_leftovers(dir.path()).empty());
  EXPECT_EQ(list_folder(dir.path()).size(), before + 1);
}

TEST(Leftovers, AForgedTemporaryFileRemovesNothingElse) {
  test::TempDir dir;
  write_file(dir.path() / "mine", "precious");
  fs::create_hard_link(dir.path() / "mine", dir.path() / elsewhere("mine"));
  EXPECT_EQ(ckpt::sweep_leftovers(dir.path()).size(), 1U);
  EXPECT_EQ(read_file(dir.path() / "mine"), "precious");
}

/// Taking a lock writes the owner into its file, and letting go removes it.
TEST(Leftovers, AFileUnderTheNameOfALockIsNotWrittenTo) {
  for (const std::string& content : {std::string("precious"), std::string("7"), std::string(1000, '7')}) {
    test::TempDir dir;
    write_file(dir.path() / "mine", content);
    fs::create_hard_link(dir.path() / "mine", dir.path() / ".net.ckpt-lock");
    EXPECT_THAT(error_of([&] { save(dir.path() / "net", "new"); }), HasSubstr("holds something else"));
    EXPECT_TRUE(ckpt::sweep_leftovers(dir.path()).empty());
    EXPECT_EQ(read_file(dir.path() / "mine"), content);
    EXPECT_EQ(list_folder(dir.path()).size(), 2U);
  }
}

TEST(Leftovers, OfAnotherUserStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs two users";
  test::TempDir dir;
  write_file(dir.path() / elsewhere("a"), "x");
  ASSERT_EQ(::chown((dir.path() / elsewhere("a")).c_str(), kFirstUser, kFirstUser), 0);
  EXPECT_TRUE(ckpt::sweep_leftovers(dir.path()).empty());
  EXPECT_FALSE(ckpt::find_leftovers(dir.path()).at(0).is_mine);
}

TEST(Leftovers, LongNamesAreToldToo) {
  std::string name(255, 'n');
  std::string hidden = ckpt::detail::temporary_name(name);
  EXPECT_EQ(hidden.size(), 255U);
  auto owner = ckpt::detail::temporary_owner(hidden);
  ASSERT_TRUE(owner.has_value());
  EXPECT_TRUE(ckpt::detail::is_temporary_for(*owner, name));
  EXPECT_FALSE(ckpt::detail::is_temporary_for(*owner, "m" + name));
  EXPECT_EQ(owner->process, ckpt::detail::TemporaryOwner::Process::alive);
}

TEST(Draft, GetsItsNameOnceItIsDone) {
  test::TempDir dir;
  write_file(dir.path() / "net", "old");
  fs::permissions(dir.path() / "net", fs::perms::owner_read | fs::perms::owner_write);
  {
    ckpt::Draft draft(dir.path() / "net");
    save(draft.path(), "new");
    EXPECT_EQ(read_file(dir.path() / "net"), "old");
    EXPECT_THAT(error_of([&] { draft.move_to(dir.path() / "net", {.overwrite = false}); }),
                HasSubstr("already exists"));
    draft.move_to(dir.path() / "net", {});
  }
  EXPECT_EQ(read_file(dir.path() / "net"), "new");
  EXPECT_EQ(fs::status(dir.path() / "net").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  { ckpt::Draft unused(dir.path() / "net"); }
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("net"));
}

TEST(Draft, EveryFailureIsSaidAndNoneIsSwallowed) {
  bool unknown = false;
  for (int at = 0;; ++at) {
    test::TempDir dir;
    ckpt::Draft draft(dir.path() / "net");
    save(draft.path(), "new");
    Injection injection(at, EIO);
    std::string message = error_of([&] { draft.move_to(dir.path() / "net", {}); });
    if (!Injection::struck()) break;
    EXPECT_FALSE(message.empty()) << at;
    bool in_place = message.find("durability is unknown") != std::string::npos;
    EXPECT_EQ(fs::exists(dir.path() / "net"), in_place) << at << message;
    unknown |= in_place;
  }
  EXPECT_TRUE(unknown);
}

TEST(Draft, OfAKilledProgramIsSweptByTheNextSave) {
  test::TempDir dir;
  int status = run_child([&] {
    ckpt::Draft draft(dir.path() / "net");
    save(draft.path(), "new");
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(list_folder(dir.path()).size(), 2U);
  save(dir.path() / "other", "x");
  EXPECT_THAT(list_folder(dir.path()), ElementsAre("other"));
}

class ForeignLock : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs several users";
    fs::permissions(dir_.path(), fs::perms::all);
  }
  fs::path path() const { return dir_.path() / "net"; }
  void die_as(uid_t user, mode_t mask) {
    int status = run_as(user, [&] {
      ::umask(mask);
      ckpt::AtomicFile file(path());
      return ::raise(SIGKILL) == 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  bool is_refused() const {
    return error_of([&] { save(path(), "late"); }).find("is writing this file") != std::string::npos;
  }
  test::TempDir dir_;
};

TEST_F(ForeignLock, OfADeadWriterDoesNotStopAnother) {
  for (mode_t mask : {022U, 077U}) {
    die_as(kFirstUser, mask);
    EXPECT_EQ(run_as(kSecondUser, [&] { return error_of([&] { save(path(), "new"); }).empty(); }), 0) << mask;
    EXPECT_EQ(read_file(path()), "new");
    EXPECT_FALSE(fs::exists(dir_.path() / ".net.ckpt-lock"));
    ASSERT_TRUE(fs::remove(path()));
  }
}

TEST_F(ForeignLock, OfALivingWriterStopsAnother) {
  EXPECT_EQ(run_as(kFirstUser,
                   [&] {
                     ckpt::AtomicFile file(path());
                     pid_t self = ::getpid();
                     int other = run_child([&] { ::_exit(is_refused() ? 0 : 7); });
                     return self == ::getpid() && other == 0;
                   }),
            0);
  ckpt::AtomicFile file(path());
  EXPECT_EQ(run_as(kSecondUser, [&] { return is_refused(); }), 0);
}

/// The dead writer's file cannot be removed from a sticky folder; it serves as the lock of the others nevertheless.
TEST_F(ForeignLock, IsALockAgainstItsOwnerAndAgainstThirdUsers) {
  die_as(kFirstUser, 022);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 01777), 0);
  pid_t holder = ::fork();
  if (holder == 0) {
    int status = run_as(kSecondUser, [&] {
      ckpt::AtomicFile file(path());
      file.write(core::as_bytes("second"));
      write_file(dir_.path() / "held", "");
      while (!fs::exists(dir_.path() / "tried")) ::usleep(1000);
      file.commit();
      return true;
    });
    ::_exit(status == 0 ? 0 : 7);
  }
  for (int wait = 0; wait < 10'000 && !fs::exists(dir_.path() / "held"); ++wait) ::usleep(1000);
  EXPECT_EQ(run_as(kFirstUser, [&] { return is_refused(); }), 0);
  EXPECT_EQ(run_as(kThirdUser, [&] { return is_refused(); }), 0);
  write_file(dir_.path() / "tried", "");
  int status = 0;
  ::waitpid(holder, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(path()), "second");
}

TEST_F(ForeignLock, ThatNobodyMayReadIsNamedWithItsOwner) {
  write_file(dir_.path() / ".net.ckpt-lock", "");
  ASSERT_EQ(::chown((dir_.path() / ".net.ckpt-lock").c_str(), kFirstUser, kFirstUser), 0);
  fs::permissions(dir_.path() / ".net.ckpt-lock", fs::perms::owner_read);
  EXPECT_EQ(run_as(kSecondUser,
                   [&] {
                     std::string error = error_of([&] { save(path(), "new"); });
                     return error.find("belongs to user 12345; remove it if nobody writes this file") !=
                            std::string::npos;
                   }),
            0);
}

}  // namespace

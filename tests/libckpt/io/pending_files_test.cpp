// A program that is asked to end in the middle of a save and calls remove_pending(): whatever the save is at, the
// folder holds the old files or the new ones, and nothing else.

#include "libckpt/io/pending_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "libckpt/io/file_set.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::detail::FileOps;
using testing::ElementsAre;
using Names = std::vector<std::string>;

constexpr int kEnded = 42;

void end_program(int /*signal*/) {
  ckpt::remove_pending();
  ::_exit(kEnded);
}

int countdown = -1;

/// The system call, with a signal before and behind it that comes when the count is down.
template <auto kCall>
struct Signalled;
template <class Result, class... Arguments, Result (*FileOps::*kCall)(Arguments...)>
struct Signalled<kCall> {
  static Result call(Arguments... arguments) {
    if (countdown-- == 0) ::raise(SIGTERM);
    Result result = (ckpt::detail::system_file_ops().*kCall)(arguments...);
    if (countdown-- == 0) ::raise(SIGTERM);
    return result;
  }
};

FileOps signalled_ops() {
  FileOps ops = ckpt::detail::system_file_ops();
  ops.openat = Signalled<&FileOps::openat>::call;
  ops.pwrite = Signalled<&FileOps::pwrite>::call;
  ops.ftruncate = Signalled<&FileOps::ftruncate>::call;
  ops.fsync = Signalled<&FileOps::fsync>::call;
  ops.close = Signalled<&FileOps::close>::call;
  ops.renameat2 = Signalled<&FileOps::renameat2>::call;
  ops.unlinkat = Signalled<&FileOps::unlinkat>::call;
  ops.set_lock = Signalled<&FileOps::set_lock>::call;
  return ops;
}

void save_file(const std::filesystem::path& path, const std::string& text) {
  ckpt::AtomicFile file(path, {.durable = false});
  file.write(core::as_bytes(text));
  file.commit();
}

std::string index_of(const Names& members) {
  return "{\"" + members[0] + "\":\"" + members[1] + "\"}";
}

void save_set(const std::filesystem::path& head, const Names& members, const Names& old) {
  ckpt::FileSet set(head, {.durable = false});
  set.announce(members, old, 100);
  for (const std::string& member : members) {
    set.write_member(member, 3, [](ckpt::AtomicFile& file) { file.write(core::as_bytes("new")); });
  }
  set.commit(core::as_bytes(index_of(members)));
}

const Names kOld = {"m-1", "m-2"};
const Names kNew = {"m-3", "m-4"};

/// True for the new set.
bool expect_old_or_new_set(const std::filesystem::path& folder) {
  bool is_new = test::read_file(folder / "m.index.json") == index_of(kNew);
  const Names& members = is_new ? kNew : kOld;
  EXPECT_THAT(test::list_folder(folder), ElementsAre(members[0], members[1], "m.index.json"));
  return is_new;
}

bool was_ended(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == kEnded;
}

/// Runs `body` in a child that a signal ends at its call number `at`; false when it has fewer.
bool end_at(int at, const std::function<void()>& body) {
  return was_ended(test::fault::run_child([&] {
    FileOps ops = signalled_ops();
    ckpt::detail::set_file_ops(ops);
    std::signal(SIGTERM, end_program);
    countdown = at;
    body();
  }));
}

}  // namespace

TEST(PendingFiles, ASignalAtAnyCallOfASaveLeavesTheOldOrTheNewFileAlone) {
  int ended = 0;
  for (bool is_new = false; ended < 1000; ++ended) {
    test::TempDir dir;
    save_file(dir.path() / "net.bin", "old");
    bool more = end_at(ended, [&] { save_file(dir.path() / "net.bin", "new"); });
    std::string text = test::read_file(dir.path() / "net.bin");
    EXPECT_TRUE(text == "new" || (text == "old" && !is_new)) << ended;
    is_new = text == "new";
    EXPECT_THAT(test::list_folder(dir.path()), ElementsAre("net.bin")) << ended;
    if (!more) break;
  }
  EXPECT_GT(ended, 10);
}

TEST(PendingFiles, ASignalAtAnyCallOfASetLeavesTheOldOrTheNewSetAlone) {
  int ended = 0;
  for (bool is_new = false; ended < 1000; ++ended) {
    test::TempDir dir;
    save_set(dir.path() / "m.index.json", kOld, {});
    bool more = end_at(ended, [&] { save_set(dir.path() / "m.index.json", kNew, kOld); });
    SCOPED_TRACE(ended);
    bool now_new = expect_old_or_new_set(dir.path());
    EXPECT_TRUE(now_new || !is_new);
    is_new = now_new;
    if (!more) break;
  }
  EXPECT_GT(ended, 40);
}

TEST(PendingFiles, AnEndFromAnotherThreadAtAnyMomentDoesToo) {
  int ended = 0;
  for (int i = 0; i < 150; ++i) {
    test::TempDir dir;
    save_set(dir.path() / "m.index.json", kOld, {});
    ended += was_ended(test::fault::run_child([&] {
      std::thread ender([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(10 * i));
        end_program(0);
      });
      save_set(dir.path() / "m.index.json", kNew, kOld);
      ender.join();
    }));
    SCOPED_TRACE(i);
    expect_old_or_new_set(dir.path());
  }
  EXPECT_EQ(ended, 150);
}

TEST(PendingFiles, WhatIsLetGoOfStays) {
  test::TempDir dir;
  test::write_file(dir.path() / "kept", "");
  test::write_file(dir.path() / "dropped", "");
  std::filesystem::create_directory(dir.path() / "full");
  std::filesystem::create_directory(dir.path() / "empty");
  test::write_file(dir.path() / "full" / "file", "");
  int status = test::fault::run_child([&] {
    auto name = [&](const char* file) { return (dir.path() / file).string(); };
    ckpt::detail::PendingFile kept(AT_FDCWD, name("kept"));
    ckpt::detail::PendingFile dropped(AT_FDCWD, name("dropped"));
    ckpt::detail::PendingFolder full(AT_FDCWD, name("full"));
    ckpt::detail::PendingFolder empty(AT_FDCWD, name("empty"));
    kept.let_go();
    end_program(0);
  });
  EXPECT_TRUE(was_ended(status));
  EXPECT_THAT(test::list_folder(dir.path()), ElementsAre("full", "kept"));
}

// A file that may already be part of a new set is not taken from it.
TEST(PendingFiles, InTheMiddleOfAStepPartsStay) {
  test::TempDir dir;
  test::write_file(dir.path() / "part", "");
  test::write_file(dir.path() / "temporary", "");
  int status = test::fault::run_child([&] {
    ckpt::detail::Step step;
    ckpt::detail::PendingPart part(AT_FDCWD, (dir.path() / "part").string());
    ckpt::detail::PendingFile temporary(AT_FDCWD, (dir.path() / "temporary").string());
    end_program(0);
  });
  EXPECT_TRUE(was_ended(status));
  EXPECT_THAT(test::list_folder(dir.path()), ElementsAre("part"));
}

// Edits in place of shards behind an index: headers alone are written, all of them stand or none, and undo takes them
// back.

#include "libckpt/io/set_edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "libckpt/ckpt.h"
#include "libckpt/format/in_place.h"
#include "libcore/base/error.h"
#include "tests/libckpt/io/fault.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace test::fault;
using ckpt::Checkpoint;
using ckpt::Report;
using ckpt::Value;
using testing::HasSubstr;
using Names = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr const char* kIndex = "m.safetensors.index.json";

std::string shard(int number) {
  return "m-0000" + std::to_string(number) + "-of-00003.safetensors";
}

void save_model(const fs::path& index, char letter = 'a') {
  ckpt::Dict dict;
  for (const char* name : {"module.a", "module.b", "module.c"}) {
    ckpt::Entry entry;
    entry.dtype = core::DType::u8;
    entry.shape = {100};
    entry.bytes = ckpt::memory_source(core::ByteVector(100, static_cast<std::byte>(letter++)));
    dict.items.emplace_back(Value::text(name), Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry))));
  }
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(dict));
  ckpt::save(checkpoint, index, {.durable = false, .shards = 3});
}

/// "module.a=a module.b=b module.c=c": names, and the first byte of each.
std::string seen(const fs::path& index) {
  std::string text;
  for (const ckpt::NamedEntry& tensor : ckpt::list_entries(ckpt::open(index).root)) {
    text += (text.empty() ? "" : " ") + tensor.name + "=";
    text += static_cast<char>(ckpt::read_all(*tensor.entry->bytes).at(0));
  }
  return text;
}

constexpr const char* kOld = "module.a=a module.b=b module.c=c";
constexpr const char* kNew = "a=a b=b c=c";

Report strip(const fs::path& index) {
  Report report;
  ckpt::save(ckpt::strip_prefix(ckpt::open(index)), index, {.in_place = true, .threads = 1, .report = &report});
  return report;
}

Report rename(const fs::path& index, const std::string& from, const std::string& to) {
  Report report;
  Checkpoint checkpoint = ckpt::open(index);
  ckpt::Dict dict = checkpoint.root.as_dict();
  for (auto& item : dict.items) {
    if (item.first.as_text() == from) item.first = Value::text(to);
  }
  checkpoint.root = Value::dict(std::move(dict));
  ckpt::save(checkpoint, index, {.in_place = true, .report = &report});
  return report;
}

using Files = std::map<std::string, std::string>;

Files files_of(const fs::path& folder) {
  Files files;
  for (const std::string& name : test::list_folder(folder)) files[name] = test::read_file(folder / name);
  return files;
}

TEST(SetEdit, WritesHeadersAndTheIndexAndTakesThemBack) {
  test::TempDir dir;
  save_model(dir.path() / kIndex);
  Files before = files_of(dir.path());
  Report report = strip(dir.path() / kIndex);
  EXPECT_EQ(report.rung, "in place");
  EXPECT_EQ(report.part, "headers and index");
  EXPECT_EQ(seen(dir.path() / kIndex), kNew);
  Files after = files_of(dir.path());
  EXPECT_EQ(test::list_folder(dir.path()), (Names{shard(1), shard(2), shard(3), kIndex}));  // the same names
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(after[shard(i)].size(), before[shard(i)].size());
    EXPECT_NE(after[shard(i)], before[shard(i)]);
  }
  EXPECT_EQ(ckpt::undo_edit(dir.path() / kIndex), report.bytes_written - after[kIndex].size() + before[kIndex].size());
  EXPECT_EQ(files_of(dir.path()), before);
  ckpt::undo_edit(dir.path() / kIndex);  // the undoing is an edit as well
  EXPECT_EQ(files_of(dir.path()), after);
}

TEST(SetEdit, LeavesFilesAloneWhoseNamesStay) {
  test::TempDir dir;
  save_model(dir.path() / kIndex);
  fs::file_time_type first = fs::last_write_time(dir.path() / shard(1));
  ::usleep(20'000);
  EXPECT_EQ(rename(dir.path() / kIndex, "module.b", "b").rung, "in place");
  EXPECT_EQ(seen(dir.path() / kIndex), "module.a=a b=b module.c=c");
  EXPECT_EQ(fs::last_write_time(dir.path() / shard(1)), first);
  EXPECT_GT(fs::last_write_time(dir.path() / shard(2)), first);
}

TEST(SetEdit, MetadataAloneIsWrittenInTheIndex) {
  test::TempDir dir;
  save_model(dir.path() / kIndex);
  Files before = files_of(dir.path());
  Report report;
  ckpt::save(ckpt::edit_metadata(ckpt::open(dir.path() / kIndex), {.set = {{"license", "MIT"}}}), dir.path() / kIndex,
             {.in_place = true, .report = &report});
  EXPECT_EQ(report.part, "index");
  EXPECT_EQ(ckpt::open(dir.path() / kIndex).metadata, (decltype(Checkpoint::metadata){{"license", "MIT"}}));
  ckpt::undo_edit(dir.path() / kIndex);
  EXPECT_EQ(files_of(dir.path()), before);
}

/// What one file would refuse, and what only a set has.
TEST(SetEdit, WhereAFileIsNotTheModelsAloneTheSetIsWrittenAnew) {
  const std::vector<std::function<void(const fs::path&)>> obstacles = {
      [](const fs::path& folder) { fs::create_hard_link(folder / shard(2), folder / "other"); },
      [](const fs::path& folder) {
        fs::rename(folder / shard(2), folder / "stored");
        fs::create_symlink("stored", folder / shard(2));
      },
      [](const fs::path& folder) {
        std::string index = R"({"weight_map": {"module.b": ")" + shard(2) + "\"}}";
        test::write_file(folder / "part.safetensors.index.json", index);
      },
  };
  for (std::size_t i = 0; i < obstacles.size(); ++i) {
    SCOPED_TRACE(i);
    test::TempDir dir;
    save_model(dir.path() / kIndex);
    obstacles[i](dir.path());
    std::string before = test::read_file(dir.path() / shard(2));
    EXPECT_EQ(strip(dir.path() / kIndex).rung, "rewrite");
    EXPECT_EQ(seen(dir.path() / kIndex), kNew);
    EXPECT_EQ(test::read_file(dir.path() / (i == 0 ? "other" : i == 1 ? "stored" : shard(2))), before);
  }
}

TEST(SetEdit, IsNotUndoneWhereAnyFileWasChangedSince) {
  for (const std::string& name : {shard(3), std::string(kIndex)}) {
    test::TempDir dir;
    save_model(dir.path() / kIndex);
    strip(dir.path() / kIndex);
    ::usleep(20'000);
    fs::last_write_time(dir.path() / name, fs::file_time_type::clock::now());
    Files after = files_of(dir.path());
    EXPECT_THAT(error_of([&] { ckpt::undo_edit(dir.path() / kIndex); }), HasSubstr("was changed after the last edit"));
    EXPECT_EQ(files_of(dir.path()), after);
  }
}

TEST(SetEdit, KilledAtAnyCallTheSetIsOldOrNewForEveryReader) {
  int at = 0;
  bool old_seen = false;
  for (;; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    test::TempDir dir;
    save_model(dir.path() / kIndex);
    int status = run_child([&] {
      Injection injection(at, 0);
      strip(dir.path() / kIndex);
    });
    if (!WIFSIGNALED(status)) break;
    std::string model = seen(dir.path() / kIndex);
    EXPECT_TRUE(model == kOld || model == kNew) << model;
    old_seen |= model == kOld;
    for (int i = 1; i <= 3; ++i) {  // also one file alone
      std::string alone = seen(dir.path() / shard(i));
      EXPECT_EQ(alone, model == kOld ? "module." + alone.substr(alone.size() - 3) : alone.substr(alone.size() - 3));
    }
    ckpt::EditJournal::settle(dir.path() / kIndex);
    EXPECT_EQ(seen(dir.path() / kIndex), model);
    for (const std::string& name : test::list_folder(dir.path())) EXPECT_FALSE(name.ends_with("-journal")) << name;
    strip(dir.path() / kIndex);
    EXPECT_EQ(seen(dir.path() / kIndex), kNew);
  }
  EXPECT_TRUE(old_seen);
  EXPECT_GT(at, 20);
}

TEST(SetEdit, FailedAtAnyCallTheSetIsAsItWas) {
  int at = 0;
  for (;; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    test::TempDir dir;
    save_model(dir.path() / kIndex);
    Files before = files_of(dir.path());
    std::string said;
    {
      Injection injection(at, EIO);
      said = error_of([&] { strip(dir.path() / kIndex); });
      if (!Injection::struck()) break;
    }
    bool unknown = said.find("durability is unknown") != std::string::npos;
    if (said.empty() || unknown) {
      std::string model = seen(dir.path() / kIndex);
      EXPECT_TRUE(model == kNew || (unknown && model == kOld)) << said;
    } else {
      EXPECT_EQ(files_of(dir.path()), before) << said;
    }
  }
  EXPECT_GT(at, 20);
}

TEST(SetEdit, APendingOneIsNamedAndTakenBackByUndo) {
  test::TempDir dir;
  save_model(dir.path() / kIndex);
  Files before = files_of(dir.path());
  run_child([&] {
    ckpt::detail::FileOps ops = ckpt::detail::system_file_ops();
    ops.renameat2 = [](int, const char*, int, const char*, unsigned) -> int { ::_exit(0); };  // that of the index
    ckpt::detail::set_file_ops(ops);
    strip(dir.path() / kIndex);
  });
  Report report;
  ckpt::open(dir.path() / kIndex, {.report = &report});
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_THAT(report.warnings[0], HasSubstr("'ckpt undo' of the index takes the edit back"));
  EXPECT_GT(ckpt::undo_edit(dir.path() / kIndex), 0U);
  Files now = files_of(dir.path());
  for (const auto& [name, content] : before) EXPECT_EQ(now[name], content) << name;
}

/// Opening never fails and never mixes. Whoever then reads tensors of a file that is edited meanwhile is told, as with
/// any other file.
TEST(SetEdit, AReaderDuringEditsGetsOneModelWhole) {
  test::TempDir dir;
  fs::path index = dir.path() / kIndex;
  save_model(index);
  std::atomic<bool> stop = false;
  std::atomic<int> edits = 0;
  std::string failed;
  std::thread writer([&] {
    failed = error_of([&] {
      for (; !stop; ++edits) edits == 0 ? (void)strip(index) : (void)ckpt::undo_edit(index);
    });
  });
  int readings = 0;
  std::string problem;
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  for (; std::chrono::steady_clock::now() < end && problem.empty(); ++readings) {
    try {
      std::string names;
      for (const ckpt::NamedEntry& tensor : ckpt::list_entries(ckpt::open(index).root)) names += tensor.name + " ";
      if (names != "module.a module.b module.c " && names != "a b c ") problem = names;
    } catch (const core::Error& error) {
      problem = error.what();
    }
  }
  stop = true;
  writer.join();
  EXPECT_EQ(failed, "");
  EXPECT_EQ(problem, "");
  EXPECT_GT(readings, 10);
  EXPECT_GT(edits, 10);
}

}  // namespace

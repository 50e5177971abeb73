// Edits of safetensors files that write the header where it lies.

#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/file_ops.h"
#include "tests/libckpt/format/in_place_save.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/pending_edit.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Checkpoint;
using ckpt::Report;
using test::list_folder;
using test::read_file;
using test::rename_in_place;
using test::with_key;
namespace fs = std::filesystem;

constexpr const char* kName = "net.safetensors";

/// Two tensors, one under that key. Without slack, so that few bytes decide whether a name fits.
void write_net(const fs::path& path, const std::string& key, std::uint64_t slack = 0) {
  ckpt::save(test::checkpoint(test::dict({{key, test::tensor({1, 2, 3})}, {"b", test::tensor({4})}})), path,
             {.slack = slack});
}

std::size_t header_length(const fs::path& path) {
  std::string content = read_file(path);
  return core::load_le<std::uint64_t>(core::as_bytes(content).data());
}

/// Spaces at the end of the header.
std::size_t padding(const fs::path& path) {
  std::string header = read_file(path).substr(8, header_length(path));
  return header.size() - 1 - header.find_last_not_of(' ');
}

TEST(SafetensorsEdit, EveryHeaderThatFitsIsWrittenInPlace) {
  const std::string key = "module.weight";
  for (std::size_t length = 1; length <= key.size() + 16; ++length) {
    test::TempDir dir;
    fs::path path = dir.path() / kName;
    write_net(path, key);
    std::size_t room = key.size() + padding(path);
    std::string before = read_file(path);
    std::string name(length, 'x');
    test::InPlaceSave out = rename_in_place(path, key, name);
    bool fits = length <= room;
    EXPECT_EQ(out.copied, !fits) << length;
    EXPECT_EQ(out.report.rung, fits ? "in place" : "rewrite");
    std::string after = read_file(path);
    Checkpoint read = ckpt::open(path);
    EXPECT_NE(read.root.find(name), nullptr) << length;
    EXPECT_EQ(read.root.find(key), nullptr) << length;
    if (!fits) {
      EXPECT_EQ(list_folder(dir.path()).size(), 1U);
      continue;
    }
    EXPECT_EQ(out.report.bytes_written, header_length(path));
    EXPECT_EQ(after.substr(0, 8), before.substr(0, 8));
    EXPECT_EQ(after.substr(8 + header_length(path)), before.substr(8 + header_length(path)));
    ckpt::EditJournal(path).undo();
    EXPECT_EQ(read_file(path), before) << length;
  }
}

TEST(SafetensorsEdit, ANewFileHasRoomForLongerNames) {
  constexpr std::size_t kBlock = 4096;
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_net(path, "w", kBlock);
  EXPECT_EQ((8 + header_length(path)) % kBlock, 0U);
  EXPECT_GE(padding(path), kBlock);
  EXPECT_FALSE(rename_in_place(path, "w", std::string(1 + kBlock, 'x')).copied);
  std::size_t before = header_length(path);
  test::InPlaceSave out = rename_in_place(path, std::string(1 + kBlock, 'x'), std::string(3 * kBlock, 'y'));
  EXPECT_TRUE(out.copied);  // and finds new room
  EXPECT_EQ((header_length(path) - before) % kBlock, 0U);
  EXPECT_GE(padding(path), kBlock);
}

TEST(SafetensorsEdit, WithoutSlackAFileIsThatOfTheReferenceLibrary) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_net(path, "weight");
  EXPECT_EQ(header_length(path) % 8, 0U);
  EXPECT_LT(padding(path), 8U);
}

TEST(SafetensorsEdit, AnEditInPlaceWritesWhatASaveWrites) {
  test::TempDir dir;
  write_net(dir.path() / kName, "module.weight");
  write_net(dir.path() / "saved.safetensors", "module.weight");
  EXPECT_FALSE(rename_in_place(dir.path() / kName, "module.weight", "weight").copied);
  fs::path other = dir.path() / "saved.safetensors";
  ckpt::save(with_key(ckpt::open(other), "module.weight", "weight"), other);
  EXPECT_EQ(read_file(dir.path() / kName), read_file(other));
}

/// Tensors of so many bytes each, without slack.
void write_many(const fs::path& path, const std::vector<std::size_t>& sizes) {
  ckpt::Dict dict;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ckpt::Entry entry;
    entry.dtype = core::DType::u8;
    entry.shape = {static_cast<std::int64_t>(sizes[i])};
    core::ByteVector bytes(sizes[i]);
    for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = static_cast<std::byte>(at * 7 + i);
    entry.bytes = ckpt::memory_source(std::move(bytes));
    dict.items.emplace_back(ckpt::Value::text("layer." + std::to_string(1000 + i)),
                            ckpt::Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry))));
  }
  ckpt::save(test::checkpoint(ckpt::Value::dict(std::move(dict))), path, {.slack = 0});
}

TEST(SafetensorsEdit, WhereNamesHaveNoRoomTheFirstTensorsMakeIt) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_many(path, std::vector<std::size_t>(100, 1024));
  const std::string before = read_file(path);
  Checkpoint old = ckpt::open(path);
  const std::string prefix = "module.of.a.long.name.";
  test::InPlaceSave out = test::save_in_place(ckpt::add_prefix(old, {.prefix = prefix}), path);
  EXPECT_FALSE(out.copied);
  EXPECT_EQ(out.report.part, "header and first tensors");
  EXPECT_LT(out.report.bytes_written, before.size() / 4);
  Checkpoint now = ckpt::open(path);
  test::write_file(dir.path() / "before.safetensors", before);
  Checkpoint first = ckpt::open(dir.path() / "before.safetensors");
  std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(now.root);
  ASSERT_EQ(entries.size(), 100U);
  for (const ckpt::NamedEntry& tensor : ckpt::list_entries(first.root)) {
    const ckpt::Value* moved = now.root.find(prefix + tensor.name);
    ASSERT_NE(moved, nullptr) << tensor.name;
    EXPECT_EQ(ckpt::read_all(*moved->as_entry().bytes), ckpt::read_all(*tensor.entry->bytes)) << tensor.name;
  }
  EXPECT_TRUE(ckpt::verify(path).damage.empty());
  out = test::save_in_place(ckpt::add_prefix(now, {.prefix = "x"}), path);  // now there is room
  EXPECT_EQ(out.report.part, "header");
  ckpt::undo_edit(path);
  EXPECT_NE(ckpt::open(path).root.find(prefix + "layer.1000"), nullptr);
}

TEST(SafetensorsEdit, TensorsMoveOnlyWhereFewDoAndAllStayAligned) {
  struct Case {
    std::vector<std::size_t> sizes;
    bool copied;
  };
  std::vector<std::size_t> odd(100, 1024);
  odd.back() = 1021;  // what would lie behind it would begin at an odd byte
  std::vector<std::size_t> uneven(100, 1024);
  uneven.front() = 1021;  // the first place where all stay aligned is far behind
  std::vector<std::size_t> large(100, 64);
  large.front() = 4096;  // half of the file
  for (const Case& one : {Case{std::vector<std::size_t>(100, 1024), false}, Case{odd, true}, Case{uneven, true},
                          Case{large, true}, Case{{64, 64}, true}}) {
    test::TempDir dir;
    fs::path path = dir.path() / kName;
    write_many(path, one.sizes);
    const std::string before = read_file(path);
    test::InPlaceSave out = test::save_in_place(ckpt::add_prefix(ckpt::open(path), {.prefix = "longer.names."}), path);
    EXPECT_EQ(out.copied, one.copied) << one.sizes.front() << " " << one.sizes.back();
    EXPECT_NE(ckpt::open(path).root.find("longer.names.layer.1000"), nullptr);
    if (out.copied) continue;
    ckpt::undo_edit(path);
    EXPECT_EQ(read_file(path), before);
  }
}

TEST(SafetensorsEdit, AFileThatIsMoreThanOneIsCopied) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_net(path, "module.weight");
  fs::create_hard_link(path, dir.path() / "other");
  std::string before = read_file(path);
  test::InPlaceSave out = rename_in_place(path, "module.weight", "weight");
  EXPECT_TRUE(out.copied);
  EXPECT_EQ(read_file(dir.path() / "other"), before);
}

TEST(SafetensorsEdit, AnotherTargetIsWrittenWhole) {
  test::TempDir dir;
  write_net(dir.path() / kName, "module.weight");
  std::string before = read_file(dir.path() / kName);
  Report report;
  fs::path other = dir.path() / "other.safetensors";
  ckpt::save(with_key(ckpt::open(dir.path() / kName), "module.weight", "w"), other,
             {.in_place = true, .report = &report});
  EXPECT_EQ(report.rung, "rewrite");
  EXPECT_EQ(read_file(dir.path() / kName), before);
}

TEST(SafetensorsEdit, ALinkLeadsToTheFileThatIsEdited) {
  test::TempDir dir;
  fs::create_directory(dir.path() / "store");
  write_net(dir.path() / "store" / kName, "module.weight");
  fs::create_symlink(fs::path("store") / kName, dir.path() / "link.safetensors");
  EXPECT_FALSE(rename_in_place(dir.path() / "link.safetensors", "module.weight", "weight").copied);
  EXPECT_TRUE(fs::is_symlink(dir.path() / "link.safetensors"));
  EXPECT_EQ(test::list_folder(dir.path() / "store"), std::vector<std::string>{kName});
}

std::uint64_t bytes_written = 0;

TEST(SafetensorsEdit, WritesFarLessThanTheFile) {
  constexpr std::size_t kCount = 1000;
  constexpr std::size_t kFloats = (64U << 20) / sizeof(float) / kCount;
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  ckpt::Dict dict;
  for (std::size_t i = 0; i < kCount; ++i) {
    ckpt::Entry entry = test::float_entry(std::vector<float>(kFloats, static_cast<float>(i)));
    dict.items.emplace_back(ckpt::Value::text("module.layer." + std::to_string(i) + ".weight"),
                            ckpt::Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry))));
  }
  ckpt::save(test::checkpoint(ckpt::Value::dict(std::move(dict))), path, {.durable = false});
  ckpt::detail::FileOps ops = ckpt::detail::system_file_ops();
  ops.pwrite = [](int fd, const void* data, std::size_t size, off_t offset) {
    bytes_written += size;
    return ckpt::detail::system_file_ops().pwrite(fd, data, size, offset);
  };
  ops.copy_file_range = [](int in, off_t* from, int out, off_t* to, std::size_t size, unsigned flags) {
    bytes_written += size;
    return ckpt::detail::system_file_ops().copy_file_range(in, from, out, to, size, flags);
  };
  ckpt::detail::set_file_ops(ops);
  ckpt::save(ckpt::strip_prefix(ckpt::open(path)), path, {.in_place = true});
  ckpt::detail::set_file_ops(ckpt::detail::system_file_ops());
  EXPECT_GT(fs::file_size(path), 63U << 20);
  EXPECT_GT(bytes_written, 0U);
  EXPECT_LT(bytes_written, 1U << 20);
  EXPECT_NE(ckpt::open(path).root.find("layer.7.weight"), nullptr);
}

TEST(SafetensorsEdit, AnInterruptedEditIsReadAsBeforeWithAWarning) {
  test::TempDir dir;
  fs::path path = dir.path() / kName;
  write_net(path, "module.weight");
  std::string before = read_file(path);
  rename_in_place(path, "module.weight", "weight");
  std::string torn = read_file(path);
  std::size_t torn_at = before.find("module.weight") + 3;
  torn.replace(0, torn_at, before, 0, torn_at);
  test::make_pending(path);
  test::write_file(path, torn);
  Report report;
  EXPECT_NE(ckpt::open(path, {.report = &report}).root.find("module.weight"), nullptr);
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_NE(report.warnings[0].find("'ckpt undo'"), std::string::npos);
  EXPECT_EQ(read_file(path), torn);
  // A save copies what is read and takes the record along; so nothing is left of either.
  EXPECT_TRUE(rename_in_place(path, "module.weight", "w").copied);
  EXPECT_EQ(list_folder(dir.path()), std::vector<std::string>{kName});
  EXPECT_NE(ckpt::open(path).root.find("w"), nullptr);
}

}  // namespace

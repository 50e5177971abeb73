// Distributed checkpoints that ckpt writes: what is in the folder, edits that write the metadata alone, and folders
// that are not what they say.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <regex>

#include "libckpt/ckpt.h"
#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/metadata_edit.h"
#include "libckpt/format/dcp/part_writer.h"
#include "libckpt/format/in_place.h"
#include "libckpt/format/spread.h"
#include "libckpt/io/byte_swap.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/transform/prefix.h"
#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using ckpt::Value;
using ckpt::detail::PartCheck;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

Value matrix(const core::Shape& shape, float first) {
  std::vector<float> values(core::try_numel(shape.span()).value());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  ckpt::Entry entry = test::float_entry(values);
  entry.shape = shape;
  return Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry)));
}

ckpt::Checkpoint sample(float first = 0) {
  ckpt::Checkpoint out;
  Value model = test::dict({{"module.fc.weight", matrix({7, 3}, first)},
                            {"module.fc.bias", matrix({3}, first + 50)},
                            {"module.large", matrix({300, 100}, first + 100)},
                            {"module.scale", matrix({}, first + 9)}});
  out.root = test::dict({{"model", model},
                         {"epoch", Value(3)},
                         {"names", Value::list({Value("module.fc.weight"), Value("module.fc.bias")})},
                         {"groups", Value::list({test::dict({{"lr", Value(0.5)}})})},
                         {"state", Value::dict(ckpt::Dict())}});
  return out;
}

class DcpFolder : public testing::Test {
 protected:
  fs::path save(const ckpt::Checkpoint& checkpoint, std::uint32_t ranks, const std::string& name = "run.dcp") {
    ckpt::SaveOptions options;
    options.format = "dcp";
    options.shards = ranks;
    options.durable = false;
    ckpt::save(checkpoint, dir_.path() / name, options);
    return dir_.path() / name;
  }
  std::string open_error(const fs::path& path) {
    return error_of([&] {
      for (const ckpt::NamedEntry& tensor : ckpt::list_entries(ckpt::open(path).root))
        ckpt::read_all(*tensor.entry->bytes);
    });
  }
  static void replace(const fs::path& file, const std::string& from, const std::string& to) {
    std::string text = test::read_file(file);
    std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    test::write_file(file, text.replace(at, from.size(), to));
  }
  test::TempDir dir_;
};

void expect_same(const Value& expected, const Value& actual) {
  auto a = ckpt::list_entries(expected);
  auto b = ckpt::list_entries(actual);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].entry->shape, b[i].entry->shape);
    EXPECT_EQ(ckpt::read_all(*a[i].entry->bytes), ckpt::read_all(*b[i].entry->bytes)) << a[i].name;
  }
  for (const char* name : {"epoch", "names", "groups", "state"})
    EXPECT_EQ(*expected.find(name), *actual.find(name)) << name;
}

TEST_F(DcpFolder, AnyNumberOfRanksIsReadAsTheWhole) {
  for (std::uint32_t ranks : {1U, 2U, 3U, 8U}) {
    fs::path path = save(sample(), ranks, std::to_string(ranks));
    ckpt::Checkpoint read = ckpt::open(path);
    EXPECT_EQ(read.format, "dcp");
    expect_same(sample().root, read.root);
    ckpt::VerifyResult verified = ckpt::verify(path);
    EXPECT_TRUE(verified.damage.empty()) << (verified.damage.empty() ? "" : verified.damage[0].text);
    EXPECT_THAT(verified.method, HasSubstr("128-bit hashes"));
    EXPECT_TRUE(ckpt::scan(path).clean());
    EXPECT_EQ(ckpt::spread_of(read)->parts.size(), ranks);
  }
}

TEST_F(DcpFolder, TensorsAreCutAsShardDoesIt) {
  ckpt::Checkpoint read = ckpt::open(save(sample(), 3));
  std::optional<ckpt::Spread> spread = ckpt::spread_of(read);
  const auto& pieces = spread->of(read.root.find("model")->find("module.fc.weight")->as_entry());
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[1].offsets, (core::Shape{3, 0}));
  EXPECT_EQ(pieces[2].sizes, (core::Shape{1, 3}));
  EXPECT_EQ(spread->whole, 1U);
}

// Readers allow a pickle only so many objects open at once; all places together are many more.
TEST_F(DcpFolder, HundredsOfThousandsOfPiecesAreOpened) {
  ckpt::detail::DcpMetadata metadata;
  for (const char* name : {"w", "v"}) {
    ckpt::detail::DcpItem item;
    item.name = name;
    item.path = {std::string(name)};
    item.is_tensor = true;
    item.shape = {60'000, 1};
    for (std::int64_t row = 0; row < 60'000; ++row) {
      item.chunks.push_back({{row, 0}, {1, 1}, ckpt::detail::DcpPlace{"__0_0.distcp", 64, 1}});
    }
    metadata.items.push_back(std::move(item));
  }
  core::ByteVector bytes = ckpt::detail::encode_dcp_metadata(metadata);
  ckpt::OpenOptions options;
  ckpt::SourcePtr file = ckpt::memory_source(bytes);
  ckpt::detail::DcpMetadata whole =
      ckpt::detail::read_dcp_metadata(ckpt::detail::read_dcp_pickle(*file, options), options);
  EXPECT_EQ(ckpt::detail::encode_dcp_metadata(whole), bytes);
  options.limits.max_pickle_opcodes = 2'000'000;  // what is in a piece does not count
  EXPECT_THROW(ckpt::detail::read_dcp_pickle(*file, options), core::Error);
  ckpt::detail::DcpMetadata read = ckpt::detail::read_dcp_metadata(*file, options);
  EXPECT_EQ(ckpt::detail::encode_dcp_metadata(read), bytes);
  ASSERT_EQ(read.items.size(), 2U);
  EXPECT_EQ(read.items[1].chunks.size(), 60'000U);
  EXPECT_EQ(read.items[1].chunks[59'999].offsets, (core::Shape{59'999, 0}));
}

TEST_F(DcpFolder, AnEditOfKeysWritesTheMetadataAlone) {
  fs::path path = save(sample(), 2);
  std::map<std::string, std::string> before;
  for (const char* name : {"__0_0.distcp", "__1_0.distcp", ".ckpt-parts"}) before[name] = test::read_file(path / name);
  struct stat old {};
  ASSERT_EQ(::stat((path / "__0_0.distcp").c_str(), &old), 0);
  ckpt::Checkpoint plain = ckpt::strip_prefix(ckpt::open(path));
  ckpt::Report report;
  ckpt::save(plain, path / ".metadata", {.in_place = true, .report = &report});
  EXPECT_EQ(report.rung, "in place");
  EXPECT_EQ(report.part, ".metadata");
  for (const auto& [name, bytes] : before) EXPECT_EQ(test::read_file(path / name), bytes) << name;
  struct stat now {};
  ASSERT_EQ(::stat((path / "__0_0.distcp").c_str(), &now), 0);
  EXPECT_EQ(old.st_ino, now.st_ino);
  EXPECT_FALSE(fs::exists(path / "__edit_0.distcp"));
  ckpt::Checkpoint read = ckpt::open(path);
  EXPECT_EQ(ckpt::list_entries(read.root)[0].name, "model.fc.weight");
  expect_same(plain.root, read.root);
  EXPECT_TRUE(ckpt::verify(path).damage.empty());
}

TEST_F(DcpFolder, AnObjectThatChangesGetsAFileOfItsOwn) {
  fs::path path = save(sample(), 2);
  ckpt::Checkpoint edited = ckpt::open(path);
  ckpt::Dict root = edited.root.as_dict();
  for (auto& [key, value] : root.items) {
    if (key.as_text() == "names") value = Value::list({Value("other")});
  }
  edited.root = Value::dict(std::move(root));
  ckpt::save(edited, path / ".metadata", {.in_place = true});
  EXPECT_TRUE(fs::exists(path / "__edit_0.distcp"));
  expect_same(edited.root, ckpt::open(path).root);
  EXPECT_TRUE(ckpt::verify(path).damage.empty());
  // Without our list of parts, as in a folder of PyTorch, what the edit left behind is noted and is no damage.
  fs::remove(path / ".ckpt-parts");
  ckpt::VerifyResult verified = ckpt::verify(path);
  EXPECT_TRUE(verified.damage.empty());
  EXPECT_FALSE(verified.notes.empty());
  ckpt::Checkpoint again = ckpt::open(path);
  root = again.root.as_dict();
  for (auto& [key, value] : root.items) {
    if (key.as_text() == "names") value = Value::list({Value("third")});
  }
  again.root = Value::dict(std::move(root));
  ckpt::save(again, path / ".metadata", {.in_place = true});
  EXPECT_TRUE(fs::exists(path / "__edit_0.distcp")) << "what is put back needs it";
  EXPECT_TRUE(fs::exists(path / "__edit_1.distcp"));
  expect_same(again.root, ckpt::open(path).root);
  EXPECT_GT(ckpt::undo_edit(path / ".metadata"), 0U);
  expect_same(edited.root, ckpt::open(path).root);
  EXPECT_TRUE(ckpt::verify(path).damage.empty());
  EXPECT_GT(ckpt::undo_edit(path / ".metadata"), 0U);
  expect_same(again.root, ckpt::open(path).root);
  // The next edit of the same object needs no file of the one before the last.
  ckpt::Checkpoint last = ckpt::open(path);
  root = last.root.as_dict();
  for (auto& [key, value] : root.items) {
    if (key.as_text() == "names") value = Value::list({Value("fourth")});
  }
  last.root = Value::dict(std::move(root));
  ckpt::save(last, path / ".metadata", {.in_place = true});
  EXPECT_FALSE(fs::exists(path / "__edit_0.distcp"));
  EXPECT_TRUE(fs::exists(path / "__edit_1.distcp"));
  expect_same(last.root, ckpt::open(path).root);
}

TEST_F(DcpFolder, AnEditOfKeysIsTakenBackByteForByte) {
  fs::path path = save(sample(), 2);
  const std::string before = test::read_file(path / ".metadata");
  ckpt::save(ckpt::strip_prefix(ckpt::open(path)), path / ".metadata", {.in_place = true});
  const std::string after = test::read_file(path / ".metadata");
  ASSERT_NE(before, after);
  ckpt::undo_edit(path / ".metadata");
  EXPECT_TRUE(test::read_file(path / ".metadata") == before);
  ckpt::undo_edit(path / ".metadata");
  EXPECT_TRUE(test::read_file(path / ".metadata") == after);
  test::write_file(path / ".metadata", after + " ");
  EXPECT_THROW(ckpt::undo_edit(path / ".metadata"), core::Error);
}

TEST_F(DcpFolder, DeviceTagsAreLeftOutWithAWord) {
  ckpt::Checkpoint checkpoint = sample();
  ckpt::Entry entry = *checkpoint.root.find("model")->find("module.fc.bias")->entry_ptr();
  entry.location = "cuda:1";
  checkpoint.root = test::dict({{"w", Value::tensor(std::make_shared<ckpt::Entry>(entry))}});
  ckpt::Report report;
  ckpt::save(checkpoint, dir_.path() / "run.dcp", {.report = &report});
  EXPECT_THAT(report.warnings, testing::ElementsAre(HasSubstr("device tags have no place")));
}

TEST_F(DcpFolder, OtherValuesWriteTheFolderAnew) {
  fs::path path = save(sample(), 2);
  ckpt::Checkpoint other = ckpt::open(path);
  ckpt::Dict root = other.root.as_dict();
  root.items[0].second = *sample(7).root.find("model");
  other.root = Value::dict(std::move(root));
  ckpt::Report report;
  ckpt::save(other, path / ".metadata", {.in_place = true, .report = &report});
  EXPECT_EQ(report.rung, "rewrite");
  expect_same(other.root, ckpt::open(path).root);
}

TEST_F(DcpFolder, APartOfAnotherSaveIsRefusedByName) {
  fs::path path = save(sample(0), 2);
  ckpt::Checkpoint other = sample(0);
  other.root = test::dict({{"model", *other.root.find("model")},
                           {"epoch", Value(3)},
                           {"names", Value::list({Value("module.fc.weight"), Value("module.fc.bias")})},
                           {"groups", Value::list({test::dict({{"lr", Value(0.5)}})})},
                           {"State", Value::dict(ckpt::Dict())}});
  fs::path second = save(other, 2, "other.dcp");
  ASSERT_EQ(fs::file_size(path / "__1_0.distcp"), fs::file_size(second / "__1_0.distcp"));
  fs::copy_file(second / "__1_0.distcp", path / "__1_0.distcp", fs::copy_options::overwrite_existing);
  EXPECT_THAT(open_error(path), HasSubstr("'__1_0.distcp' is a part of another save than the metadata"));
  EXPECT_THAT(open_error(path), HasSubstr("'model.module."));
}

TEST_F(DcpFolder, SwappedMissingAndCutPartsAreRefusedByName) {
  fs::path path = save(sample(), 2);
  std::string one = test::read_file(path / "__1_0.distcp");
  test::write_file(path / "__1_0.distcp", one.substr(0, one.size() - 1));
  EXPECT_THAT(open_error(path), HasSubstr("the file '__1_0.distcp' has"));
  EXPECT_THAT(open_error(path), HasSubstr("cut off, or a part of another save"));
  fs::remove(path / "__1_0.distcp");
  EXPECT_THAT(open_error(path), HasSubstr("the file '__1_0.distcp' is missing"));
  test::write_file(path / "__1_0.distcp", one);
  fs::remove(path / ".metadata");
  EXPECT_THAT(open_error(path), HasSubstr("whose save never finished"));
}

TEST_F(DcpFolder, AChangedByteIsFoundByVerify) {
  fs::path path = save(sample(), 2);
  std::string bytes = test::read_file(path / "__0_0.distcp");
  bytes[100] = static_cast<char>(bytes[100] ^ 1);  // of the padding behind the head, or of an archive
  test::write_file(path / "__0_0.distcp", bytes);
  bool found = false;
  try {
    for (const ckpt::Finding& finding : ckpt::verify(path).damage) {
      found = found || finding.subject.find("__0_0.distcp") != std::string::npos;
    }
  } catch (const core::Error& error) {
    found = true;
  }
  EXPECT_TRUE(found);
}

// Nothing in it is named by the metadata, so nothing else would open it.
TEST_F(DcpFolder, AChangedByteInAPartWithoutPiecesIsFoundByVerify) {
  ckpt::Checkpoint small;
  small.root = test::dict({{"scale", matrix({}, 9)}});
  fs::path path = save(small, 2);
  std::string bytes = test::read_file(path / "__1_0.distcp");
  bytes.back() = '\1';
  test::write_file(path / "__1_0.distcp", bytes);
  std::vector<ckpt::Finding> damage = ckpt::verify(path).damage;
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_EQ(damage[0].subject, "__1_0.distcp");
}

TEST_F(DcpFolder, AListOfPartsThatLiesIsRefused) {
  fs::path path = save(sample(), 2);
  std::string good = test::read_file(path / ".ckpt-parts");
  replace(path / ".ckpt-parts", "__1_0.distcp", "../x.distcp ");
  EXPECT_THAT(open_error(path), HasSubstr("which is not beside it"));
  test::write_file(path / ".ckpt-parts", good);
  replace(path / ".ckpt-parts", "__1_0.distcp", "__0_0.distcp");
  EXPECT_THAT(open_error(path), HasSubstr("names '__0_0.distcp' twice"));
  replace(path / ".ckpt-parts", "\"parts\": [", "\"parts\": 3, \"more\": [");
  EXPECT_THAT(open_error(path), HasSubstr("its 'parts' is no list"));
  test::write_file(path / ".ckpt-parts", "[1");
  EXPECT_THAT(open_error(path), HasSubstr(".ckpt-parts"));
  // One of another save counts for nothing: PyTorch has written here since, and knows of no such list.
  test::write_file(path / ".ckpt-parts", std::regex_replace(good, std::regex("\"save_id\": \"."), "\"save_id\": \"x"));
  expect_same(sample().root, ckpt::open(path).root);
}

TEST_F(DcpFolder, AnExistingFolderStaysUnlessItIsToBeReplaced) {
  fs::path path = save(sample(0), 2);
  ckpt::SaveOptions options;
  options.overwrite = false;
  EXPECT_THAT(error_of([&] { ckpt::save(sample(5), path, options); }), HasSubstr("it already exists"));
  expect_same(sample(0).root, ckpt::open(path).root);
  ckpt::save(sample(5), path);
  expect_same(sample(5).root, ckpt::open(path).root);
  test::write_file(path / "notes.txt", "mine");
  EXPECT_THAT(error_of([&] { ckpt::save(sample(6), path); }), HasSubstr("holds 'notes.txt', which is no part"));
  EXPECT_EQ(test::read_file(path / "notes.txt"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()), 1) << "something was left";
}

TEST_F(DcpFolder, AFolderThatWasMovedAsideIsFoundAndPutBack) {
  fs::path path = save(sample(0), 2);
  fs::rename(path, path.string() + ".ckpt-old");
  expect_same(sample(0).root, ckpt::open(path).root);
  EXPECT_THAT(error_of([&] { ckpt::save(sample(5), path, {.overwrite = false}); }), HasSubstr("it already exists"));
  EXPECT_TRUE(fs::exists(path / ".metadata"));
}

TEST_F(DcpFolder, WhatItCannotHoldIsSaidBefore) {
  ckpt::Checkpoint lone;
  lone.root = matrix({2}, 0);
  EXPECT_THAT(error_of([&] { save(lone, 1); }), HasSubstr("cannot hold"));
  ckpt::Checkpoint twice;
  twice.root = test::dict({{"a.b", matrix({2}, 0)}, {"a", test::dict({{"b", matrix({2}, 1)}})}});
  EXPECT_THAT(error_of([&] { save(twice, 1); }), HasSubstr("'a.b' (a second item of that dotted name)"));
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

/// A file with these numbers, and their checksum; `damage` changes the last of them.
ckpt::SourcePtr checked_file(const fs::path& path, const std::vector<float>& numbers, char damage = 0) {
  const core::Bytes bytes = std::as_bytes(std::span(numbers));
  std::string text(core::as_text(bytes));
  text.back() = static_cast<char>(text.back() ^ damage);
  test::write_file(path, text);
  return ckpt::checked(ckpt::open_file(path), ckpt::crc32(bytes), {.subject = "it is damaged"});
}

// Between the file and the values stands more than the check: the part is not that of the file.
TEST(ReadBox, OfATransposedTensorAndOfAnotherByteOrder) {
  test::TempDir dir;
  const ckpt::detail::Box box{{1, 1}, {2, 2}};
  const std::vector<float> wanted = {11, 12, 21, 22};
  auto expect_wanted = [&](const ckpt::SourcePtr& bytes) {
    for (auto check : {PartCheck::kept, PartCheck::left_out}) {
      const ckpt::SourcePtr part = ckpt::detail::read_box(bytes, core::DType::f32, {3, 4}, box, check);
      EXPECT_EQ(ckpt::read_all(*part),
                core::ByteVector(std::as_bytes(std::span(wanted)).begin(), std::as_bytes(std::span(wanted)).end()));
      part->require_unchanged();
    }
  };
  const ckpt::SourcePtr columns = checked_file(dir.path() / "a", {0, 10, 20, 1, 11, 21, 2, 12, 22, 3, 13, 23});
  const ckpt::View view{std::make_shared<ckpt::Storage>(ckpt::Storage{core::DType::f32, columns, "cpu"}), 0, {1, 3}};
  expect_wanted(ckpt::gather(view, core::DType::f32, {3, 4}));
  std::vector<float> rows = {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23};
  expect_wanted(checked_file(dir.path() / "b", rows));
  for (float& number : rows) {
    number = std::bit_cast<float>(core::byte_swap(std::bit_cast<std::uint32_t>(number)));
  }
  expect_wanted(ckpt::byte_swapped(checked_file(dir.path() / "c", rows), 4));
}

TEST(ReadBox, WhoWritesTheValuesAgainIsToldOfDamageThatOthersDoNotRead) {
  test::TempDir dir;
  const std::vector<float> rows = {0, 1, 2, 3, 10, 11, 12, 13};
  const ckpt::SourcePtr bytes = checked_file(dir.path() / "a", rows, 1);
  auto read = [&](PartCheck check) {
    const ckpt::SourcePtr part = ckpt::detail::read_box(bytes, core::DType::f32, {2, 4}, {{0, 0}, {1, 4}}, check);
    ckpt::read_all(*part);
    part->require_unchanged();
  };
  EXPECT_EQ(error_of([&] { read(PartCheck::left_out); }), "no error");
  EXPECT_THAT(error_of([&] { read(PartCheck::kept); }), HasSubstr("it is damaged"));
}

TEST(ReadBox, BitsThatArePendingStayPending) {
  ckpt::Entry entry = matrix({2, 4}, 0).as_entry();
  entry.negative = true;
  EXPECT_TRUE(ckpt::detail::boxed_tensor(entry, {{0, 0}, {1, 4}}, PartCheck::kept).as_entry().negative);
}

TEST_F(DcpFolder, OfTwoEditsAtOnceTheSecondIsRefused) {
  fs::path path = save(sample(), 2);
  ckpt::Checkpoint edited = ckpt::open(path);
  std::optional<ckpt::detail::MetadataEdit> late = ckpt::detail::plan_metadata_edit(edited, path);
  ASSERT_TRUE(late.has_value());
  ckpt::save(ckpt::strip_prefix(ckpt::open(path)), path / ".metadata", {.in_place = true});
  const std::string first = test::read_file(path / ".metadata");
  EXPECT_THAT(error_of([&] { ckpt::detail::apply_metadata_edit(edited, *late, path, {}); }),
              HasSubstr("another program wrote the metadata"));
  EXPECT_TRUE(test::read_file(path / ".metadata") == first);
}

TEST_F(DcpFolder, DamageIsNotWrittenAgain) {
  Value weight = matrix({2, 4}, 0);
  auto entry = std::make_shared<ckpt::Entry>(weight.as_entry());
  entry->bytes = checked_file(dir_.path() / "a", {0, 1, 2, 3, 10, 11, 12, 13}, 1);
  ckpt::Checkpoint damaged;
  damaged.root = test::dict({{"weight", Value::tensor(std::move(entry))}});
  EXPECT_THAT(error_of([&] { save(damaged, 2); }), HasSubstr("it is damaged"));
}

}  // namespace

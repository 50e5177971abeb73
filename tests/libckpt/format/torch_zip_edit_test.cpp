// Edits of PyTorch zip files that append a pickle and a directory, and leave all records where they lie.

#include <gmock/gmock.h>

#include "libckpt/ckpt.h"
#include "libckpt/format/torch/value_pickler.h"
#include "libckpt/format/torch_zip/keepable.h"
#include "libckpt/format/unused_space.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/zip.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/map_location.h"
#include "tests/libckpt/format/deflated.h"
#include "tests/libckpt/format/in_place_save.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/libckpt/format/zip_maker.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Checkpoint;
using ckpt::Dict;
using ckpt::Value;
using ckpt::ZipArchive;
using core::DType;
using test::read_file;
using test::write_file;
using testing::Contains;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TorchZipEdit : public testing::Test {
 protected:
  fs::path path(const char* name = "net.pth") const { return dir_.path() / name; }

  /// A wrapped model with a tied pair, views of one storage, a tensor without elements, and plain values beside it.
  static Checkpoint net() {
    auto tied = test::tensor(DType::f32, {3, 4}, 1);
    auto storage = test::storage(DType::f32, test::noise(48, 3));
    Dict model = test::dict({{"module.fc.weight", tied},
                             {"module.fc.bias", test::tensor(DType::f32, {4}, 2)},
                             {"module.turned", test::view(storage, DType::f32, {4, 3}, 0, {1, 4})},
                             {"module.row", test::view(storage, DType::f32, {3}, 3, {1})},
                             {"module.none", test::tensor(DType::i64, {0, 2}, 4)},
                             {"module.tied", tied}})
                     .as_dict();
    model.type = "collections.OrderedDict";
    model.attributes =
        test::dict({{"_metadata", test::dict({{"module.fc", test::dict({{"version", Value::integer(2)}})}})}});
    return test::checkpoint({{"model", Value::dict(std::move(model))}, {"epoch", Value::integer(7)}});
  }
  void write_net() const { ckpt::save(net(), path()); }

  static Checkpoint stripped(const fs::path& file, const ckpt::OpenOptions& options = {}) {
    return ckpt::strip_prefix(ckpt::open(file, options));
  }
  test::InPlaceSave save_over(const Checkpoint& edited, const ckpt::SaveOptions& options = {}) const {
    return test::save_in_place(edited, path(), options);
  }

  static std::string record(const fs::path& file, std::string_view name) {
    ZipArchive zip = ZipArchive::open(ckpt::open_file(file));
    std::string root = zip.members()[0].name.substr(0, zip.members()[0].name.find('/') + 1);
    return std::string(core::as_text(ckpt::read_all(*zip.payload(*zip.find(root + std::string(name))))));
  }

  /// The file is good, and holds what a save to another name holds.
  void expect_as_saved(const Checkpoint& saved) const {
    for (const ckpt::Finding& finding : ckpt::verify(path()).damage) ADD_FAILURE() << finding.text;
    ckpt::save(saved, path("saved.pth"), {.durable = false});
    EXPECT_EQ(test::difference(ckpt::open(path()).root, ckpt::open(path("saved.pth")).root), "");
    ckpt::save(ckpt::open(path()), path("again.pth"), {.durable = false});
    EXPECT_TRUE(read_file(path("again.pth")) == read_file(path("saved.pth")));
  }

  /// An archive around a pickle of the tree whose storages have these keys, in order; `order` is that of the records.
  void write_archive(const Value& root, const std::vector<std::string>& keys, const std::vector<std::string>& records) {
    ckpt::PickledTree tree = ckpt::pickle_tree(root, [&](const ckpt::ByteSource&, std::size_t i) { return keys[i]; });
    std::vector<ckpt::ZipItem> items = {{"old/data.pkl", ckpt::memory_source(tree.pickle)}};
    for (const std::string& name : records) {
      auto key = std::ranges::find(keys, name);
      bool storage = key != keys.end();
      items.push_back({"old/" + (storage ? "data/" + name : name),
                       storage ? tree.storages[static_cast<std::size_t>(key - keys.begin())]
                               : ckpt::memory_source({core::as_bytes("1").begin(), core::as_bytes("1").end()})});
    }
    ckpt::AtomicFile file(path());
    ckpt::ZipWriter(std::move(items)).write(file);
    file.commit();
  }

  /// The edit is made by a whole new file, which has the same content.
  void expect_written_whole(const Checkpoint& edited, const std::string& why) {
    EXPECT_FALSE(ckpt::plan_in_place(edited, path(), {.in_place = true})) << why;
    test::InPlaceSave out = save_over(edited);
    EXPECT_TRUE(out.copied) << why;
    EXPECT_EQ(out.report.rung, "rewrite") << why;
    EXPECT_TRUE(ckpt::verify(path()).damage.empty()) << why;
    EXPECT_EQ(ckpt::unused_space(ckpt::open(path())), 0U) << why;
  }

  test::TempDir dir_;
};

TEST_F(TorchZipEdit, AppendsWhatASaveWritesAndMovesNoByte) {
  write_net();
  const std::string before = read_file(path());
  Checkpoint edited = stripped(path());
  test::InPlaceSave out = save_over(edited);
  EXPECT_FALSE(out.copied);
  EXPECT_TRUE(out.announced);
  EXPECT_EQ(out.report.rung, "append");
  EXPECT_EQ(out.report.part, "data.pkl and directory");
  const std::string after = read_file(path());
  EXPECT_TRUE(after.starts_with(before));
  EXPECT_EQ(out.report.bytes_written, after.size() - before.size());
  expect_as_saved(ckpt::strip_prefix(net()));
  EXPECT_EQ(record(path(), "data.pkl"), record(path("saved.pth"), "data.pkl"));
  EXPECT_NE(ckpt::open(path()).root.find("model")->find("fc.weight"), nullptr);
  ckpt::undo_edit(path());
  EXPECT_TRUE(read_file(path()) == before);
  ckpt::undo_edit(path());
  EXPECT_TRUE(read_file(path()) == after);
}

TEST_F(TorchZipEdit, IsRepeatedAndWrittenAfreshLosesWhatWasReplaced) {
  write_net();
  const std::string first = read_file(path());
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(save_over(stripped(path())).copied);
    expect_as_saved(ckpt::strip_prefix(net()));
    EXPECT_FALSE(save_over(ckpt::add_prefix(ckpt::open(path()), {.at = "model"})).copied);
    expect_as_saved(net());
  }
  const std::string edited = read_file(path());
  EXPECT_TRUE(edited.starts_with(first));
  std::uint64_t dead = 0;
  const ZipArchive zip = ZipArchive::open(ckpt::open_file(path()));
  for (const ckpt::ZipDeadRange& range : zip.dead_ranges()) dead += range.length;
  EXPECT_EQ(ckpt::unused_space(ckpt::open(path())), dead);
  EXPECT_GT(dead, (edited.size() - first.size()) / 2);
  ckpt::VerifyResult verified = ckpt::verify(path());
  ASSERT_EQ(verified.notes.size(), 1U);
  EXPECT_THAT(verified.notes[0].text, HasSubstr("'ckpt compact' frees them"));
  Checkpoint afresh = ckpt::open(path());
  afresh.detail = nullptr;
  save_over(afresh);
  EXPECT_TRUE(read_file(path()) == first);
}

/// What was appended can be told from the file, so nothing lies beside it.
TEST_F(TorchZipEdit, LeavesNoRecordAndIsCutOffAllTheSame) {
  write_net();
  const std::string first = read_file(path());
  save_over(stripped(path()));
  const std::string second = read_file(path());
  save_over(ckpt::add_prefix(ckpt::open(path()), {.at = "model"}));
  EXPECT_EQ(test::list_folder(dir_.path()).size(), 1U);
  fs::rename(path(), dir_.path() / "moved.pth");
  ckpt::undo_edit(dir_.path() / "moved.pth");
  EXPECT_TRUE(read_file(dir_.path() / "moved.pth") == second);
  fs::remove_all(fs::path(std::getenv("XDG_STATE_HOME")) / "ckpt");  // as on another machine
  ckpt::undo_edit(dir_.path() / "moved.pth");
  EXPECT_TRUE(read_file(dir_.path() / "moved.pth") == first);
}

TEST_F(TorchZipEdit, AFileThatWasNotAppendedToHasNothingToCutOff) {
  write_net();
  const std::string before = read_file(path());
  EXPECT_THROW(ckpt::undo_edit(path()), core::Error);
  EXPECT_TRUE(read_file(path()) == before);
}

TEST_F(TorchZipEdit, WithoutAChangeNothingIsWritten) {
  write_net();
  const std::string before = read_file(path());
  test::InPlaceSave out = save_over(ckpt::open(path()));
  EXPECT_FALSE(out.copied);
  EXPECT_EQ(out.report.bytes_written, 0U);
  EXPECT_TRUE(read_file(path()) == before);
  EXPECT_EQ(test::list_folder(dir_.path()).size(), 1U);
}

TEST_F(TorchZipEdit, ValuesAndTagsAreEditedToo) {
  write_net();
  EXPECT_FALSE(save_over(ckpt::map_location(ckpt::open(path()), {.to = "cuda:1"})).copied);
  for (const ckpt::NamedEntry& named : ckpt::list_entries(ckpt::open(path()).root)) {
    EXPECT_EQ(named.entry->location, "cuda:1");
  }
  Checkpoint later = ckpt::open(path());
  Dict top = later.root.as_dict();
  top.items[1].second = Value::integer(8);
  later.root = Value::dict(std::move(top));
  EXPECT_FALSE(save_over(later).copied);
  EXPECT_EQ(ckpt::open(path()).root.find("epoch")->as_integer(), 8);
}

TEST_F(TorchZipEdit, MetadataIsLeftOutWithAWarning) {
  write_net();
  Checkpoint edited = stripped(path());
  edited.metadata = {{"license", "MIT"}};
  test::InPlaceSave out = save_over(edited);
  EXPECT_FALSE(out.copied);
  EXPECT_THAT(out.report.warnings, Contains(HasSubstr("metadata has no place")));
}

TEST_F(TorchZipEdit, StoragesKeepTheKeysThatTheirRecordsHave) {
  const std::vector<std::string> keys = {"94", "cpu_7", "100", "5"};
  write_archive(net().root, keys, {"100", "5", "94", "cpu_7", "version"});
  EXPECT_FALSE(save_over(stripped(path())).copied);
  EXPECT_EQ(record(path(), "data.pkl"),
            core::as_text(ckpt::pickle_tree(ckpt::strip_prefix(net()).root, [&](auto&, std::size_t i) {
                            return keys[i];
                          }).pickle));
  expect_as_saved(ckpt::strip_prefix(net()));
}

TEST_F(TorchZipEdit, WherePyTorchMayComputeOffsetsTheOrderOfTheStoragesStays) {
  const std::vector<std::string> keys = {"0", "1", "2", "3"};
  write_archive(net().root, keys, {".format_version", "0", "1", "2", "3", "version"});
  EXPECT_FALSE(save_over(stripped(path())).copied);
  auto turn_round = [](Checkpoint checkpoint) {
    Dict top = checkpoint.root.as_dict();
    Dict model = top.items[0].second.as_dict();
    std::reverse(model.items.begin(), model.items.end());
    top.items[0].second = Value::dict(std::move(model));
    checkpoint.root = Value::dict(std::move(top));
    return checkpoint;
  };
  expect_written_whole(turn_round(ckpt::open(path())), "another order");
  write_archive(net().root, keys, {"0", "1", "2", "3", "version"});
  EXPECT_FALSE(save_over(turn_round(ckpt::open(path()))).copied);
  expect_as_saved(turn_round(net()));
}

/// The bytes of the storage that a tensor of the model looks into.
ckpt::SourcePtr storage_bytes(const Checkpoint& checkpoint, std::string_view key) {
  return checkpoint.root.find("model")->find(key)->as_entry().view->storage->bytes;
}

/// With a storage of its own over these bytes for the bias.
Checkpoint with_bias(const Checkpoint& checkpoint, const ckpt::SourcePtr& bytes) {
  Checkpoint out = checkpoint;
  Dict top = out.root.as_dict();
  Dict model = top.items[0].second.as_dict();
  ckpt::Entry bias = model.items[1].second.as_entry();
  auto storage = std::make_shared<ckpt::Storage>(*bias.view->storage);
  storage->bytes = bytes;
  bias.shape = core::Shape{static_cast<std::int64_t>(bytes->size() / sizeof(float))};
  bias.view = ckpt::View{storage, 0, {1}};
  bias.bytes = ckpt::gather(*bias.view, bias.dtype, bias.shape);
  model.items[1].second = Value::tensor(std::make_shared<ckpt::Entry>(std::move(bias)));
  top.items[0].second = Value::dict(std::move(model));
  out.root = Value::dict(std::move(top));
  return out;
}

TEST_F(TorchZipEdit, OtherTensorsAreWrittenWithTheFile) {
  write_net();
  expect_written_whole(ckpt::cast(ckpt::open(path()), {.to = DType::f16}), "cast");
  write_net();
  Checkpoint fewer = ckpt::open(path());
  fewer.root = ckpt::select(fewer, {.exclude = {"*.bias"}}).root;
  expect_written_whole(fewer, "a tensor less");
  write_net();
  Checkpoint more = ckpt::open(path());
  Dict top = more.root.as_dict();
  top.items.emplace_back(Value::text("new"), test::tensor(DType::f32, {2}, 9));
  more.root = Value::dict(Dict(top));
  expect_written_whole(more, "a tensor more");
  write_net();
  Checkpoint read = ckpt::open(path());
  expect_written_whole(with_bias(read, storage_bytes(read, "module.fc.weight")), "one record twice, another never");
  write_net();
  read = ckpt::open(path());
  expect_written_whole(with_bias(read, ckpt::slice(storage_bytes(read, "module.fc.bias"), 0, 8)), "half of a record");
  write_net();
  fs::copy_file(path(), path("other.pth"));
  Checkpoint other = stripped(path("other.pth"));
  other.detail = ckpt::open(path()).detail;
  expect_written_whole(other, "the bytes of another file");
}

TEST_F(TorchZipEdit, ArchivesThatASaveWouldMendAreWrittenWhole) {
  write_net();
  const std::string good = read_file(path());
  write_file(path(), good + "junk");
  expect_written_whole(stripped(path(), {.lenient = true}), "bytes behind the end");
  std::string commented = good;
  commented.replace(good.size() - 2, 2, std::string("\x05\0", 2) + "hello");
  write_file(path(), commented);
  expect_written_whole(stripped(path()), "a comment");
  write_archive(net().root, {"0", "1", "2", "3"}, {"0", "1", "2", "3", "version", "note"});
  expect_written_whole(stripped(path()), "a record that is not read");
  ckpt::PickledTree tree = ckpt::pickle_tree(net().root);
  auto torch_zip = [&] {
    std::vector<std::string> storages;
    for (const ckpt::SourcePtr& storage : tree.storages) storages.emplace_back(core::as_text(ckpt::read_all(*storage)));
    return test::torch_zip(std::string(core::as_text(tree.pickle)), storages);
  };
  write_file(path(), torch_zip().bytes());
  EXPECT_FALSE(save_over(stripped(path())).copied) << "sizes in the local headers, no descriptors";
  expect_as_saved(ckpt::strip_prefix(net()));
  test::ZipSpec odd = torch_zip();
  odd.add("x/data/", "");
  write_file(path(), odd.bytes());
  expect_written_whole(stripped(path()), "a folder");
  odd = torch_zip();
  for (test::ZipSpecMember& member : odd.members) member.crc_xor = 1;
  write_file(path(), odd.bytes());
  expect_written_whole(stripped(path()), "no checksums");
  odd = torch_zip();
  odd.members.back().deflated = test::deflated(odd.members.back().content, test::DeflateForm::zip);
  write_file(path(), odd.bytes());
  expect_written_whole(stripped(path()), "a record that is compressed");
  const Value bytes = test::dict({{"module.a", test::tensor(DType::u8, {3})}});
  odd = test::torch_zip(std::string(core::as_text(ckpt::pickle_tree(bytes).pickle)), {"abc"});
  odd.add("x/byteorder", "big");
  write_file(path(), odd.bytes());
  expect_written_whole(stripped(path()), "big endian, though no byte has to be turned round");
  odd = torch_zip();
  odd.members[0].crc_xor = 1;
  write_file(path(), odd.bytes());
  expect_written_whole(stripped(path(), {.lenient = true}), "a pickle that is not what was written");
}

TEST_F(TorchZipEdit, AFileOfWhichMostIsReplacedIsWrittenWhole) {
  const Value note = Value::text(std::string(600'000, 'x'));
  ckpt::save(test::checkpoint({{"model", net().root}, {"note", note}}), path());
  const std::uint64_t size = fs::file_size(path());
  int appended = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    Checkpoint edited = ckpt::open(path());
    Dict top = edited.root.as_dict();
    top.items.emplace_back(Value::text("step"), Value::integer(i));
    edited.root = Value::dict(std::move(top));
    appended += save_over(edited).copied ? 0 : 1;
    EXPECT_LT(fs::file_size(path()), 4 * size);
    EXPECT_TRUE(ckpt::verify(path()).damage.empty());
    Checkpoint read = ckpt::open(path());
    EXPECT_EQ(read.root.as_dict().items.back().second.as_integer(), i);
  }
  EXPECT_GT(appended, 8);
  EXPECT_LT(appended, 20);
}

TEST_F(TorchZipEdit, DirectoriesThatContradictTheFileAreRefusedAsBefore) {
  write_net();
  save_over(stripped(path()));
  const std::string edited = read_file(path());
  auto expect_refused = [&](std::string bytes, const char* why) {
    write_file(path(), bytes);
    EXPECT_THROW(ckpt::open(path()), core::Error) << why;
    EXPECT_TRUE(read_file(path()) == bytes) << why;
  };
  const std::size_t directory = edited.rfind("PK\x01\x02");  // the last entry, of the record "version"
  std::string moved = edited;
  moved[directory + 42] = static_cast<char>(moved[directory + 42] ^ 1);
  expect_refused(moved, "an entry that points elsewhere");
  std::string renamed = edited;
  renamed[renamed.rfind("data/1") + 5] = '9';
  expect_refused(renamed, "an entry of another name");
  expect_refused(edited.substr(0, edited.size() - 1), "the new end is cut");
  expect_refused("junk" + edited, "bytes in front");
}

TEST_F(TorchZipEdit, AFileThatAnotherProgramChangedIsLeftAlone) {
  write_net();
  Checkpoint edited = stripped(path());
  fs::last_write_time(path(), fs::last_write_time(path()) - std::chrono::hours(1));
  std::string other = read_file(path());
  EXPECT_THROW(save_over(edited), core::Error);
  EXPECT_TRUE(read_file(path()) == other);
}

}  // namespace

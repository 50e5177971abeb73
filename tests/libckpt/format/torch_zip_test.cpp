#include <gmock/gmock.h>

#include "libckpt/ckpt.h"
#include "libckpt/format/torch/value_pickler.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/zip.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/pickle_samples.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using ckpt::Checkpoint;
using ckpt::Dict;
using ckpt::Entry;
using ckpt::EntryPtr;
using ckpt::OpenOptions;
using ckpt::Report;
using ckpt::SaveOptions;
using ckpt::Value;
using core::DType;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ckpt::SourcePtr numbers(std::initializer_list<float> values) {
  core::ByteVector bytes;
  for (float v : values) core::append_le(bytes, v);
  return ckpt::memory_source(std::move(bytes));
}

Entry entry_of(ckpt::SourcePtr bytes, core::Shape shape, DType dtype = DType::f32) {
  Entry entry;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  entry.bytes = std::move(bytes);
  return entry;
}

Value tensor(Entry entry) {
  return Value::tensor(std::make_shared<const Entry>(std::move(entry)));
}

Checkpoint checkpoint_of(std::vector<std::pair<std::string, Value>> items) {
  Dict dict;
  for (auto& [name, value] : items) dict.items.emplace_back(Value::text(name), std::move(value));
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(dict));
  return checkpoint;
}

SaveOptions quick(Report* report = nullptr) {
  SaveOptions options;
  options.format = "torch-zip";
  options.durable = false;
  options.report = report;
  return options;
}

const Entry& at(const Checkpoint& checkpoint, std::string_view name) {
  return ckpt::value_at(checkpoint.root, name).as_entry();
}

class TorchZip : public ::testing::Test {
 protected:
  std::filesystem::path path(const char* name = "a.pth") const { return dir_.path() / name; }

  Checkpoint saved(const Checkpoint& checkpoint) {
    ckpt::save(checkpoint, path(), quick());
    return ckpt::open(path());
  }

  /// An archive of these records, in this order.
  void write_archive(std::vector<std::pair<std::string, std::string>> records) {
    std::vector<ckpt::ZipItem> items;
    for (auto& [name, content] : records) items.push_back({name, ckpt::memory_source(test::from_text(content))});
    ckpt::AtomicFile file(path());
    ckpt::ZipWriter(std::move(items)).write(file);
    file.commit();
  }

  /// An archive around a pickle with one storage of `payload`.
  void write_torch(std::string_view pickle, std::string_view payload, std::string_view byte_order = "little") {
    write_archive({{"x/data.pkl", std::string(pickle)},
                   {"x/byteorder", std::string(byte_order)},
                   {"x/data/0", std::string(payload)},
                   {"x/version", "3\n"}});
  }

  core::Error open_error(const OpenOptions& options = {}) {
    try {
      ckpt::open(path(), options);
    } catch (const core::Error& error) {
      return error;
    }
    return {core::ErrorCode::internal, ""};
  }

  test::TempDir dir_;
};

/// {'w': tensor of two elements} over storage "0" of `storage_class`, on the CPU.
std::string pickle_with(std::string_view storage_class) {
  std::string out = "\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n"s;
  out += storage_class;
  out +=
      "\nX\x01\0\0\0"
      "0X\x03\0\0\0"
      "cpuK\x02tQK\0K\x02\x85K\x01\x85\x89"
      "ccollections\nOrderedDict\n)RtRs."s;
  return out;
}

TEST_F(TorchZip, TensorsFromMemoryComeBack) {
  Entry entry = entry_of(numbers({1, 2, 3, 4, 5, 6}), {2, 3});
  entry.location = "cuda:1";
  entry.parameter = true;
  entry.requires_grad = true;
  Checkpoint back = saved(checkpoint_of({{"w", tensor(entry)}, {"epoch", Value::integer(3)}}));
  const Entry& w = at(back, "w");
  EXPECT_EQ(w.shape, (core::Shape{2, 3}));
  EXPECT_EQ(w.location, "cuda:1");
  EXPECT_TRUE(w.parameter);
  EXPECT_TRUE(w.requires_grad);
  EXPECT_EQ(ckpt::read_all(*w.bytes), ckpt::read_all(*entry.bytes));
  EXPECT_EQ(ckpt::value_at(back.root, "epoch"), Value::integer(3));
}

TEST_F(TorchZip, TheNameOfTheFileDoesNotChangeItsBytes) {
  Checkpoint checkpoint = checkpoint_of({{"w", tensor(entry_of(numbers({1, 2}), {2}))}});
  ckpt::save(checkpoint, path("a.pth"), quick());
  ckpt::save(checkpoint, path("b.pt"), quick());
  EXPECT_EQ(test::read_file(path("a.pth")), test::read_file(path("b.pt")));
}

TEST_F(TorchZip, EqualBytesAreNotTiedButSharedOnesAre) {
  ckpt::SourcePtr shared = numbers({1, 2});
  Checkpoint back = saved(checkpoint_of({{"a", tensor(entry_of(shared, {2}))},
                                         {"b", tensor(entry_of(shared, {2}))},
                                         {"c", tensor(entry_of(numbers({1, 2}), {2}))}}));
  EXPECT_EQ(ckpt::storage_identity(at(back, "a")), ckpt::storage_identity(at(back, "b")));
  EXPECT_NE(ckpt::storage_identity(at(back, "a")), ckpt::storage_identity(at(back, "c")));
}

TEST_F(TorchZip, AViewKeepsItsWholeStorage) {
  auto storage = std::make_shared<ckpt::Storage>();
  storage->dtype = DType::f32;
  storage->bytes = numbers({0, 1, 2, 3, 4, 5, 6, 7});
  Entry entry;
  entry.shape = {2, 2};
  entry.view = ckpt::View{storage, 1, {1, 3}};
  entry.bytes = ckpt::gather(*entry.view, DType::f32, entry.shape);
  Checkpoint back = saved(checkpoint_of({{"w", tensor(entry)}}));
  const Entry& w = at(back, "w");
  EXPECT_EQ(w.view->offset, 1);
  EXPECT_EQ(w.view->strides, (core::Shape{1, 3}));
  EXPECT_EQ(w.view->storage->bytes->size(), 32U);
  EXPECT_EQ(ckpt::read_all(*w.bytes), ckpt::read_all(*numbers({1, 4, 2, 5})));
}

TEST_F(TorchZip, OneStorageMayHoldTwoTypes) {
  auto storage = std::make_shared<ckpt::Storage>();
  storage->bytes = numbers({1, 2});
  auto view = [&](DType dtype, std::int64_t count) {
    Entry entry;
    entry.dtype = dtype;
    entry.shape = {count};
    entry.view = ckpt::View{storage, 0, {1}};
    entry.bytes = ckpt::gather(*entry.view, dtype, entry.shape);
    return tensor(entry);
  };
  Checkpoint back = saved(checkpoint_of({{"f", view(DType::f32, 2)}, {"i", view(DType::i16, 4)}}));
  EXPECT_EQ(at(back, "f").dtype, DType::f32);
  EXPECT_EQ(at(back, "i").dtype, DType::i16);
  EXPECT_EQ(ckpt::storage_identity(at(back, "f")), ckpt::storage_identity(at(back, "i")));
}

TEST_F(TorchZip, EmptyAndMetaTensorsComeBack) {
  Entry meta;
  meta.dtype = DType::bf16;
  meta.shape = {3, 4};
  Checkpoint back = saved(checkpoint_of({{"empty", tensor(entry_of(numbers({}), {0, 7}))}, {"meta", tensor(meta)}}));
  EXPECT_EQ(at(back, "empty").shape, (core::Shape{0, 7}));
  EXPECT_EQ(at(back, "meta").bytes, nullptr);
  EXPECT_EQ(at(back, "meta").dtype, DType::bf16);
  EXPECT_EQ(at(back, "meta").location, "meta");
}

TEST_F(TorchZip, AFileMaySaveOverItself) {
  ckpt::save(checkpoint_of({{"w", tensor(entry_of(numbers({1, 2}), {2}))}}), path(), quick());
  std::string before = test::read_file(path());
  ckpt::save(ckpt::open(path()), path(), quick());
  EXPECT_EQ(test::read_file(path()), before);
  EXPECT_THAT(test::list_folder(dir_.path()), ElementsAre("a.pth"));
}

TEST_F(TorchZip, WhatCannotBeHeldIsListedBeforeAnythingIsWritten) {
  core::ByteVector six(6);
  Checkpoint checkpoint = checkpoint_of({{"ok", Value::integer(1)},
                                         {"six", tensor(entry_of(ckpt::memory_source(six), {8}, DType::f6_e2m3))},
                                         {"q", tensor(entry_of(ckpt::memory_source(six), {6}, DType::qint8))}});
  try {
    ckpt::save(checkpoint, path(), quick());
    FAIL() << "it was written";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("'six'"));
    EXPECT_THAT(error.what(), HasSubstr("'q'"));
  }
  EXPECT_THAT(test::list_folder(dir_.path()), IsEmpty());
}

TEST_F(TorchZip, WhatCannotBeHeldMayBeDroppedByName) {
  core::ByteVector six(6);
  Report report;
  SaveOptions options = quick(&report);
  options.drop_inexpressible = true;
  ckpt::save(checkpoint_of({{"six", tensor(entry_of(ckpt::memory_source(six), {8}, DType::f6_e2m3))},
                            {"w", tensor(entry_of(numbers({1}), {1}))}}),
             path(), options);
  EXPECT_THAT(report.dropped, ElementsAre(HasSubstr("'six'")));
  Checkpoint back = ckpt::open(path());
  EXPECT_EQ(back.root.find("six"), nullptr);
  EXPECT_NE(back.root.find("w"), nullptr);
}

TEST_F(TorchZip, TiedTensorsOnTwoDevicesAreAnObstacle) {
  ckpt::SourcePtr shared = numbers({1});
  Entry other = entry_of(shared, {1});
  other.location = "cuda:0";
  EXPECT_THROW(ckpt::save(checkpoint_of({{"a", tensor(entry_of(shared, {1}))}, {"b", tensor(other)}}), path(), quick()),
               core::Error);
}

TEST_F(TorchZip, OptionsThatItCannotFollowAreRefused) {
  SaveOptions packed = quick();
  packed.codec = ckpt::Codec::zstd;
  EXPECT_THROW(ckpt::save(checkpoint_of({}), path(), packed), core::Error);
  SaveOptions sharded = quick();
  sharded.max_shard_size = 1000;
  EXPECT_THROW(ckpt::save(checkpoint_of({}), path(), sharded), core::Error);
}

TEST_F(TorchZip, TheReportSaysWhatWasWritten) {
  Report report;
  ckpt::save(checkpoint_of({{"w", tensor(entry_of(numbers({1, 2}), {2}))}}), path(), quick(&report));
  EXPECT_EQ(report.bytes_written, std::filesystem::file_size(path()));
  EXPECT_EQ(report.rung, "rewrite");
}

TEST_F(TorchZip, BigEndianNumbersAreTurnedAround) {
  write_torch(pickle_with("FloatStorage"), "\x3f\x80\0\0\x40\0\0\0"sv, "big");
  EXPECT_EQ(ckpt::read_all(*at(ckpt::open(path()), "w").bytes), ckpt::read_all(*numbers({1, 2})));
}

TEST_F(TorchZip, BigEndianComplexNumbersAreTurnedAroundInHalves) {
  write_torch(pickle_with("ComplexFloatStorage"), "\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0\x40\x80\0\0"sv, "big");
  EXPECT_EQ(ckpt::read_all(*at(ckpt::open(path()), "w").bytes), ckpt::read_all(*numbers({1, 2, 3, 4})));
}

TEST_F(TorchZip, BytesBehindThePickleNeedLenience) {
  write_torch(pickle_with("FloatStorage") + "rest", std::string(8, 'x'));
  EXPECT_EQ(open_error().code(), core::ErrorCode::corrupt);
  Report report;
  OpenOptions lenient;
  lenient.lenient = true;
  lenient.report = &report;
  ckpt::open(path(), lenient);
  EXPECT_THAT(report.relaxations, ElementsAre(HasSubstr("4 B after its end")));
}

TEST_F(TorchZip, ALongerStorageNeedsLenienceAShorterOneIsRefused) {
  OpenOptions lenient;
  lenient.lenient = true;
  write_torch(pickle_with("FloatStorage"), std::string(12, 'x'));
  EXPECT_EQ(open_error().code(), core::ErrorCode::corrupt);
  EXPECT_EQ(ckpt::read_all(*at(ckpt::open(path(), lenient), "w").bytes).size(), 8U);
  write_torch(pickle_with("FloatStorage"), std::string(4, 'x'));
  EXPECT_EQ(open_error(lenient).code(), core::ErrorCode::corrupt);
}

TEST_F(TorchZip, DamagedPayloadIsFoundByVerifyAndByReading) {
  ckpt::save(checkpoint_of({{"w", tensor(entry_of(numbers({1, 2}), {2}))}}), path(), quick());
  std::string bytes = test::read_file(path());
  std::size_t payload = bytes.find("\0\0\x80\x3f\0\0\0\x40"sv);
  bytes[payload] ^= 1;
  test::write_file(path(), bytes);
  EXPECT_THROW(ckpt::read_all(*at(ckpt::open(path()), "w").bytes), core::Error);
  OpenOptions checked;
  checked.check_hashes = true;
  EXPECT_THROW(ckpt::read_all(*at(ckpt::open(path(), checked), "w").bytes), core::Error);
  ckpt::VerifyResult result = ckpt::verify(path());
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_EQ(result.damage[0].subject, "data/0");
}

TEST_F(TorchZip, DamageStaysVisibleInALenientCopyAndOthersAreRefused) {
  ckpt::save(checkpoint_of({{"w", tensor(entry_of(numbers({1, 2}), {2}))}}), path(), quick());
  std::string bytes = test::read_file(path());
  bytes[bytes.find("\0\0\x80\x3f\0\0\0\x40"sv)] ^= 1;
  test::write_file(path(), bytes);
  EXPECT_THROW(ckpt::save(ckpt::open(path()), path("copy.pth"), quick()), core::Error);
  ckpt::save(ckpt::open(path(), {.lenient = true}), path("copy.pth"), quick());
  EXPECT_EQ(ckpt::verify(path("copy.pth")).damage.size(), 1U);
}

TEST_F(TorchZip, GoodFilesVerifyClean) {
  ckpt::save(checkpoint_of({{"w", tensor(entry_of(numbers({1, 2}), {2}))}}), path(), quick());
  ckpt::VerifyResult result = ckpt::verify(path());
  EXPECT_THAT(result.damage, IsEmpty());
  EXPECT_EQ(result.tensors_checked, 1U);
}

TEST_F(TorchZip, RecordsThatNothingReadsAreReported) {
  write_archive({{"x/data.pkl", "}."},
                 {"x/byteorder", "little"},
                 {"x/data/0", "abcd"},
                 {"x/notes.txt", "hello"},
                 {"x/version", "3\n"}});
  Report report;
  OpenOptions options;
  options.report = &report;
  ckpt::open(path(), options);
  EXPECT_THAT(report.warnings, Contains(HasSubstr("'data/0'")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("'notes.txt'")));
}

TEST_F(TorchZip, ThePickleIsHeldToItsLimit) {
  write_torch(pickle_with("FloatStorage"), std::string(8, 'x'));
  OpenOptions options;
  options.limits.max_pickle_bytes = 10;
  EXPECT_EQ(open_error(options).code(), core::ErrorCode::refused);
}

TEST_F(TorchZip, TensorsAreHeldToTheirNumber) {
  ckpt::save(checkpoint_of({{"a", tensor(entry_of(numbers({1}), {1}))}, {"b", tensor(entry_of(numbers({2}), {1}))}}),
             path(), quick());
  OpenOptions options;
  options.limits.max_tensors = 2;
  EXPECT_NO_THROW(ckpt::open(path(), options));
  options.limits.max_tensors = 1;
  EXPECT_EQ(open_error(options).code(), core::ErrorCode::refused);
}

TEST_F(TorchZip, TorchScriptWithoutAModuleIsRefused) {
  write_archive({{"x/data.pkl", "}."}, {"x/constants.pkl", ")."}, {"x/version", "3\n"}});
  EXPECT_THAT(open_error().what(), HasSubstr("the archive has no module"));
}

TEST_F(TorchZip, OtherArchivesAreNotTakenForPyTorchs) {
  write_archive({{"readme.txt", "x"}, {"b.txt", "x"}});
  core::Error error = open_error();
  EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("not a PyTorch checkpoint"));
}

TEST_F(TorchZip, AFormatThatIsAllMetadataSaysIsNoLoss) {
  Report report;
  Checkpoint checkpoint = checkpoint_of({{"w", tensor(entry_of(numbers({1, 2}), {2}))}});
  checkpoint.metadata = {{"format", "pt"}};
  ckpt::save(checkpoint, path(), quick(&report));
  EXPECT_THAT(report.warnings, IsEmpty());
  checkpoint.metadata.emplace_back("author", "me");
  ckpt::save(checkpoint, path(), quick(&report));
  EXPECT_THAT(report.warnings, ElementsAre(HasSubstr("metadata")));
}

TEST_F(TorchZip, ACutFileIsCalledCutAtEveryLength) {
  ckpt::save(checkpoint_of({{"w", tensor(entry_of(numbers({1, 2}), {2}))}}), path(), quick());
  std::string whole = test::read_file(path());
  for (std::size_t length = 3; length < whole.size(); length += 37) {
    test::write_file(path(), std::string_view(whole).substr(0, length));
    core::Error error = open_error();
    EXPECT_EQ(error.code(), core::ErrorCode::corrupt) << length;
    EXPECT_THAT(error.what(), HasSubstr("cut off")) << length;
  }
}

}  // namespace

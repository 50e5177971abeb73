// Plain .h5 files and Keras weights, read and written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;

class Hdf5Format : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_.path() / "a.h5"; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const NamedEntry& named : list_entries(open(path()).root)) found.push_back(named.name);
    return found;
  }
  test::TempDir dir_;
};

// --- Reading.

TEST_F(Hdf5Format, LinksAreJoinedWithDotsInOrderOfNamesAndNumbers) {
  test::Hdf5Maker maker(path());
  for (const char* name : {"b/10", "b/9", "a.x", "b/c"}) maker.floats(name, {1});
  maker.close();
  EXPECT_THAT(names(), ElementsAre("a.x", "b.9", "b.10", "b.c"));
}

TEST_F(Hdf5Format, SlashesWhereDotsWouldMakeTwoNamesOne) {
  test::Hdf5Maker maker(path());
  maker.floats("a/b", {1});
  maker.floats("a.b", {1});
  maker.close();
  EXPECT_THAT(names(), ElementsAre("a/b", "a.b"));
}

TEST_F(Hdf5Format, TwoDatasetsThatClaimOneNameAreCorrupt) {
  test::Hdf5Maker maker(path());
  for (const char* name : {"a", "b"}) {
    maker.floats(name, {1});
    maker.text(name, "ckpt_name", "same");
  }
  maker.close();
  EXPECT_EQ(test::error_of([&] { open(path()); }), "corrupt: two datasets claim the name 'same'");
}

TEST_F(Hdf5Format, KerasOrderComesFromLayerAndWeightNames) {
  test::Hdf5Maker maker(path());
  for (const char* name : {"a/a/bias:0", "a/a/kernel:0", "z/z/w:0", "top/extra"}) maker.floats(name, {1});
  maker.texts("/", "layer_names", {"z", "none", "a"});
  maker.texts("z", "weight_names", {"z/w:0"});
  maker.texts("a", "weight_names0", {"a/kernel:0"});
  maker.texts("a", "weight_names1", {"a/bias:0"});
  maker.close();
  EXPECT_THAT(names(), ElementsAre("z.z.w:0", "a.a.kernel:0", "a.a.bias:0", "top.extra"));
  EXPECT_THAT(open(path()).metadata, IsEmpty());
}

TEST_F(Hdf5Format, WritingAKerasFileAnewSaysThatItsListsAreGone) {
  test::Hdf5Maker maker(path());
  for (const char* name : {"a/w", "b/w"}) maker.floats(name, {1});
  maker.texts("/", "layer_names", {"b", "a"});
  maker.close();
  Report first;
  save(open(path()), path(), {.overwrite = true, .report = &first});
  EXPECT_THAT(first.warnings, ElementsAre(testing::HasSubstr("Keras will not load this file")));
  EXPECT_THAT(names(), ElementsAre("b.w", "a.w"));
  Report second;
  save(open(path()), path(), {.overwrite = true, .report = &second});
  EXPECT_THAT(second.warnings, IsEmpty());
}

TEST_F(Hdf5Format, NamesThatLeadNowhereDoNotHurt) {
  test::Hdf5Maker maker(path());
  maker.floats("a/w", {1});
  maker.texts("/", "weight_names", {"a/w/deeper", "../a", "", "a", "a/w", "a/w"});
  maker.close();
  EXPECT_THAT(names(), ElementsAre("a.w"));
}

TEST_F(Hdf5Format, HardLinksAreTies) {
  test::Hdf5Maker maker(path());
  maker.floats("a", {4});
  maker.hard_link("g/again", "/a");
  maker.close();
  Checkpoint read = open(path());
  EXPECT_EQ(storage_identity(read.root.find("a")->as_entry()), storage_identity(read.root.find("g.again")->as_entry()));
}

TEST_F(Hdf5Format, AttributesAreMetadata) {
  test::Hdf5Maker maker(path());
  maker.floats("g/x", {1});
  maker.text("/", "title", "weights");
  maker.texts("/", "list", {"one", "two \"2\""});
  maker.number("g", "heads", 12);
  maker.number("g/x", "step", -3);
  maker.close();
  EXPECT_THAT(open(path()).metadata, ElementsAre(Pair("list", R"(["one", "two \"2\""])"), Pair("title", "weights"),
                                                 Pair("g@heads", "12"), Pair("g/x@step", "-3")));
}

TEST_F(Hdf5Format, BigEndianNumbersAreTurned) {
  test::Hdf5Maker maker(path());
  maker.typed("x", H5T_IEEE_F64BE);
  hid_t set = H5Dopen2(maker.file(), "x", H5P_DEFAULT);
  const double values[] = {1.5, -2};
  H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(set);
  maker.close();
  Checkpoint read = open(path());
  core::ByteVector bytes(11);
  read.root.find("x")->as_entry().bytes->read(5, bytes);  // across both, aligned to nothing
  EXPECT_EQ(core::load_le<double>(bytes.data() + 3), -2.0);
}

// --- Writing.

TEST_F(Hdf5Format, EveryDTypeComesBack) {
  test::Items items;
  for (DType dtype :
       {DType::boolean,     DType::u8,          DType::i8,         DType::i16,     DType::i32,          DType::i64,
        DType::u16,         DType::u32,         DType::u64,        DType::f16,     DType::bf16,         DType::f32,
        DType::f64,         DType::c32,         DType::c64,        DType::c128,    DType::f8_e4m3fn,    DType::f8_e5m2,
        DType::f8_e4m3fnuz, DType::f8_e5m2fnuz, DType::f8_e8m0fnu, DType::f6_e2m3, DType::f4_e2m1fn_x2, DType::qint8,
        DType::quint8,      DType::qint32,      DType::bits16,     DType::quint4x2}) {
    core::ByteVector bytes = test::noise(*core::byte_size(dtype, 12));
    if (dtype == DType::boolean) std::fill(bytes.begin(), bytes.end(), std::byte{1});
    items.emplace_back("t." + std::string(core::name(dtype)), Value::tensor(test::entry(dtype, {3, 4}, bytes)));
  }
  items.emplace_back("scalar", test::tensor(DType::f32, {}));
  items.emplace_back("empty", test::tensor(DType::f32, {0, 3}));
  Checkpoint made = test::checkpoint(items);
  for (Codec codec : {Codec::automatic, Codec::zstd, Codec::gzip}) {
    save(made, path(), {.codec = codec});
    EXPECT_EQ(test::difference(open(path()).root, made.root), "");
  }
}

TEST_F(Hdf5Format, OrderOfKeysComesBackAsFarAsGroupsAllow) {
  save(test::checkpoint({{"z", test::tensor(DType::f32, {1})},
                         {"m.b", test::tensor(DType::f32, {1})},
                         {"m.a", test::tensor(DType::f32, {1})},
                         {"a", test::tensor(DType::f32, {1})},
                         {"m.c", test::tensor(DType::f32, {1})}}),
       path());
  EXPECT_THAT(names(), ElementsAre("z", "m.b", "m.a", "m.c", "a"));
}

TEST_F(Hdf5Format, OddNamesComeBack) {
  test::Items items;
  for (const char* key : {"a", "a.b", "", ".", "x/y", "100%", "\xe4\xb8\xad", "a..b", "%2F"}) {
    items.emplace_back(key, test::tensor(DType::f32, {1}));
  }
  items.emplace_back(std::string("nul\0byte", 8), test::tensor(DType::f32, {1}));
  Checkpoint made = test::checkpoint(items);
  save(made, path());
  std::vector<std::string> back = names();
  for (const auto& [key, value] : items) EXPECT_THAT(back, Contains(key));
  EXPECT_EQ(back.size(), items.size());
}

TEST_F(Hdf5Format, TiesAreHardLinksAndOtherViewsCopies) {
  Value shared = test::tensor(DType::f32, {8});
  auto memory = test::storage(DType::f32, test::noise(32));
  Checkpoint made = test::checkpoint({{"m.x", shared},
                                      {"y", shared},
                                      {"whole", test::view(memory, DType::f32, {8}, 0, {1})},
                                      {"turned", test::view(memory, DType::f32, {2, 4}, 0, {1, 2})},
                                      {"again", test::view(memory, DType::f32, {2, 4}, 0, {1, 2})}});
  save(made, path());
  Checkpoint back = open(path());
  auto identity = [&](const char* key) { return storage_identity(back.root.find(key)->as_entry()); };
  EXPECT_EQ(identity("m.x"), identity("y"));
  EXPECT_EQ(identity("turned"), identity("again"));
  EXPECT_NE(identity("turned"), identity("whole"));
  for (const char* key : {"whole", "turned"}) {
    EXPECT_EQ(read_all(*back.root.find(key)->as_entry().bytes), read_all(*made.root.find(key)->as_entry().bytes));
  }
}

TEST_F(Hdf5Format, PlainValuesMetadataTagsAndVersionsAreKept) {
  auto located = std::make_shared<Entry>(*test::entry(DType::f32, {2}, test::noise(8)));
  located->location = "cuda:1";
  Dict module;
  module.items.emplace_back(Value::text("version"), Value::integer(2));
  Dict versions;
  versions.items.emplace_back(Value::text("bn"), Value::dict(module));
  Dict attributes;
  attributes.items.emplace_back(Value::text("_metadata"), Value::dict(versions));
  Dict model = test::dict({{"bn.weight", Value::tensor(located)}}).as_dict();
  model.attributes = Value::dict(attributes);
  Checkpoint made = test::checkpoint({{"model", Value::dict(model)},
                                      {"epoch", Value::integer(3)},
                                      {"lr", Value::real(0.1)},
                                      {"done", Value::boolean(true)},
                                      {"name", Value::text("net")}});
  made.metadata = {{"format", "pt"}};
  save(made, path());
  Checkpoint back = open(path());
  EXPECT_EQ(back.root.find("model.bn.weight")->as_entry().location, "cuda:1");
  EXPECT_THAT(module_versions(back.root.as_dict()), ElementsAre(Pair("model.bn", 2)));
  EXPECT_THAT(back.metadata, ElementsAre(Pair("epoch", "3"), Pair("lr", "0.1"), Pair("done", "true"),
                                         Pair("name", "net"), Pair("format", "pt")));
}

TEST_F(Hdf5Format, WhatCannotBeHeldIsRefusedBeforeAByteIsWritten) {
  auto meta = std::make_shared<Entry>();
  meta->shape = {2};
  Checkpoint made = test::checkpoint({{"w", test::tensor(DType::f32, {2})},
                                      {"list", Value::list({test::tensor(DType::f32, {2})})},
                                      {"none", Value()},
                                      {"ghost", Value::tensor(meta)}});
  std::string error = test::error_of([&] { save(made, path()); });
  EXPECT_THAT(error, StartsWith("unsupported: HDF5 file cannot hold 3 items: "));
  EXPECT_THAT(error, HasSubstr("'ghost' (a tensor without data (meta))"));
  EXPECT_THAT(test::list_folder(dir_.path()), IsEmpty());
  Report report;
  save(made, path(), {.drop_inexpressible = true, .report = &report});
  EXPECT_EQ(report.dropped.size(), 3U);
  EXPECT_THAT(names(), ElementsAre("w", "list.0"));
}

TEST_F(Hdf5Format, LongMetadataIsLeftOutWithAWarning) {
  Checkpoint made = test::checkpoint({{"w", test::tensor(DType::f32, {2})}});
  made.metadata = {{"fits", std::string(60'000, 'x')}, {"long", std::string(60'001, 'x')}};
  Report report;
  save(made, path(), {.report = &report});
  EXPECT_THAT(report.warnings, ElementsAre("the metadata 'long' does not fit an HDF5 attribute and is left out"));
  EXPECT_EQ(open(path()).metadata.size(), 1U);
}

TEST_F(Hdf5Format, SameContentGivesSameBytes) {
  Checkpoint made =
      test::checkpoint({{"a.w", test::tensor(DType::f32, {300, 70})}, {"b", test::tensor(DType::i64, {9})}});
  for (Codec codec : {Codec::none, Codec::zstd, Codec::gzip}) {
    save(made, path(), {.codec = codec, .threads = 1});
    std::string once = test::read_file(path());
    save(made, dir_.path() / "b.h5", {.codec = codec, .threads = 4});
    EXPECT_EQ(test::read_file(dir_.path() / "b.h5"), once);
  }
}

TEST_F(Hdf5Format, SavingOverTheFileThatIsReadKeepsIt) {
  Checkpoint made =
      test::checkpoint({{"a.w", test::tensor(DType::f32, {300, 70})}, {"b", test::tensor(DType::i64, {9})}});
  save(made, path(), {.codec = Codec::zstd});
  std::string before = test::read_file(path());
  save(open(path()), path(), {.codec = Codec::zstd});
  EXPECT_EQ(test::read_file(path()), before);
}

}  // namespace
}  // namespace ckpt

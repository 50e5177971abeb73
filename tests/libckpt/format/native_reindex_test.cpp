// Native files that another program edited: how that is noticed, and what reindexing makes of it. The edits are made by
// libhdf5, as h5py makes them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/ckpt.h"
#include "libckpt/format/native/layout.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using core::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

class NativeReindex : public ::testing::Test {
 protected:
  void SetUp() override {
    auto located = std::make_shared<Entry>(*test::entry(DType::f32, {2, 3}, test::noise(24)));
    located->location = "cuda:1";
    model_ = {{"module.b.weight", Value::tensor(located)},
              {"module.a.weight", test::tensor(DType::f32, {4}, 2)},
              {"module.c", test::tensor(DType::f32, {1000}, 3)}};
    save(test::checkpoint({{"epoch", Value::integer(3)}, {"model", test::dict(model_)}}), path());
  }
  std::filesystem::path path() const { return dir_.path() / "a.ckpt"; }
  std::string open_error() const {
    return test::error_of([&] { open(path()); });
  }
  std::string open_hint() const {
    try {
      open(path());
    } catch (const core::Error& error) {
      std::optional<Hint> hint = hint_of(error);
      return hint ? hint->text : "none";
    }
    return "no error";
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const NamedEntry& named : list_entries(open(path()).root)) found.push_back(named.name);
    return found;
  }
  float first_value(const std::string& key) const {
    core::ByteVector bytes = read_all(*open(path()).root.find("model")->find(key)->as_entry().bytes);
    return core::load_le<float>(bytes.data());
  }
  void expect_whole() const {
    VerifyResult result = verify(path());
    EXPECT_THAT(result.damage, IsEmpty());
    EXPECT_EQ(open(path()).root.find("epoch")->as_integer(), 3);
  }

  test::Items model_;
  test::TempDir dir_;
};

TEST_F(NativeReindex, OpeningForWritingWithoutAChangeLeavesTheFileValid) {
  std::string before = test::read_file(path());
  { test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit); }
  EXPECT_EQ(open_error(), "");
  EXPECT_FALSE(reindex(path()).needed);
  EXPECT_EQ(test::read_file(path()), before);
}

TEST_F(NativeReindex, ChangedValuesAreFoundByVerifyAndTakenOver) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.overwrite("/data/model/module/a/weight", 7);
  }
  EXPECT_EQ(verify(path()).damage.size(), 1U);
  ReindexResult result = reindex(path());
  EXPECT_TRUE(result.needed);
  EXPECT_THAT(result.changed, ElementsAre("model.module.a.weight"));
  EXPECT_EQ(first_value("module.a.weight"), 7.0F);
  EXPECT_THAT(names(), ElementsAre("model.module.b.weight", "model.module.a.weight", "model.module.c"));
  expect_whole();
}

TEST_F(NativeReindex, EditsMakeTheIndexStaleAndTheErrorSaysWhatToRun) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.move("/data/model/module/b/weight", "/data/model/module/b/kernel");  // the size of the file stays
  }
  EXPECT_EQ(open_hint(), "if a program such as h5py edited it, run {}");
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.floats("/data/model/new", {100000});
  }
  EXPECT_EQ(open_hint(), "run {}");
  EXPECT_THAT(open_error(), HasSubstr("corrupt: another program edited the file, its index is out of date: "));
}

TEST_F(NativeReindex, RenamedDatasetsKeepPlaceAndTag) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.move("/data/model/module/b/weight", "/data/model/plain/b/kernel");
  }
  ReindexResult result = reindex(path());
  EXPECT_THAT(result.renamed, ElementsAre(Pair("model.module.b.weight", "model.plain.b.kernel")));
  EXPECT_THAT(result.changed, IsEmpty());
  EXPECT_THAT(names(), ElementsAre("model.plain.b.kernel", "model.module.a.weight", "model.module.c"));
  EXPECT_EQ(open(path()).root.find("model")->find("plain.b.kernel")->as_entry().location, "cuda:1");
  std::vector<WrapperUse> wrappers = {{"model", "module.", 2}};
  EXPECT_EQ(list_wrappers(open(path()).root), wrappers);
  expect_whole();
}

TEST_F(NativeReindex, DatasetsThatLeaveTheirDictMoveToTheOneThatFits) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.move("/data/model/module/c", "/data/c");
  }
  reindex(path());
  EXPECT_THAT(names(), ElementsAre("model.module.b.weight", "model.module.a.weight", "c"));
  expect_whole();
}

TEST_F(NativeReindex, AddedAndDeletedDatasets) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.remove("/data/model/module/a/weight");
    maker.floats("/data/model/module/d/weight", {5}, 2.5F);
    maker.chunked("/data/model/e", {64, 64}, {16, 16}, {H5Z_FILTER_DEFLATE});
  }
  ReindexResult result = reindex(path());
  EXPECT_THAT(result.removed, ElementsAre("model.module.a.weight"));
  EXPECT_THAT(result.added, ElementsAre("model.e", "model.module.d.weight"));
  EXPECT_THAT(names(), ElementsAre("model.module.b.weight", "model.module.c", "model.e", "model.module.d.weight"));
  EXPECT_EQ(first_value("module.d.weight"), 2.5F);
  expect_whole();
}

TEST_F(NativeReindex, AnotherShapeUnderTheOldNameIsAChange) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.remove("/data/model/module/b/weight");
    maker.floats("/data/model/module/b/weight", {7}, 1.5F);
  }
  EXPECT_THAT(reindex(path()).changed, ElementsAre("model.module.b.weight"));
  Checkpoint edited = open(path());
  const Entry& entry = edited.root.find("model")->find("module.b.weight")->as_entry();
  EXPECT_EQ(entry.shape, core::Shape({7}));
  EXPECT_EQ(entry.location, "cuda:1");
  expect_whole();
}

TEST_F(NativeReindex, DryRunWritesNothing) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.remove("/data/model/module/c");
  }
  std::string before = test::read_file(path());
  EXPECT_TRUE(reindex(path(), {.dry_run = true}).needed);
  EXPECT_EQ(test::read_file(path()), before);
}

TEST_F(NativeReindex, OutputElsewhereLeavesTheFileAlone) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.remove("/data/model/module/c");
  }
  std::string before = test::read_file(path());
  reindex(path(), {.output = dir_.path() / "b.ckpt"});
  EXPECT_EQ(test::read_file(path()), before);
  EXPECT_EQ(list_entries(open(dir_.path() / "b.ckpt").root).size(), 2U);
  EXPECT_THAT(test::error_of([&] { reindex(path(), {.output = dir_.path() / "b.ckpt", .overwrite = false}); }),
              HasSubstr("already exists"));
}

TEST_F(NativeReindex, TiesSurviveWhenOneNameChanges) {
  Value shared = test::tensor(DType::f32, {8}, 5);
  Value alias = Value::tensor(std::make_shared<Entry>(shared.as_entry()));
  auto memory = test::storage(DType::f32, test::noise(64, 6));
  save(test::checkpoint({{"epoch", Value::integer(3)},
                         {"x", shared},
                         {"y", alias},
                         {"left", test::view(memory, DType::f32, {8}, 0, {1})},
                         {"right", test::view(memory, DType::f32, {8}, 8, {1})},
                         {"turned", test::view(memory, DType::f32, {2, 8}, 0, {1, 2})}}),
       path());
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.move("/data/y", "/data/z");
    maker.overwrite("/data/right", 1);
  }
  reindex(path());
  Checkpoint back = open(path());
  EXPECT_EQ(storage_identity(back.root.find("x")->as_entry()), storage_identity(back.root.find("z")->as_entry()));
  EXPECT_EQ(storage_identity(back.root.find("left")->as_entry()),
            storage_identity(back.root.find("right")->as_entry()));
  EXPECT_EQ(core::load_le<float>(read_all(*back.root.find("right")->as_entry().bytes).data()), 1.0F);
  expect_whole();
}

TEST_F(NativeReindex, PackedTensorsStayPacked) {
  core::ByteVector zeros(1 << 20);
  save(test::checkpoint({{"epoch", Value::integer(3)},
                         {"packed", Value::tensor(test::entry(DType::f32, {512, 512}, zeros))},
                         {"small", test::tensor(DType::f32, {2})}}),
       path());
  std::uintmax_t size = std::filesystem::file_size(path());
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.move("/data/packed", "/data/renamed");
  }
  EXPECT_THAT(reindex(path()).renamed, ElementsAre(Pair("packed", "renamed")));
  EXPECT_LE(std::filesystem::file_size(path()), size + 4096);
  expect_whole();
}

TEST_F(NativeReindex, TensorsInListsCanChangeButNotLeave) {
  save(test::checkpoint({{"epoch", Value::integer(3)},
                         {"list", Value::list({test::tensor(DType::f32, {2}), test::tensor(DType::f32, {3}, 2)})}}),
       path());
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.overwrite("/data/list/0", 4);
  }
  EXPECT_THAT(reindex(path()).changed, ElementsAre("list.0"));
  expect_whole();
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.remove("/data/list/1");
  }
  std::string before = test::read_file(path());
  EXPECT_EQ(test::error_of([&] { reindex(path()); }),
            "unsupported: 'list.1' was deleted, but it is in a list or object, where it cannot be");
  EXPECT_EQ(test::read_file(path()), before);
}

TEST_F(NativeReindex, WhatIsNoTensorIsLeftOutAndNamed) {
  {
    test::Hdf5Maker maker(path(), test::Hdf5Maker::Mode::edit);
    maker.typed("/data/refs", H5T_STD_REF_OBJ);
    maker.floats("/elsewhere", {2});
  }
  Report report;
  reindex(path(), {.report = &report});
  EXPECT_EQ(report.warnings.size(), 2U);
  EXPECT_EQ(names().size(), 3U);
}

TEST_F(NativeReindex, OtherFormatsHaveNoIndex) {
  save(test::checkpoint({{"a", test::tensor(DType::f32, {2})}}), dir_.path() / "a.h5");
  EXPECT_EQ(test::error_of([&] { reindex(dir_.path() / "a.h5"); }),
            "unsupported: only native files (.ckpt) have an index; this is not one");
}

TEST_F(NativeReindex, VerifyFindsAnIndexThatTellsAnotherStory) {
  test::edit_index(path(), [](core::ByteVector& index) {
    std::string text(core::as_text(index));
    std::size_t at = text.find("module.c");
    ASSERT_NE(at, std::string::npos);
    index[at + 7] = std::byte{'x'};
  });
  EXPECT_EQ(open_error(), "");
  std::vector<std::string> subjects;
  for (const Finding& finding : verify(path()).damage) subjects.push_back(finding.subject);
  EXPECT_THAT(subjects, ElementsAre("model.module.x", "model.module.c"));
}

}  // namespace
}  // namespace ckpt

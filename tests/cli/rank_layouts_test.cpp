// Folders as many ranks would have written them: convert and reshard with --ranks and --shard-dim.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/cli/files.h"

using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

namespace fs = std::filesystem;

class RankLayouts : public testing::Test {
 protected:
  /// Three tensors of 10 rows.
  void SetUp() override {
    ckpt::Dict model;
    for (const char* name : {"a", "b", "c"}) {
      model.items.emplace_back(ckpt::Value::text(name),
                               ckpt::Value::tensor(std::make_shared<const ckpt::Entry>(numbers(name[0]))));
    }
    ckpt::Dict top;
    top.items.emplace_back(ckpt::Value::text("model"), ckpt::Value::dict(std::move(model)));
    write_checkpoint(dir_.path() / "net.pth", ckpt::Value::dict(std::move(top)));
  }
  static ckpt::Entry numbers(int begin) {
    std::vector<float> values(30);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(begin) + static_cast<float>(i);
    core::ByteVector bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    ckpt::Entry entry;
    entry.dtype = core::DType::f32;
    entry.shape = {10, 3};
    entry.bytes = ckpt::memory_source(std::move(bytes));
    return entry;
  }

  Outcome run(const std::vector<std::string>& words) { return run_ckpt(dir_.path(), words); }
  std::vector<std::string> files(const std::string& folder) {
    std::vector<std::string> names = list_folder(dir_.path() / folder);
    std::sort(names.begin(), names.end());
    return names;
  }
  /// Whole, checked, and what net.pth is.
  void expect_same(const std::string& folder) {
    Outcome checked = run({"verify", folder});
    EXPECT_EQ(checked.code, 0) << checked.err << checked.out;
    Outcome compared = run({"diff", "net.pth", folder});
    EXPECT_EQ(compared.code, 0) << compared.err << compared.out;
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& text) {
    Outcome done = run(words);
    EXPECT_NE(done.code, 0);
    EXPECT_THAT(done.err, HasSubstr(text));
  }

  TempDir dir_;
};

}  // namespace

TEST_F(RankLayouts, NativePartsAreOrdinaryFilesThatHoldTheRowsOfTheirRank) {
  Outcome done = run({"convert", "net.pth", "net.parts", "--ranks", "3"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(files("net.parts"),
              ElementsAre("index.ckpt-parts", "part-00000.ckpt", "part-00001.ckpt", "part-00002.ckpt"));
  expect_same("net.parts");
  const ckpt::Checkpoint last = ckpt::open(dir_.path() / "net.parts/part-00002.ckpt");
  EXPECT_EQ(last.format, "native");
  EXPECT_EQ(last.root.find("model.a")->as_entry().shape, (core::Shape{2, 3}));  // 4, 4 and 2 rows
}

TEST_F(RankLayouts, ReshardGoesFromAnyLayoutToAnyOther) {
  ASSERT_EQ(run({"convert", "net.pth", "run.dcp", "--ranks", "4"}).code, 0);
  ASSERT_EQ(run({"reshard", "run.dcp", "-o", "a.parts", "--ranks", "3"}).code, 0);
  expect_same("a.parts");
  ASSERT_EQ(run({"reshard", "a.parts", "-o", "b.parts", "--ranks", "2", "--shard-dim", "1"}).code, 0);
  EXPECT_THAT(files("b.parts"), testing::SizeIs(3));
  expect_same("b.parts");
  ASSERT_EQ(run({"reshard", "b.parts", "-o", "c", "--ranks", "2"}).code, 0);
  EXPECT_THAT(files("c"), testing::Contains(".metadata"));
  expect_same("c");
}

TEST_F(RankLayouts, ASlashAtTheEndOfAFoldersNameChangesNothing) {
  ASSERT_EQ(run({"convert", "net.pth", "a.parts/", "--ranks", "2"}).code, 0);
  EXPECT_THAT(files("a.parts"), testing::SizeIs(3));
  expect_same("a.parts");
  ASSERT_EQ(run({"convert", "net.pth", "-o", "new/b.dcp//", "--ranks", "2"}).code, 0);
  EXPECT_THAT(files("new/b.dcp"), testing::Contains(".metadata"));
  expect_same("new/b.dcp");
  ASSERT_EQ(run({"reshard", "a.parts", "-o", "c.dcp/", "--ranks", "3"}).code, 0);
  expect_same("c.dcp");
  ASSERT_EQ(run({"add-prefix", "--prefix", "p.", "a.parts", "-o", "d.parts/"}).code, 0);
  EXPECT_THAT(files("d.parts"), testing::Contains("index.ckpt-parts"));
  expect_refused({"convert", "net.pth", "a.parts/"}, "exists already");
  expect_refused({"cast", "--to", "f16", "net.pth", "new/b.dcp", "-o", "e.dcp/"}, "is the folder of one checkpoint");
  ASSERT_EQ(run({"convert", "net.pth", "--format", "dcp", "out/"}).code, 0);  // a folder to write into
  expect_same("out/net.dcp");
}

TEST_F(RankLayouts, AFolderIsReplacedAsAWholeAndOnlyWhenAskedFor) {
  ASSERT_EQ(run({"convert", "net.pth", "net.parts", "--ranks", "3"}).code, 0);
  expect_refused({"convert", "net.pth", "net.parts", "--ranks", "2"}, "exists already");
  ASSERT_EQ(run({"convert", "net.pth", "net.parts", "--ranks", "2", "-f"}).code, 0);
  EXPECT_THAT(files("net.parts"), testing::SizeIs(3));
  expect_same("net.parts");
  write_file(dir_.path() / "net.parts/notes.txt", "mine");
  expect_refused({"convert", "net.pth", "net.parts", "--ranks", "1", "-f"}, "notes.txt");
  EXPECT_THAT(files("net.parts"), testing::SizeIs(4));
}

TEST_F(RankLayouts, ACheckpointOfAnotherNameInTheFolderIsNotRemoved) {
  ASSERT_EQ(run({"convert", "net.pth", "net.parts", "--ranks", "2"}).code, 0);
  for (const char* name : {"part-best.ckpt", "part-1.ckpt", "part-.ckpt"}) {
    write_file(dir_.path() / "net.parts" / name, "mine");
    expect_refused({"convert", "net.pth", "net.parts", "--ranks", "1", "-f"}, name);
    EXPECT_TRUE(fs::remove(dir_.path() / "net.parts" / name));
  }
  EXPECT_EQ(run({"convert", "net.pth", "net.parts", "--ranks", "1", "-f"}).code, 0);
  EXPECT_THAT(files("net.parts"), testing::SizeIs(2));
}

TEST_F(RankLayouts, WhatDoesNotFitTogetherIsRefused) {
  expect_refused({"convert", "net.pth", "x.pth", "--ranks", "2"}, "OUT.parts");
  expect_refused({"reshard", "net.pth", "-o", "x.safetensors", "--ranks", "2"}, "where a folder is written");
  EXPECT_THAT(list_folder(dir_.path()), testing::SizeIs(1));
  ASSERT_EQ(run({"convert", "net.pth", "net.parts"}).code, 0);  // one part
  expect_refused({"strip-prefix", "--in-place", "--prefix", "model.", "net.parts"}, "not edited in place");
}

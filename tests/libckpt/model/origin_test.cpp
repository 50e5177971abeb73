#include "libckpt/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/open_save.h"
#include "tests/support/temp_dir.h"

using ckpt::Checkpoint;
using ckpt::Value;

namespace {

Checkpoint one_tensor() {
  ckpt::Entry entry;
  entry.shape = {1};
  entry.bytes = ckpt::memory_source(core::ByteVector(4));
  Checkpoint file;
  file.root = Value::dict({{"fc.weight", Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)))}});
  return file;
}

}  // namespace

TEST(Origin, IsKeptByFormatsWithAPlaceForIt) {
  test::TempDir dir;
  const Checkpoint file = ckpt::with_origin(one_tensor(), "from there");
  for (const char* name : {"a.pth", "a.safetensors", "a.ckpt"}) {
    ckpt::Report report;
    ckpt::save(file, dir.path() / name, {.report = &report});
    EXPECT_THAT(report.warnings, testing::IsEmpty()) << name;
    EXPECT_EQ(ckpt::origin_of(ckpt::open(dir.path() / name)), "from there") << name;
  }
  ckpt::Report report;
  ckpt::save(file, dir.path() / "a.npz", {.report = &report});
  EXPECT_THAT(report.warnings, testing::ElementsAre(testing::HasSubstr("has no place in a NumPy file")));
}

TEST(Origin, GoesAlongFromOneFormatToAnother) {
  test::TempDir dir;
  ckpt::save(ckpt::with_origin(one_tensor(), "from there"), dir.path() / "a.pth");
  ckpt::save(ckpt::open(dir.path() / "a.pth"), dir.path() / "b.safetensors");
  ckpt::save(ckpt::open(dir.path() / "b.safetensors"), dir.path() / "c.pth");
  EXPECT_EQ(ckpt::origin_of(ckpt::open(dir.path() / "c.pth")), "from there");
}

TEST(Origin, IsForgottenWithoutATrace) {
  const Checkpoint plain = one_tensor();
  const Checkpoint forgot = ckpt::with_origin(ckpt::with_origin(plain, "from there"), "");
  EXPECT_EQ(ckpt::origin_of(forgot), "");
  EXPECT_TRUE(forgot.metadata.empty());
  EXPECT_TRUE(forgot.root.as_dict().attributes.is_null());
  EXPECT_EQ(ckpt::origin_of(ckpt::with_origin(ckpt::with_origin(plain, "one"), "two")), "two");
}

TEST(Origin, LeavesVersionsOfModulesAlone) {
  Checkpoint file = one_tensor();
  ckpt::Dict root = file.root.as_dict();
  root.type = "collections.OrderedDict";
  const Value versions = Value::dict({{"", Value::dict({{"version", 2}})}, {"fc", Value::dict({{"version", 1}})}});
  root.attributes = Value::dict({{"_metadata", versions}});
  file.root = Value::dict(root);
  const Checkpoint told = ckpt::with_origin(file, "from there");
  EXPECT_EQ(ckpt::module_versions(told.root.as_dict()), ckpt::module_versions(root));
  EXPECT_TRUE(ckpt::with_origin(told, "").root == file.root);
}

TEST(Origin, IsCutWhereAFileHasABook) {
  EXPECT_EQ(ckpt::origin_of(ckpt::with_origin(one_tensor(), std::string(9000, 'x'))).size(), 4000u);
}

TEST(Origin, OfAFileWithoutAStateDictIsInItsMetadata) {
  Checkpoint file;
  file.root = Value::dict({{"model", one_tensor().root}});
  const Checkpoint told = ckpt::with_origin(file, "from there");
  EXPECT_TRUE(told.root == file.root);
  EXPECT_EQ(ckpt::origin_of(told), "from there");
}

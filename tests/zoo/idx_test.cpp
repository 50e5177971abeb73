#include "zoo/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace {

using test::TempDir;

std::string failure_of(const std::filesystem::path& path) {
  try {
    zoo::read_idx(path);
    return "no error";
  } catch (const core::Error& error) {
    return error.message();
  }
}

const std::string kTwoByThree(
    "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
    "abcdef",
    18);

TEST(Idx, ReadsShapeAndBytes) {
  TempDir dir;
  test::write_file(dir.path() / "a", kTwoByThree);
  zoo::IdxArray array = zoo::read_idx(dir.path() / "a");
  EXPECT_EQ(array.shape, (core::Shape{2, 3}));
  EXPECT_EQ(array.values, (std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
}

TEST(Idx, RefusesAFileThatIsCutOff) {
  TempDir dir;
  test::write_file(dir.path() / "a", kTwoByThree.substr(0, 17));
  EXPECT_EQ(failure_of(dir.path() / "a"), "holds 5 values where its header says [2, 3]");
  test::write_file(dir.path() / "b", kTwoByThree.substr(0, 9));
  EXPECT_EQ(failure_of(dir.path() / "b"), "the header is cut off");
}

TEST(Idx, RefusesOtherFiles) {
  TempDir dir;
  test::write_file(dir.path() / "a", "hello world");
  EXPECT_EQ(failure_of(dir.path() / "a"), "no IDX file of unsigned bytes");
  std::string packed(32, 'x');
  packed.replace(0, 2, "\x1f\x8b");
  test::write_file(dir.path() / "b", packed);
  EXPECT_THAT(failure_of(dir.path() / "b"), "the gzip data are cut off or damaged, or unpack to more than 1 GiB");
  packed.replace(28, 4, std::string("\x20\0\0\0", 4));
  test::write_file(dir.path() / "b", packed);
  EXPECT_EQ(failure_of(dir.path() / "b"), "the gzip data are damaged or cut off");
}

std::string be32(std::size_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
}

/// Fashion-MNIST of two images with these labels.
std::string fashion_error(std::size_t side, const std::string& labels) {
  TempDir dir;
  test::write_file(dir.path() / "train-images-idx3-ubyte.gz", std::string("\0\0\x08\x03", 4) + be32(2) + be32(side) +
                                                                  be32(side) + std::string(2 * side * side, 'x'));
  test::write_file(dir.path() / "train-labels-idx1-ubyte.gz", std::string("\0\0\x08\x01", 4) + be32(2) + labels);
  try {
    zoo::fashion_mnist("train", dir.path());
    return "no error";
  } catch (const core::Error& error) {
    const std::string text = error.what();
    return text.substr(text.find("train-"));
  }
}

TEST(Idx, FashionMnistHasItsSizeAndItsClasses) {
  EXPECT_EQ(fashion_error(28, "\x01\x09"), "no error");
  EXPECT_EQ(fashion_error(28, "\x01\x0a"), "train-labels-idx1-ubyte.gz: label 10 where there are 0 to 9");
  EXPECT_EQ(fashion_error(8, "\x01\x02"),
            "train-images-idx3-ubyte.gz: images of 8 x 8 where Fashion-MNIST has 28 x 28");
}

TEST(Idx, AMissingDataSetNamesThePackage) {
  TempDir dir;
  try {
    zoo::fashion_mnist("train", dir.path());
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("dataset-fashion-mnist"));
    EXPECT_EQ(error.code(), core::ErrorCode::io);
  }
}

TEST(Idx, ReadsFashionMnist) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  zoo::ImageSet set = zoo::fashion_mnist("t10k");
  EXPECT_EQ(set.images.shape, (core::Shape{10000, 28, 28}));
  EXPECT_EQ(set.labels.values[0], 9);
  EXPECT_EQ(zoo::fashion_mnist_classes()[9], "Ankle boot");
}

}  // namespace

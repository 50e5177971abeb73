// HDF5 files that say one thing in two places, and not the same: libhdf5 believes one of them. And what stands before
// and behind the HDF5 data.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Hdf5Contradictions : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_.path() / "a.h5"; }
  /// The message with all that stands before it; "" when the file is read to its end.
  std::string error() const {
    try {
      for (const NamedEntry& named : list_entries(open(path()).root)) read_all(*named.entry->bytes);
      return "";
    } catch (const core::Error& thrown) {
      return thrown.what();
    }
  }
  std::vector<std::string> warnings() const {
    Report report;
    open(path(), {.report = &report});
    return report.warnings;
  }
  test::TempDir dir_;
};

/// Replaces the first `old` in the file.
void patch(const std::filesystem::path& path, std::string_view old, std::string_view made) {
  std::string content = test::read_file(path);
  std::size_t at = content.find(old);
  if (at == std::string::npos) throw std::runtime_error("nothing to patch");
  test::overwrite(path, at, std::string(made));
}

TEST_F(Hdf5Contradictions, MembersOfACompoundThatReachPastItsElementsAreCorrupt) {
  test::Hdf5Maker maker(path());
  hid_t type = H5Tcreate(H5T_COMPOUND, 8);
  H5Tinsert(type, "a", 0, H5T_IEEE_F32LE);
  H5Tinsert(type, "b", 4, H5T_STD_I32LE);
  maker.typed("x", type);
  H5Tclose(type);
  maker.close();
  EXPECT_EQ(error(), "");
  const std::string name("b\0\0\0\0\0\0\0", 8);
  patch(path(), name + std::string("\4\0\0\0", 4), name + std::string("\5\0\0\0", 4));
  EXPECT_THAT(error(), HasSubstr("'/x': its type has elements of 8 bytes and a member of 4 bytes at byte 5 of them"));
  patch(path(), name + std::string("\5\0\0\0", 4), name + std::string("\2\0\0\0", 4));
  EXPECT_THAT(error(), HasSubstr("'/x': its type has members that lie one upon the other"));
}

TEST_F(Hdf5Contradictions, ArraysWhoseSidesDoNotMakeTheirSizeAreCorrupt) {
  test::Hdf5Maker maker(path());
  hsize_t sides[] = {3, 2};
  hid_t type = H5Tarray_create2(H5T_IEEE_F32LE, 2, sides);
  maker.typed("x", type);
  H5Tclose(type);
  maker.close();
  EXPECT_EQ(error(), "");
  patch(path(), {"\3\0\0\0\2\0\0\0", 8}, {"\4\0\0\0\2\0\0\0", 8});
  EXPECT_THAT(error(), HasSubstr("'/x': its type has elements of 24 bytes where their parts take 32"));
}

TEST_F(Hdf5Contradictions, AttributesThatGoPastTheirMessageAreCorrupt) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {2});
  maker.texts("x", "list", {"12345678", "12345678", "12345678"});
  maker.close();
  EXPECT_EQ(error(), "");
  const std::string text_of_8("\x13\1\0\0\10\0\0\0", 8);
  patch(path(), text_of_8, {"\x13\1\0\0\20\0\0\0", 8});
  EXPECT_THAT(error(), HasSubstr("'/x': the attribute 'list': it holds 24 bytes where its shape and elements of 16 "
                                 "bytes need 48"));
}

TEST_F(Hdf5Contradictions, TextsLongerThanWhereTheyLieAreCorruptAndTakeNoMemory) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {2});
  maker.text("x", "title", "a long text");
  maker.close();
  std::string content = test::read_file(path());
  auto heap = static_cast<std::uint32_t>(content.find("GCOL"));
  std::string place(8, '\0');
  std::memcpy(place.data(), &heap, sizeof heap);
  std::size_t reference = content.rfind(place);
  ASSERT_NE(reference, std::string::npos);
  for (std::string_view length : {std::string_view("\xff\xff\xff\xff", 4), std::string_view("\x64\0\0\0", 4)}) {
    test::overwrite(path(), reference - 4, std::string(length));
    EXPECT_THAT(error(),
                ::testing::AllOf(HasSubstr("'/x': the attribute 'title': a text of"), HasSubstr("bytes lies in ")));
  }
  test::overwrite(path(), reference, std::string(8, '\x7f'));
  EXPECT_THAT(error(), HasSubstr("outside the file"));
}

TEST_F(Hdf5Contradictions, ChunksThatLieOneUponTheOtherAreCorrupt) {
  test::Hdf5Maker maker(path());
  maker.chunked("x", {64}, {32}, {});
  maker.close();
  EXPECT_EQ(error(), "");
  // The second key of the tree of chunks, and the place behind it: that of the first chunk instead.
  std::string content = test::read_file(path());
  std::size_t tree = content.find("TREE", content.find("TREE") + 4);
  while (tree != std::string::npos && content[tree + 4] != 1) tree = content.find("TREE", tree + 4);
  ASSERT_NE(tree, std::string::npos);
  constexpr std::size_t kFirstChild = 24 + 24;
  constexpr std::size_t kEntry = 32;
  test::overwrite(path(), tree + kFirstChild + kEntry, content.substr(tree + kFirstChild, 8));
  EXPECT_THAT(error(), HasSubstr("'x': two of its chunks lie one upon the other at byte"));
}

TEST_F(Hdf5Contradictions, DeflateAndShuffleWithParametersThatCannotBeAreCorrupt) {
  test::Hdf5Maker maker(path());
  maker.chunked("x", {64}, {64}, {H5Z_FILTER_DEFLATE});
  maker.close();
  std::string content = test::read_file(path());
  std::size_t name = content.find("deflate");
  ASSERT_NE(name, std::string::npos);
  test::overwrite(path(), name + 8, {"\x63\0\0\0", 4});
  EXPECT_THAT(error(), HasSubstr("'/x': its deflate filter says 99 where a level of 0 to 9 was expected"));
  test::Hdf5Maker again(path());
  again.chunked("y", {64}, {64}, {H5Z_FILTER_SHUFFLE});
  again.close();
  name = test::read_file(path()).find("shuffle");
  ASSERT_NE(name, std::string::npos);
  test::overwrite(path(), name + 8, {"\3\0\0\0", 4});
  EXPECT_THAT(error(), HasSubstr("'/y': its shuffle filter says 3 where the size of an element, 4, was expected"));
}

TEST_F(Hdf5Contradictions, ValuesBehindTheStatedEndOfTheFileAreCorrupt) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {64});
  maker.close();
  constexpr std::size_t kEnd = 40;
  auto end = static_cast<std::uint32_t>(test::read_file(path()).size() - 8);
  std::string field(4, '\0');
  std::memcpy(field.data(), &end, sizeof end);
  test::overwrite(path(), kEnd, field);
  EXPECT_THAT(error(), HasSubstr("'x': its bytes end at"));
}

TEST_F(Hdf5Contradictions, ZipThatTheSuperblockClaimsIsFoundByVerify) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {64});
  maker.close();
  constexpr std::string_view kEmptyZip{"PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22};
  std::string content = test::read_file(path()) + std::string(kEmptyZip);
  constexpr std::size_t kEnd = 40;
  auto end = static_cast<std::uint32_t>(content.size());
  std::memcpy(content.data() + kEnd, &end, sizeof end);
  test::write_file(path(), content);
  VerifyResult result = verify(path());
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_THAT(result.damage[0].text, StartsWith("the directory of a zip archive stands there"));
}

/// The file behind a user block that begins with `content`.
void put_user_block(const std::filesystem::path& path, std::string content, std::size_t size = 512) {
  content.resize(size);
  std::string file = content + test::read_file(path);
  test::write_file(path, file);
}

TEST_F(Hdf5Contradictions, UserBlocksOfOthersAreSaidAndNoDamage) {
  for (const char* content : {"hello block\n", "", "\x89PNG"}) {
    test::Hdf5Maker maker(path());
    maker.floats("x", {2});
    maker.close();
    put_user_block(path(), content);
    VerifyResult result = verify(path());
    EXPECT_TRUE(result.damage.empty()) << content;
    ASSERT_EQ(result.notes.size(), 1U) << content;
    EXPECT_EQ(result.notes[0].text, "512 bytes of user block before the HDF5 data; they are not part of it");
    EXPECT_THAT(warnings(), Contains(result.notes[0].text));
  }
}

TEST_F(Hdf5Contradictions, UserBlocksThatOtherProgramsRunOrReadAreFindings) {
  const std::pair<std::string, const char*> cases[] = {
      {"\x7f"
       "ELF\2\1\1",
       "hold a program"},
      {"#!/bin/sh\n", "hold a script"},
      {std::string("title\nPK\3\4", 10), "hold a zip archive"},
      {"\x1f\x8b\x08", "hold compressed data"},
      {"cos\nsystem\n(S'ls'\ntR.", "it calls os.system('ls')"},
  };
  for (const auto& [content, text] : cases) {
    test::Hdf5Maker maker(path());
    maker.floats("x", {2});
    maker.close();
    put_user_block(path(), content);
    VerifyResult result = verify(path());
    ASSERT_FALSE(result.damage.empty()) << text;
    EXPECT_EQ(result.damage[0].subject, "user block");
    EXPECT_THAT(result.damage[0].text, HasSubstr(text));
  }
}

TEST_F(Hdf5Contradictions, ALongUserBlockThatBeginsAsGzipIsNoPackedFile) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {2});
  maker.close();
  put_user_block(path(), "\x1f\x8b\x08", 8192);
  VerifyResult result = verify(path());
  ASSERT_FALSE(result.damage.empty());
  EXPECT_EQ(result.damage[0].subject, "user block");
}

TEST_F(Hdf5Contradictions, DamagedChunksAreNamedByTheirDataset) {
  test::Hdf5Maker maker(path());
  maker.chunked("net/w", {64}, {64}, {H5Z_FILTER_FLETCHER32});
  maker.close();
  std::string content = test::read_file(path());
  std::size_t values = content.find(std::string_view("\0\0\x80\x3f\0\0\0\x40", 8));
  ASSERT_NE(values, std::string::npos);
  test::overwrite(path(), values, "x");
  EXPECT_THAT(error(), StartsWith("the dataset 'net/w' is damaged: a chunk is damaged: its Fletcher checksum is"));
}

TEST_F(Hdf5Contradictions, DatasetsAreNamedByTheirPath) {
  test::Hdf5Maker maker(path());
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  maker.empty("a/b/bomb", {1ULL << 31, 1ULL << 20}, list);
  H5Pclose(list);
  maker.close();
  EXPECT_THAT(error(), HasSubstr("'a/b/bomb': its shape declares 8192 TiB"));
}

}  // namespace
}  // namespace ckpt

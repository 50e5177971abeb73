// What an HDF5 file may ask for and does not get.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "libckpt/hdf5/filters.h"
#include "libckpt/hdf5/helper_process.h"
#include "libckpt/hdf5/tree.h"
#include "libckpt/open_save.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Hdf5Hostile : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return dir_.path() / "a.h5"; }
  std::string error(const OpenOptions& options = {}) const {
    return test::error_of([&] { open(path(), options); });
  }
  std::vector<std::string> warnings() const {
    Report report;
    open(path(), {.report = &report});
    return report.warnings;
  }
  test::TempDir dir_;
};

TEST_F(Hdf5Hostile, ExternalLinkIsRefusedAndNamed) {
  test::Hdf5Maker maker(path());
  maker.floats("ok", {2});
  maker.external_link("g/out", "/etc/passwd", "/x");
  maker.close();
  EXPECT_EQ(error(),
            "refused: the file refers to content outside the file, which is never opened: 'out' is an external link");
}

TEST_F(Hdf5Hostile, LenientReadingLeavesOutWhatLiesOutside) {
  test::Hdf5Maker maker(path());
  maker.floats("ok", {2});
  maker.external_link("out", "other.h5", "/x");
  maker.close();
  Report report;
  Checkpoint read = open(path(), {.lenient = true, .report = &report});
  EXPECT_EQ(list_entries(read.root).size(), 1U);
  EXPECT_EQ(report.relaxations.size(), 1U);
}

TEST_F(Hdf5Hostile, ExternalRawDataIsRefused) {
  test::Hdf5Maker maker(path());
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(list, "/etc/passwd", 0, 16);
  maker.empty("stolen", {4}, list);
  H5Pclose(list);
  maker.close();
  EXPECT_THAT(error(), HasSubstr("'stolen' is raw data in another file"));
}

TEST_F(Hdf5Hostile, VirtualDatasetsAreRefusedOfFixedAndOfUnlimitedSize) {
  for (hsize_t most : {hsize_t{4}, H5S_UNLIMITED}) {
    test::Hdf5Maker maker(path());
    hsize_t size = 4;
    hid_t space = H5Screate_simple(1, &size, &most);
    if (most == H5S_UNLIMITED) {
      hsize_t start = 0;
      H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, nullptr, &most, nullptr);
    }
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    ASSERT_GE(H5Pset_virtual(list, space, "other.h5", "/x", space), 0);
    hid_t made = H5Dcreate2(maker.file(), "v", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    ASSERT_GE(made, 0);
    H5Dclose(made);
    H5Pclose(list);
    H5Sclose(space);
    maker.close();
    EXPECT_THAT(error(), HasSubstr("'v' is a virtual dataset"));
  }
}

TEST_F(Hdf5Hostile, SoftLinksAreNamedAndNotFollowedWhereverTheyLead) {
  test::Hdf5Maker maker(path());
  maker.floats("ok", {2});
  maker.soft_link("loop", "/loop");
  maker.soft_link("away", "/nowhere");
  maker.close();
  EXPECT_EQ(list_entries(open(path()).root).size(), 1U);
  EXPECT_THAT(warnings(), Contains("soft links are not followed: 'away' to '/nowhere'; 'loop' to '/loop'"));
}

TEST_F(Hdf5Hostile, GroupInsideItselfIsRefused) {
  test::Hdf5Maker maker(path());
  maker.floats("a/b/x", {2});
  maker.hard_link("a/b/up", "/a");
  maker.close();
  EXPECT_THAT(error(), StartsWith("refused: the group '/a/b/up' was met before under another name"));
}

TEST_F(Hdf5Hostile, GroupWithTwoParentsIsRefused) {
  test::Hdf5Maker maker(path());
  maker.group("a");
  maker.hard_link("b", "/a");
  maker.close();
  EXPECT_THAT(error(), StartsWith("refused: the group '/b' was met before"));
}

TEST_F(Hdf5Hostile, RootInsideItselfIsRefused) {
  test::Hdf5Maker maker(path());
  maker.hard_link("again", "/");
  maker.close();
  EXPECT_THAT(error(), StartsWith("refused: the group '/again' was met before"));
}

TEST_F(Hdf5Hostile, DepthOfGroupsIsLimited) {
  auto nested = [&](int depth) {
    test::Hdf5Maker maker(path());
    std::string name = "x";
    for (int i = 0; i < depth; ++i) name.insert(0, "g/");
    maker.floats(name, {1});
  };
  nested(32);
  EXPECT_EQ(error(), "");
  nested(33);
  EXPECT_EQ(error(), "refused: groups are nested deeper than 32 levels");
}

TEST_F(Hdf5Hostile, NumberOfLinksIsLimited) {
  test::Hdf5Maker maker(path());
  for (const char* name : {"a", "b", "c"}) maker.floats(name, {1});
  maker.close();
  EXPECT_EQ(error({.limits = {.max_tensors = 3}}), "");
  EXPECT_EQ(error({.limits = {.max_tensors = 2}}), "refused: it has more than 2 links");
}

TEST_F(Hdf5Hostile, NamesThatAreNoUtf8AreRefused) {
  test::Hdf5Maker maker(path());
  maker.floats("bad\xff", {1});
  maker.close();
  EXPECT_EQ(error(), "refused: the group '/' has a link with an impossible name: 'bad\\xff'");
}

TEST_F(Hdf5Hostile, ShapeBombsAreRefusedByName) {
  test::Hdf5Maker maker(path());
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  maker.empty("bomb", {1ULL << 31, 1ULL << 20}, list);
  H5Pclose(list);
  maker.close();
  EXPECT_EQ(error(),
            "refused: its shape declares 8192 TiB where 0 B are stored; more than 1000 times as much is not read");
}

TEST_F(Hdf5Hostile, ShapesPast63BitsAreRefused) {
  test::Hdf5Maker maker(path());
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  hsize_t chunk[] = {1, 1};
  H5Pset_chunk(list, 2, chunk);
  maker.empty("bomb", {1ULL << 40, 1ULL << 40}, list);
  H5Pclose(list);
  maker.close();
  EXPECT_NE(error(), "");
}

TEST_F(Hdf5Hostile, UnwrittenDatasetsOfModestSizeHoldTheirFillValue) {
  test::Hdf5Maker maker(path());
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  const float fill = 2.5F;
  H5Pset_fill_value(list, H5T_NATIVE_FLOAT, &fill);
  maker.empty("filled", {3}, list);
  H5Pclose(list);
  maker.close();
  core::ByteVector bytes = read_all(*open(path()).root.find("filled")->as_entry().bytes);
  EXPECT_EQ(core::load_le<float>(bytes.data() + 8), 2.5F);
}

TEST_F(Hdf5Hostile, UnknownFiltersAreListedByNumberAndRefusedWhenRead) {
  test::Hdf5Maker maker(path());
  maker.raw_chunk("x", {4}, {40000}, {1, 2, 3});
  maker.raw_chunk("y", {4}, {32001}, {1, 2, 3});
  maker.close();
  Checkpoint read = open(path());
  EXPECT_EQ(test::error_of([&] { read_all(*read.root.find("x")->as_entry().bytes); }),
            "unsupported: the dataset 'x' cannot be read: filter 40000 is not supported");
  EXPECT_EQ(test::error_of([&] { read_all(*read.root.find("y")->as_entry().bytes); }),
            "unsupported: the dataset 'y' cannot be read: filter 32001 (blosc) is not supported");
  EXPECT_EQ(verify(path()).damage.size(), 2U);
}

TEST_F(Hdf5Hostile, StackedCompressorsAreNotDecoded) {
  test::Hdf5Maker maker(path());
  maker.raw_chunk("x", {4}, {H5Z_FILTER_DEFLATE, 32015}, {1, 2, 3});
  maker.close();
  EXPECT_THAT(warnings().front(), HasSubstr("several compressing filters"));
}

TEST_F(Hdf5Hostile, CompressedChunksOfAnotherSizeAreCorrupt) {
  test::Hdf5Maker maker(path());
  maker.raw_chunk("junk", {4}, {H5Z_FILTER_DEFLATE}, {0x78, 0x9c, 1, 2, 3});
  maker.raw_chunk("short", {4}, {H5Z_FILTER_FLETCHER32}, {1, 2});
  maker.close();
  Checkpoint read = open(path());
  EXPECT_THAT(test::error_of([&] { read_all(*read.root.find("junk")->as_entry().bytes); }), StartsWith("corrupt: "));
  EXPECT_EQ(test::error_of([&] { read_all(*read.root.find("short")->as_entry().bytes); }),
            "corrupt: a chunk is shorter than its checksum");
}

TEST_F(Hdf5Hostile, HugeChunksAreRefused) {
  test::Hdf5Maker maker(path());
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  hsize_t chunk = 1ULL << 29;
  H5Pset_chunk(list, 1, &chunk);
  maker.empty("x", {1ULL << 29}, list);
  H5Pclose(list);
  maker.close();
  EXPECT_EQ(error(), "refused: its chunks are 2.0 GiB each; the limit is 1.0 GiB");
}

TEST_F(Hdf5Hostile, ElementsThatAreNoNumbersAreNamedAndLeftOut) {
  test::Hdf5Maker maker(path());
  hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  maker.typed("words", text);
  H5Tclose(text);
  maker.typed("pointers", H5T_STD_REF_OBJ);
  maker.floats("ok", {1});
  maker.close();
  EXPECT_EQ(list_entries(open(path()).root).size(), 1U);
  EXPECT_THAT(warnings(), Contains("no tensors and therefore left out: 'pointers' (references to other objects); "
                                   "'words' (text of any length)"));
}

/// Where the message that describes the type of a float32 dataset says how wide an element is.
std::size_t size_field_of_floats(const std::filesystem::path& path) {
  constexpr std::string_view kFloat32{"\x11\x20\x1f\0\4\0\0\0", 8};
  std::size_t at = test::read_file(path).find(kFloat32);
  if (at == std::string::npos) throw std::runtime_error("no float32 in the file");
  return at + 4;
}

TEST_F(Hdf5Hostile, TypesOfAnotherSizeThanTheirBytesAreCorrupt) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {64});
  maker.close();
  std::size_t at = size_field_of_floats(path());
  const std::pair<std::uint32_t, const char*> cases[] = {
      {0, "elements of 0 bytes"},
      {3, "elements of 3 bytes that hold numbers of 32 bits"},
      {8, "it holds 256 bytes where its shape and elements of 8 bytes need 512"},
      {UINT32_MAX, "it holds 256 bytes where its shape and elements of 4294967295 bytes need"},
  };
  for (const auto& [size, text] : cases) {
    char field[4];
    std::memcpy(field, &size, sizeof field);
    test::overwrite(path(), at, {field, sizeof field});
    EXPECT_THAT(error(), ::testing::AllOf(StartsWith("corrupt: HDF5: '/x': "), HasSubstr(text)));
  }
}

TEST_F(Hdf5Hostile, ChunksOfAnotherElementSizeThanTheTypeAreCorrupt) {
  test::Hdf5Maker maker(path());
  maker.chunked("x", {64}, {64}, {H5Z_FILTER_DEFLATE});
  maker.close();
  EXPECT_EQ(error(), "");
  // Version 3, in chunks, two sizes: one dimension and the element.
  std::size_t layout = test::read_file(path()).find("\3\2\2");
  ASSERT_NE(layout, std::string::npos);
  constexpr std::size_t kElement = 15;
  test::overwrite(path(), layout + kElement, {"\0\0\0\4", 4});  // with 2^6 elements: 2^32 bytes a chunk and more
  EXPECT_NE(error(), "");
  test::overwrite(path(), layout + kElement, {"\10\0\0\0", 4});
  EXPECT_THAT(error(), HasSubstr("'/x': its chunks have elements of 8 bytes and its type has 4"));
  test::overwrite(path(), layout + kElement, {"\4\0\0\0", 4});
  test::overwrite(path(), size_field_of_floats(path()), {"\10\0\0\0", 4});
  EXPECT_THAT(error(), HasSubstr("'/x': its chunks have elements of 4 bytes and its type has 8"));
}

TEST_F(Hdf5Hostile, ChunkedLayoutOfTwoToTheSixtyTwoIsRefused) {
  test::Hdf5Maker maker(path());
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  hsize_t chunk = 1024;
  H5Pset_chunk(list, 1, &chunk);
  maker.empty("x", {1ULL << 60}, list);
  H5Pclose(list);
  maker.close();
  EXPECT_THAT(error(), StartsWith("refused: its shape declares 4194304 TiB where 0 B are stored"));
}

TEST_F(Hdf5Hostile, ZipBehindAnHdf5FileIsFoundByVerify) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {2});
  maker.close();
  EXPECT_TRUE(verify(path()).damage.empty());
  constexpr std::string_view kEmptyZip{"PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22};
  test::write_file(path(), test::read_file(path()) + std::string(kEmptyZip));
  VerifyResult result = verify(path());
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_THAT(
      result.damage.front().text,
      StartsWith("22 bytes follow the end of the HDF5 part and belong to nothing in it; the directory of a zip"));
  EXPECT_THAT(warnings(), Contains("22 B after the end of the HDF5 part were not read"));
}

TEST_F(Hdf5Hostile, TimeIsLimited) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {1});
  maker.close();
  EXPECT_THAT(
      error({.limits = {.max_helper_seconds = 0}}),
      StartsWith("refused: reading the structure of this HDF5 file takes more than the limit of 0 s; it was at: "));
}

TEST_F(Hdf5Hostile, AnyFlippedByteIsReadOrRefused) {
  test::Hdf5Maker maker(path());
  maker.floats("a/plain", {3, 5});
  maker.chunked("a/packed", {40, 30}, {16, 16}, {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32});
  maker.text("a", "title", "text");
  maker.close();
  std::string content = test::read_file(path());
  for (std::size_t at = 0; at < content.size(); at += 37) {
    test::overwrite(path(), at, std::string(1, static_cast<char>(content[at] ^ 0x51)));
    test::error_of([&] {  // anything but an Error ends the test program
      for (const NamedEntry& named : list_entries(open(path()).root)) {
        if (named.entry->byte_size() < (1 << 20)) read_all(*named.entry->bytes);
      }
    });
    test::overwrite(path(), at, content.substr(at, 1));
  }
  EXPECT_EQ(error(), "");
}

// The answer of the helper is a file like any other.
TEST_F(Hdf5Hostile, AnyByteOfAnAnswerIsReadOrRefused) {
  test::Hdf5Maker maker(path());
  maker.floats("a/plain", {3, 5});
  maker.chunked("a/packed", {40, 30}, {16, 16}, {H5Z_FILTER_DEFLATE});
  maker.number("a", "n", 7);
  maker.close();
  SourcePtr file = open_file(path());
  core::ByteVector answer =
      detail::run_hdf5_helper(*file, {.max_objects = 100, .max_depth = 32, .seconds = 10, .max_answer = 1 << 20});
  for (std::size_t at = 0; at < answer.size(); ++at) {
    std::byte kept = answer[at];
    for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      answer[at] = static_cast<std::byte>(value);
      test::error_of([&] { detail::parse_walk(answer, file->size(), {}); });
    }
    answer[at] = kept;
  }
  for (std::size_t length = 0; length < answer.size(); ++length) {
    EXPECT_NE(test::error_of([&] { detail::parse_walk(core::Bytes(answer).first(length), file->size(), {}); }), "");
  }
  EXPECT_EQ(detail::parse_walk(answer, file->size(), {}).objects.size(), 4U);
}

TEST_F(Hdf5Hostile, RangesOutsideTheFileAreCorrupt) {
  test::Hdf5Maker maker(path());
  maker.floats("x", {64});
  maker.close();
  SourcePtr file = open_file(path());
  core::ByteVector answer =
      detail::run_hdf5_helper(*file, {.max_objects = 100, .max_depth = 32, .seconds = 10, .max_answer = 1 << 20});
  EXPECT_THAT(test::error_of([&] { detail::parse_walk(answer, 300, {}); }),
              HasSubstr("lie outside the file of 300 bytes"));
}

}  // namespace
}  // namespace ckpt

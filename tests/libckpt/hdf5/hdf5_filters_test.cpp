// Chunks of every filter in every corner of a grid.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libckpt/hdf5/filters.h"
#include "libckpt/io/codec.h"
#include "libckpt/open_save.h"
#include "tests/libckpt/format/native_support.h"
#include "tests/libckpt/hdf5/hdf5_maker.h"
#include "tests/support/temp_dir.h"

namespace ckpt {
namespace {

using ::testing::HasSubstr;

core::ByteVector lzf(std::initializer_list<int> packed, std::size_t size) {
  core::ByteVector in;
  for (int byte : packed) in.push_back(static_cast<std::byte>(byte));
  core::ByteVector out(size);
  lzf_decompress(in, out);
  return out;
}

std::string text(const core::ByteVector& bytes) {
  return std::string(core::as_text(bytes));
}

TEST(Lzf, LiteralsAndReferences) {
  EXPECT_EQ(text(lzf({2, 'a', 'b', 'c'}, 3)), "abc");
  EXPECT_EQ(text(lzf({2, 'a', 'b', 'c', 1 << 5, 2}, 6)), "abcabc");  // three bytes from three back
  EXPECT_EQ(text(lzf({0, 'a', 7 << 5, 1, 0}, 11)), "aaaaaaaaaaa");   // a long one that overlaps itself
}

TEST(Lzf, DamageIsNamed) {
  EXPECT_EQ(test::error_of([] {
              lzf({5, 'a'}, 6);
            }),
            "corrupt: compressed data is damaged: it ends in the middle of a run");
  EXPECT_EQ(test::error_of([] {
              lzf({0, 'a', 1 << 5, 4}, 4);
            }),
            "corrupt: compressed data is damaged: it refers to bytes before its beginning");
  EXPECT_EQ(test::error_of([] {
              lzf({2, 'a', 'b', 'c'}, 2);
            }),
            "corrupt: compressed data is damaged: it holds more bytes than recorded");
  EXPECT_EQ(test::error_of([] {
              lzf({2, 'a', 'b', 'c'}, 4);
            }),
            "corrupt: compressed data is damaged: it holds 3 bytes where 4 are recorded");
}

TEST(Fletcher, KnownSums) {
  EXPECT_EQ(detail::fletcher32(core::as_bytes("")), 0U);
  EXPECT_EQ(detail::fletcher32(core::as_bytes("abcd")), 0x2629c4c6U);
  EXPECT_EQ(detail::fletcher32(core::as_bytes("abcde")), 0x4ff029c7U);
}

/// Every dataset holds 0, 1, 2, ... and is read whole and in pieces of odd sizes.
void expect_counted(const Entry& entry) {
  core::ByteVector whole = read_all(*entry.bytes);
  for (std::size_t i = 0; i * 4 < whole.size(); ++i) {
    ASSERT_EQ(core::load_le<float>(whole.data() + 4 * i), static_cast<float>(i)) << i;
  }
  for (std::size_t step : {1U, 7U, 64U, 1000U}) {
    core::ByteVector pieces(whole.size());
    for (std::size_t at = 0; at < whole.size(); at += step) {
      entry.bytes->read(at, MutableBytes(pieces).subspan(at, std::min(step, whole.size() - at)));
    }
    ASSERT_EQ(pieces, whole) << step;
  }
}

TEST(Hdf5Chunks, EveryFilterAndGridComesBack) {
  test::TempDir dir;
  std::filesystem::path path = dir.path() / "a.h5";
  test::Hdf5Maker maker(path);
  maker.chunked("plain", {10, 6}, {4, 4}, {});
  maker.chunked("gzip", {10, 6}, {4, 4}, {H5Z_FILTER_DEFLATE});
  maker.chunked("all", {9, 5, 3}, {4, 2, 3}, {H5Z_FILTER_SHUFFLE, H5Z_FILTER_DEFLATE, H5Z_FILTER_FLETCHER32});
  maker.chunked("sum_inside", {30}, {8}, {H5Z_FILTER_FLETCHER32, H5Z_FILTER_DEFLATE});
  maker.chunked("rows", {7, 5}, {2, 5}, {H5Z_FILTER_SHUFFLE});
  maker.chunked("one", {5}, {5}, {H5Z_FILTER_DEFLATE});
  maker.close();
  for (const NamedEntry& named : list_entries(open(path).root)) {
    SCOPED_TRACE(named.name);
    expect_counted(*named.entry);
  }
  EXPECT_TRUE(verify(path).damage.empty());
}

TEST(Hdf5Chunks, DamageIsFoundByItsChecksum) {
  test::TempDir dir;
  std::filesystem::path path = dir.path() / "a.h5";
  test::Hdf5Maker maker(path);
  maker.chunked("x", {64}, {64}, {H5Z_FILTER_FLETCHER32});
  maker.close();
  std::string content = test::read_file(path);
  std::size_t at = content.find(std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  ASSERT_NE(at, std::string::npos);
  test::overwrite(path, at + 2, "X");
  VerifyResult result = verify(path);
  ASSERT_EQ(result.damage.size(), 1U);
  EXPECT_EQ(result.damage[0].subject, "x");
  EXPECT_THAT(result.damage[0].text, HasSubstr("Fletcher checksum"));
}

}  // namespace
}  // namespace ckpt

#include "libckpt/io/byte_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/byte_sink.h"
#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace {

core::ByteVector bytes_of(std::string_view text) {
  core::Bytes bytes = core::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const ckpt::ByteSource& source) {
  return std::string(core::as_text(ckpt::read_all(source)));
}

core::ErrorCode code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.code();
  }
  return core::ErrorCode::internal;
}

TEST(FileSource, ReadsAnywhere) {
  test::TempDir dir;
  test::write_file(dir.path() / "a", "0123456789");
  ckpt::SourcePtr file = ckpt::open_file(dir.path() / "a");
  core::ByteVector part(4);
  file->read(6, part);
  EXPECT_EQ(core::as_text(part), "6789");
  EXPECT_EQ(file->file_range()->length, 10U);
}

TEST(FileSource, PastTheEndIsCorrupt) {
  test::TempDir dir;
  test::write_file(dir.path() / "a", "0123456789");
  ckpt::SourcePtr file = ckpt::open_file(dir.path() / "a");
  core::ByteVector part(4);
  EXPECT_EQ(code_of([&] { file->read(7, part); }), core::ErrorCode::corrupt);
  EXPECT_EQ(code_of([&] { file->read(UINT64_MAX, part); }), core::ErrorCode::corrupt);
}

TEST(FileSource, ShrunkMeanwhileIsAnIoError) {
  test::TempDir dir;
  test::write_file(dir.path() / "a", "0123456789");
  ckpt::SourcePtr file = ckpt::open_file(dir.path() / "a");
  std::filesystem::resize_file(dir.path() / "a", 5);
  EXPECT_EQ(code_of([&] { ckpt::read_all(*file); }), core::ErrorCode::io);
}

TEST(FileSource, OnlyRegularFiles) {
  test::TempDir dir;
  ::mkfifo((dir.path() / "pipe").c_str(), 0600);
  EXPECT_EQ(code_of([&] { ckpt::open_file(dir.path() / "pipe"); }), core::ErrorCode::io);
  EXPECT_EQ(code_of([&] { ckpt::open_file(dir.path()); }), core::ErrorCode::io);
  EXPECT_EQ(code_of([&] { ckpt::open_file(dir.path() / "none"); }), core::ErrorCode::io);
}

TEST(Slice, OfASlice) {
  ckpt::SourcePtr whole = ckpt::memory_source(bytes_of("0123456789"));
  ckpt::SourcePtr part = ckpt::slice(ckpt::slice(whole, 2, 6), 1, 3);
  EXPECT_EQ(text_of(*part), "345");
  EXPECT_EQ(core::as_text(part->memory()), "345");
  EXPECT_EQ(ckpt::slice(whole, 0, 10), whole);
}

TEST(Slice, CannotReachBeyondItsWhole) {
  ckpt::SourcePtr whole = ckpt::memory_source(bytes_of("0123456789"));
  EXPECT_EQ(code_of([&] { ckpt::slice(whole, 8, 3); }), core::ErrorCode::corrupt);
  EXPECT_EQ(code_of([&] { ckpt::slice(whole, 2, UINT64_MAX); }), core::ErrorCode::corrupt);
  core::ByteVector part(2);
  EXPECT_EQ(code_of([&] { ckpt::slice(whole, 2, 3)->read(2, part); }), core::ErrorCode::corrupt);
}

TEST(Slice, KnowsItsRangeOfTheFile) {
  test::TempDir dir;
  test::write_file(dir.path() / "a", "0123456789");
  ckpt::SourcePtr part = ckpt::slice(ckpt::open_file(dir.path() / "a"), 3, 4);
  EXPECT_EQ(part->file_range()->offset, 3U);
  EXPECT_EQ(part->file_range()->length, 4U);
}

TEST(BufferedSink, KeepsTheOrderOfSmallAndLargeWrites) {
  ckpt::MemorySink memory;
  ckpt::BufferedSink out(memory);
  std::string large(200'000, 'L');
  out.write(core::as_bytes("a"));
  out.write(core::as_bytes(large));
  out.write_from(*ckpt::memory_source(bytes_of("b")));
  out.write_from(*ckpt::memory_source(bytes_of(large)));
  out.write(core::as_bytes("c"));
  EXPECT_EQ(out.position(), 400'003U);
  out.flush();
  EXPECT_EQ(core::as_text(memory.bytes()), "a" + large + "b" + large + "c");
}

TEST(ByteCursor, NeverReadsPastTheEnd) {
  core::ByteVector bytes = bytes_of("\x01\x02\x03\x04\x05");
  ckpt::ByteCursor in(bytes, "the index");
  EXPECT_EQ(in.take<std::uint16_t>(), 0x0201);
  EXPECT_EQ(in.take_be<std::uint16_t>(), 0x0304);
  EXPECT_EQ(code_of([&] { in.take<std::uint16_t>(); }), core::ErrorCode::corrupt);
  EXPECT_EQ(code_of([&] { in.skip(UINT64_MAX); }), core::ErrorCode::corrupt);
  EXPECT_EQ(code_of([&] { in.seek(6); }), core::ErrorCode::corrupt);
  EXPECT_EQ(in.take<std::uint8_t>(), 5);
  EXPECT_TRUE(in.at_end());
}

}  // namespace

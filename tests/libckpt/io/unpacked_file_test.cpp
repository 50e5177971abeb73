#include "libckpt/io/unpacked_file.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "libcore/base/error.h"

namespace {

using ckpt::detail::Packer;
using ckpt::detail::packer_of;

ckpt::SourcePtr source_of(const std::string& content) {
  core::Bytes bytes = core::as_bytes(content);
  return ckpt::memory_source({bytes.begin(), bytes.end()});
}
std::string zstd(const std::string& content) {
  std::string out(ZSTD_compressBound(content.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), content.data(), content.size(), 1));
  return out;
}
std::string gzip(const std::string& content) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}
std::string unpacked(const std::string& packed, Packer packer) {
  ckpt::SourcePtr source = ckpt::detail::unpacked(*source_of(packed), packer, 1ULL << 30);
  return std::string(core::as_text(ckpt::read_all(*source)));
}

TEST(UnpackedFile, OfEverySizeAroundThatOfTheBuffer) {
  for (std::size_t size : {0U, 1U, (1U << 20) - 1, 1U << 20, (1U << 20) + 1, 3U << 20}) {
    const std::string content(size, 'x');
    EXPECT_EQ(unpacked(zstd(content), Packer::zstd), content) << size;
    EXPECT_EQ(unpacked(zstd(content) + zstd("more"), Packer::zstd), content + "more") << size;
    EXPECT_EQ(unpacked(gzip(content), Packer::gzip), content) << size;
  }
}

TEST(UnpackedFile, OneThatIsCutOffIsRefused) {
  const std::string content(1U << 20, 'x');
  for (Packer packer : {Packer::zstd, Packer::gzip}) {
    std::string packed = packer == Packer::zstd ? zstd(content) : gzip(content);
    packed.pop_back();
    EXPECT_THROW(unpacked(packed, packer), core::Error) << name(packer);
  }
}

TEST(UnpackedFile, AFrameThatIsPassedOverMayStandFirst) {
  const std::string packed = std::string("\x50\x2a\x4d\x18\x04\0\0\0skip", 12) + zstd("content");
  EXPECT_EQ(packer_of(core::as_bytes(packed)), Packer::zstd);
  EXPECT_EQ(unpacked(packed, Packer::zstd), "content");
}

TEST(UnpackedFile, AHeaderOfSafetensorsIsNoGzip) {
  EXPECT_EQ(packer_of(core::as_bytes(gzip("content"))), Packer::gzip);
  // The lengths 0x8b1f and 0x088b1f.
  EXPECT_EQ(packer_of(core::as_bytes(std::string("\x1f\x8b\0\0\0\0\0\0{\"w\":", 13))), Packer::none);
  EXPECT_EQ(packer_of(core::as_bytes(std::string("\x1f\x8b\x08\0\0\0\0\0{\"w\":", 13))), Packer::none);
}

TEST(UnpackedFile, OfZlib) {
  const std::string content(3U << 20, 'x');
  std::string packed(compressBound(content.size()), '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(content.data()),
                      content.size(), 3),
            Z_OK);
  packed.resize(size);
  EXPECT_EQ(packer_of(core::as_bytes(packed)), Packer::zlib);
  EXPECT_EQ(unpacked(packed, Packer::zlib), content);
  EXPECT_THROW(unpacked(packed + packed, Packer::zlib), core::Error);
  packed.pop_back();
  EXPECT_THROW(unpacked(packed, Packer::zlib), core::Error);
  // The length of a safetensors header.
  EXPECT_EQ(packer_of(core::as_bytes(std::string("\x78\x9c\0\0\0\0\0\0{\"w\":", 13))), Packer::none);
}

}  // namespace

#include "libckpt/io/codec.h"

#include <libdeflate.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <new>
#include <string>

#include "libckpt/io/idle_contexts.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

auto compression_context() {
  static auto& contexts = *new detail::IdleContexts<ZSTD_CCtx, ZSTD_createCCtx, ZSTD_freeCCtx>();
  return contexts.borrow();
}

auto decompression_context() {
  static auto& contexts = *new detail::IdleContexts<ZSTD_DCtx, ZSTD_createDCtx, ZSTD_freeDCtx>();
  return contexts.borrow();
}

auto inflater() {
  static auto& contexts =
      *new detail::IdleContexts<libdeflate_decompressor, libdeflate_alloc_decompressor, libdeflate_free_decompressor>();
  return contexts.borrow();
}

/// zstd's word for an allocation that failed says nothing about the data.
void require_memory(std::size_t result) {
  if (ZSTD_isError(result) != 0 && ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorCode::corrupt, "compressed data is damaged: " + what);
}

void require_size(std::size_t size, std::size_t expected) {
  if (size == expected) return;
  damaged("it holds " + std::to_string(size) + " bytes where " + std::to_string(expected) + " are recorded");
}

void require_inflated(libdeflate_result result, std::size_t used, std::size_t size) {
  if (result == LIBDEFLATE_SHORT_OUTPUT) damaged("it holds fewer bytes than recorded");
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) damaged("it holds more bytes than recorded");
  if (result != LIBDEFLATE_SUCCESS) damaged("it cannot be inflated");
  if (used != size) damaged("more bytes follow its end");
}

}  // namespace

ByteVector zstd_compress(Bytes bytes, int level) {
  ByteVector frame(zstd_bound(bytes.size()));
  std::size_t size =
      ZSTD_compressCCtx(compression_context().get(), frame.data(), frame.size(), bytes.data(), bytes.size(), level);
  require_memory(size);
  if (ZSTD_isError(size) != 0) throw Error(ErrorCode::internal, std::string("zstd: ") + ZSTD_getErrorName(size));
  frame.resize(size);
  return frame;
}

std::uint64_t zstd_bound(std::uint64_t size) {
  return ZSTD_compressBound(size);
}

std::optional<std::uint64_t> zstd_content_size(Bytes frame) {
  unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR) return std::nullopt;
  return size;
}

void zstd_decompress(Bytes frame, MutableBytes out) {
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    damaged("it is not exactly one zstd frame");
  }
  std::size_t size =
      ZSTD_decompressDCtx(decompression_context().get(), out.data(), out.size(), frame.data(), frame.size());
  require_memory(size);
  if (ZSTD_isError(size) != 0) damaged(ZSTD_getErrorName(size));
  require_size(size, out.size());
}

ByteVector zstd_decompress(Bytes frame, std::uint64_t expected_size) {
  ByteVector out(expected_size);
  zstd_decompress(frame, out);
  return out;
}

void zstd_decompress_frames(Bytes frames, MutableBytes out) {
  std::size_t size =
      ZSTD_decompressDCtx(decompression_context().get(), out.data(), out.size(), frames.data(), frames.size());
  require_memory(size);
  if (ZSTD_isError(size) != 0) damaged(ZSTD_getErrorName(size));
  require_size(size, out.size());
}

void inflate(Bytes deflated, MutableBytes out) {
  std::size_t used = 0;
  libdeflate_result result = libdeflate_deflate_decompress_ex(inflater().get(), deflated.data(), deflated.size(),
                                                              out.data(), out.size(), &used, nullptr);
  require_inflated(result, used, deflated.size());
}

void inflate_zlib(Bytes stream, MutableBytes out) {
  std::size_t used = 0;
  libdeflate_result result = libdeflate_zlib_decompress_ex(inflater().get(), stream.data(), stream.size(), out.data(),
                                                           out.size(), &used, nullptr);
  require_inflated(result, used, stream.size());
}

ByteVector deflate_zlib(Bytes bytes, int level) {
  detail::Handle<libdeflate_compressor, libdeflate_free_compressor> deflater(
      detail::require_made(libdeflate_alloc_compressor(level)));
  ByteVector stream(deflate_bound(bytes.size()));
  stream.resize(libdeflate_zlib_compress(deflater.get(), bytes.data(), bytes.size(), stream.data(), stream.size()));
  return stream;
}

std::uint64_t deflate_bound(std::uint64_t size) {
  return libdeflate_zlib_compress_bound(nullptr, size);
}

// A control byte below 32 stands before that many bytes plus one; any other is a reference back: its upper three bits
// are the length less two (7: one more byte follows), the other five and the next byte the distance less one.
void lzf_decompress(Bytes packed, MutableBytes out) {
  std::size_t in = 0;
  std::size_t at = 0;
  auto take = [&]() -> std::size_t {
    if (in == packed.size()) damaged("it ends in the middle of a run");
    return static_cast<std::size_t>(packed[in++]);
  };
  auto require_room = [&](std::size_t length) {
    if (length > out.size() - at) damaged("it holds more bytes than recorded");
  };
  while (in < packed.size()) {
    std::size_t control = take();
    if (control < 32) {
      std::size_t length = control + 1;
      if (length > packed.size() - in) damaged("it ends in the middle of a run");
      require_room(length);
      std::memcpy(out.data() + at, packed.data() + in, length);
      in += length;
      at += length;
      continue;
    }
    std::size_t length = control >> 5;
    if (length == 7) length += take();
    length += 2;
    std::size_t distance = ((control & 31) << 8) + take() + 1;
    if (distance > at) damaged("it refers to bytes before its beginning");
    require_room(length);
    for (std::size_t i = 0; i < length; ++i, ++at) out[at] = out[at - distance];  // may overlap itself
  }
  require_size(at, out.size());
}

}  // namespace ckpt

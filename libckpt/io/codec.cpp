#include "libckpt/io/codec.h"

#include <libdeflate.h>
#include <zstd.h>

#include <memory>
#include <new>
#include <string>

#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

template <class T, auto kFree>
struct Free {
  void operator()(T* pointer) const { kFree(pointer); }
};
template <class T, auto kFree>
using Handle = std::unique_ptr<T, Free<T, kFree>>;

template <class T>
T* require_made(T* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

// Contexts cost more than a small frame; one of each a thread is kept.

ZSTD_CCtx* compression_context() {
  thread_local Handle<ZSTD_CCtx, ZSTD_freeCCtx> context(require_made(ZSTD_createCCtx()));
  return context.get();
}

ZSTD_DCtx* decompression_context() {
  thread_local Handle<ZSTD_DCtx, ZSTD_freeDCtx> context(require_made(ZSTD_createDCtx()));
  return context.get();
}

libdeflate_decompressor* inflater() {
  thread_local Handle<libdeflate_decompressor, libdeflate_free_decompressor> context(
      require_made(libdeflate_alloc_decompressor()));
  return context.get();
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error(ErrorCode::corrupt, "compressed data is damaged: " + what);
}

/// Fixed widths let the compiler unroll the inner loop.
template <std::uint32_t kWidth>
void transpose(const std::byte* in, std::byte* out, std::size_t count, bool forward) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uint32_t b = 0; b < kWidth; ++b) {
      if (forward) {
        out[b * count + i] = in[i * kWidth + b];
      } else {
        out[i * kWidth + b] = in[b * count + i];
      }
    }
  }
}

void transpose_any(const std::byte* in, std::byte* out, std::size_t count, std::uint32_t width, bool forward) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uint32_t b = 0; b < width; ++b) {
      std::size_t packed = i * width + b;
      std::size_t planar = b * count + i;
      out[forward ? planar : packed] = in[forward ? packed : planar];
    }
  }
}

void shuffle_either(Bytes in, std::uint32_t width, MutableBytes out, bool forward) {
  std::size_t count = in.size() / width;
  switch (width) {
    case 2:
      transpose<2>(in.data(), out.data(), count, forward);
      break;
    case 4:
      transpose<4>(in.data(), out.data(), count, forward);
      break;
    case 8:
      transpose<8>(in.data(), out.data(), count, forward);
      break;
    default:
      transpose_any(in.data(), out.data(), count, width, forward);
  }
  std::size_t done = count * width;
  if (done < in.size()) std::memcpy(out.data() + done, in.data() + done, in.size() - done);
}

}  // namespace

ByteVector zstd_compress(Bytes bytes, int level) {
  ByteVector frame(zstd_bound(bytes.size()));
  std::size_t size =
      ZSTD_compressCCtx(compression_context(), frame.data(), frame.size(), bytes.data(), bytes.size(), level);
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
  std::size_t size = ZSTD_decompressDCtx(decompression_context(), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) damaged(ZSTD_getErrorName(size));
  if (size != out.size()) {
    damaged("it holds " + std::to_string(size) + " bytes where " + std::to_string(out.size()) + " are recorded");
  }
}

ByteVector zstd_decompress(Bytes frame, std::uint64_t expected_size) {
  ByteVector out(expected_size);
  zstd_decompress(frame, out);
  return out;
}

void shuffle(Bytes in, std::uint32_t width, MutableBytes out) {
  shuffle_either(in, width, out, true);
}

void unshuffle(Bytes in, std::uint32_t width, MutableBytes out) {
  shuffle_either(in, width, out, false);
}

void inflate(Bytes deflated, MutableBytes out) {
  std::size_t used = 0;
  libdeflate_result result = libdeflate_deflate_decompress_ex(inflater(), deflated.data(), deflated.size(), out.data(),
                                                              out.size(), &used, nullptr);
  if (result == LIBDEFLATE_SHORT_OUTPUT) damaged("it holds fewer bytes than recorded");
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) damaged("it holds more bytes than recorded");
  if (result != LIBDEFLATE_SUCCESS) damaged("it cannot be inflated");
  if (used != deflated.size()) damaged("more bytes follow behind its end");
}

}  // namespace ckpt

#include "libckpt/io/codec.h"

#include <libdeflate.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

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

/// Contexts cost more than a small frame, so they are kept, as many as were used at once. (Not one a thread: a
/// thread_local that has a destructor ends the process where memory for its registration is lacking.) Never destroyed:
/// a save may still run when the program ends.
template <class T, auto kMake, auto kFree>
class Contexts {
 public:
  /// One of them, until it goes.
  class Borrowed {
   public:
    explicit Borrowed(Contexts& home) : home_(home), context_(home.take()) {}
    ~Borrowed() { home_.give_back(std::move(context_)); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    T* get() const { return context_.get(); }

   private:
    Contexts& home_;
    Handle<T, kFree> context_;
  };

  Borrowed borrow() { return Borrowed(*this); }

 private:
  Handle<T, kFree> take() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      Handle<T, kFree> made(require_made(kMake()));
      idle_.reserve(++made_);  // so that giving back needs no memory
      return made;
    }
    Handle<T, kFree> context = std::move(idle_.back());
    idle_.pop_back();
    return context;
  }
  void give_back(Handle<T, kFree> context) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(context));
  }

  std::mutex mutex_;
  std::vector<Handle<T, kFree>> idle_;
  std::size_t made_ = 0;
};

auto compression_context() {
  static auto& contexts = *new Contexts<ZSTD_CCtx, ZSTD_createCCtx, ZSTD_freeCCtx>();
  return contexts.borrow();
}

auto decompression_context() {
  static auto& contexts = *new Contexts<ZSTD_DCtx, ZSTD_createDCtx, ZSTD_freeDCtx>();
  return contexts.borrow();
}

auto inflater() {
  static auto& contexts =
      *new Contexts<libdeflate_decompressor, libdeflate_alloc_decompressor, libdeflate_free_decompressor>();
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

void shuffle(Bytes in, std::uint32_t width, MutableBytes out) {
  shuffle_either(in, width, out, true);
}

void unshuffle(Bytes in, std::uint32_t width, MutableBytes out) {
  shuffle_either(in, width, out, false);
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

// Byte planes in one zstd frame (RFC 8878). Weights have planes of noise, which a search for repetitions only slows
// down, and planes of exponents, which gain from Huffman's codes and from nothing else. zstd cannot be told so of parts
// of a frame, but its blocks can stand side by side: without sequences no block refers to another one, but for the
// codes that it may take over from the one before, which is of the same plane.

#define ZSTD_STATIC_LINKING_ONLY  // ZSTD_compressSequences(): blocks cut where we say, without a search
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/io/codec.h"
#include "libckpt/io/idle_contexts.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

constexpr std::size_t kMaxBlock = ZSTD_BLOCKSIZE_MAX;
constexpr std::size_t kBlockHead = 3;
constexpr std::size_t kSmallest = 256;             ///< bytes; of less there is no telling planes apart
constexpr std::size_t kLargest = UINT32_MAX;       ///< content size that a header of 4 bytes states
constexpr std::size_t kFrameRun = 4ULL << 10;      ///< bytes of a plane that are tried at once
constexpr std::size_t kSample = 8ULL << 10;        ///< bytes of all planes that are tried
constexpr std::size_t kLeastOfPlane = 1ULL << 10;  ///< of each of them
constexpr std::size_t kWorthwhile = 32;            ///< a saving of less than this part is not worth decoding

enum class BlockType : std::uint32_t { raw = 0, repeated = 1 };

ZSTD_CCtx* make_literals_context() {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (context == nullptr) return nullptr;
  const std::pair<ZSTD_cParameter, int> parameters[] = {
      {ZSTD_c_compressionLevel, 1},
      {ZSTD_c_strategy, ZSTD_fast},
      {ZSTD_c_hashLog, ZSTD_HASHLOG_MIN},
      {ZSTD_c_contentSizeFlag, 0},
      {ZSTD_c_literalCompressionMode, ZSTD_ps_enable},
      {ZSTD_c_blockDelimiters, ZSTD_sf_explicitBlockDelimiters},
  };
  for (auto [parameter, value] : parameters) ZSTD_CCtx_setParameter(context, parameter, value);
  return context;
}

std::size_t require_compressed(std::size_t result) {
  if (ZSTD_isError(result) == 0) return result;
  if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
  throw core::Error(core::ErrorCode::internal, std::string("zstd: ") + ZSTD_getErrorName(result));
}

/// A frame whose blocks hold literals alone, in Huffman's codes where they gain.
ByteVector literals_frame(Bytes bytes) {
  static auto& contexts = *new detail::IdleContexts<ZSTD_CCtx, make_literals_context, ZSTD_freeCCtx>();
  std::vector<ZSTD_Sequence> blocks;
  for (std::size_t at = 0; at < bytes.size(); at += kMaxBlock) {
    auto size = static_cast<unsigned>(std::min(kMaxBlock, bytes.size() - at));
    blocks.push_back({.offset = 0, .litLength = size, .matchLength = 0, .rep = 0});
  }
  ByteVector frame(ZSTD_compressBound(bytes.size()));
  auto context = contexts.borrow();
  frame.resize(require_compressed(ZSTD_compressSequences(context.get(), frame.data(), frame.size(), blocks.data(),
                                                         blocks.size(), bytes.data(), bytes.size())));
  return frame;
}

/// The frame while its planes are added, in order.
class PlaneFrame {
 public:
  explicit PlaneFrame(std::size_t content) {
    constexpr std::uint8_t kSingleSegment = 1 << 5;
    constexpr std::uint8_t kContentSizeOf4Bytes = 2 << 6;
    out_.reserve(ZSTD_compressBound(content));
    core::append_le<std::uint32_t>(out_, ZSTD_MAGICNUMBER);
    core::append_le<std::uint8_t>(out_, kSingleSegment | kContentSizeOf4Bytes);
    core::append_le<std::uint32_t>(out_, static_cast<std::uint32_t>(content));
  }

  /// Noise; joined with what came just before it, as planes lie side by side.
  void add_raw(Bytes bytes) { raw_ = raw_.empty() ? bytes : Bytes(raw_.data(), raw_.size() + bytes.size()); }

  void add_repeated(std::byte value, std::size_t count) {
    end_raw();
    for (; count > 0; count -= std::min(count, kMaxBlock)) {
      begin_block(BlockType::repeated, std::min(count, kMaxBlock));
      out_.push_back(value);
    }
  }

  void add_literals(Bytes bytes) {
    end_raw();
    ByteVector frame = literals_frame(bytes);
    std::size_t at = require_compressed(ZSTD_frameHeaderSize(frame.data(), frame.size()));
    std::size_t first = out_.size();
    core::append(out_, Bytes(frame).subspan(at));
    for (at = first; at < out_.size(); at += block_size(at)) last_ = at;
    out_[last_] &= ~std::byte{1};  // it is the last one of that frame alone
  }

  ByteVector finish() {
    end_raw();
    out_[last_] |= std::byte{1};
    return std::move(out_);
  }

 private:
  void begin_block(BlockType type, std::size_t size) {
    last_ = out_.size();
    auto head = static_cast<std::uint32_t>(size << 3) | static_cast<std::uint32_t>(type) << 1;
    for (std::size_t i = 0; i < kBlockHead; ++i) out_.push_back(static_cast<std::byte>(head >> 8 * i));
  }

  /// Bytes that the block there takes, its head included.
  std::size_t block_size(std::size_t at) const {
    std::uint32_t head = 0;
    std::memcpy(&head, out_.data() + at, kBlockHead);
    bool repeated = (head >> 1 & 3) == static_cast<std::uint32_t>(BlockType::repeated);
    return kBlockHead + (repeated ? 1 : head >> 3);
  }

  void end_raw() {
    for (; !raw_.empty(); raw_ = raw_.subspan(std::min(raw_.size(), kMaxBlock))) {
      Bytes block = raw_.first(std::min(raw_.size(), kMaxBlock));
      begin_block(BlockType::raw, block.size());
      core::append(out_, block);
    }
  }

  ByteVector out_;
  Bytes raw_;             ///< not yet written
  std::size_t last_ = 0;  ///< head of the last block
};

bool is_constant(Bytes bytes) {
  return std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

/// True when Huffman's codes shorten the plane; from two runs of it.
bool gains_from_codes(Bytes plane) {
  ByteVector sample;
  if (plane.size() > 2 * kFrameRun) {
    sample.reserve(2 * kFrameRun);
    core::append(sample, plane.subspan(plane.size() / 4, kFrameRun));
    core::append(sample, plane.subspan(plane.size() - plane.size() / 4 - kFrameRun, kFrameRun));
    plane = sample;
  }
  return literals_frame(plane).size() < plane.size() - plane.size() / kWorthwhile;
}

ByteVector plane_by_plane(Bytes planes, std::uint32_t width) {
  PlaneFrame frame(planes.size());
  std::size_t count = planes.size() / width;
  for (std::uint32_t i = 0; i < width && count > 0; ++i) {
    Bytes plane = planes.subspan(i * count, count);
    if (is_constant(plane)) {
      frame.add_repeated(plane[0], count);
    } else if (gains_from_codes(plane)) {
      frame.add_literals(plane);
    } else {
      frame.add_raw(plane);
    }
  }
  if (Bytes tail = planes.subspan(count * width); !tail.empty()) frame.add_raw(tail);
  return frame.finish();
}

/// A run from the middle of every plane.
ByteVector sample_of(Bytes planes, std::uint32_t width) {
  std::size_t count = planes.size() / width;
  std::size_t run = std::min(count, std::max(kSample / width, kLeastOfPlane));
  ByteVector sample;
  sample.reserve(width * run);
  for (std::uint32_t i = 0; i < width; ++i) core::append(sample, planes.subspan(i * count + (count - run) / 2, run));
  return sample;
}

}  // namespace

ByteVector zstd_compress_planes(Bytes planes, std::uint32_t width, int level) {
  if (planes.size() < kSmallest || planes.size() > kLargest) return zstd_compress(planes, level);
  ByteVector sample = sample_of(planes, width);
  std::size_t searched = zstd_compress(sample, level).size();
  std::size_t by_plane = plane_by_plane(sample, width).size();
  return searched < by_plane - by_plane / kWorthwhile ? zstd_compress(planes, level) : plane_by_plane(planes, width);
}

}  // namespace ckpt

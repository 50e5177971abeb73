#include "libckpt/hdf5/filters.h"

#include <algorithm>
#include <utility>

#include "libckpt/hdf5/wire.h"
#include "libckpt/io/codec.h"
#include "libckpt/io/float_planes.h"
#include "libckpt/io/word_planes.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

enum FilterId : std::uint32_t {
  kDeflate = 1,
  kShuffle = 2,
  kFletcher = 3,
  kLzf = 32000,
  kZstd = 32015,
  kFast = kFastFilter,
  kDelta = kDeltaFilter,
  kTrimmed = kTrimmedFilter
};

constexpr std::size_t kMaxFilters = 3;
constexpr std::size_t kChecksum = 4;

struct FilterName {
  std::uint32_t id;
  const char* name;
};
constexpr FilterName kNames[] = {
    {4, "szip"},
    {5, "nbit"},
    {6, "scaleoffset"},
    {307, "bzip2"},
    {kFast, "ckpt fast"},
    {kDelta, "ckpt delta"},
    {kTrimmed, "ckpt trimmed"},
    {32001, "blosc"},
    {32004, "lz4"},
    {32008, "bitshuffle"},
    {32013, "zfp"},
    {32017, "sz"},
    {32024, "sz3"},
    {32026, "blosc2"},
};

bool is_compressor(std::uint32_t id) {
  return id == kDeflate || id == kLzf || id == kZstd || id == kFast || id == kDelta || id == kTrimmed;
}
bool is_known(std::uint32_t id) {
  return is_compressor(id) || id == kShuffle || id == kFletcher;
}

std::string describe(std::uint32_t id) {
  std::string text = "filter " + std::to_string(id);
  for (const FilterName& known : kNames) {
    if (known.id == id) text += std::string(" (") + known.name + ")";
  }
  return text;
}

/// What the filter of the codec fast was told; none where that is no kind of float.
FloatKind float_kind(const Hdf5Filter& filter) {
  for (FloatKind kind : {FloatKind::f16, FloatKind::bf16, FloatKind::f32}) {
    if (filter.values.size() == 1 && filter.values[0] == static_cast<std::uint32_t>(kind)) return kind;
  }
  return FloatKind::none;
}

/// The width of a word that the filter of the codec delta was told, 0 where that is none.
std::uint32_t word_width(const Hdf5Filter& filter) {
  return filter.values.size() == 1 && is_word_width(filter.values[0]) ? filter.values[0] : 0;
}

core::ByteVector decompressed(const Hdf5Filter& filter, core::Bytes packed, std::uint64_t size) {
  std::uint32_t id = filter.id;
  core::ByteVector out(size);
  if (id == kFast) unpack_floats(packed, float_kind(filter), out);
  if (id == kDelta && size % word_width(filter) != 0) throw Error(ErrorCode::corrupt, "a chunk holds no whole words");
  if (id == kDelta) unpack_words(packed, word_width(filter), out);
  if (id == kTrimmed && packed.size() > size) throw Error(ErrorCode::corrupt, "a chunk is longer than it says");
  if (id == kTrimmed) std::ranges::copy(packed, out.begin());
  if (id == kDeflate) inflate_zlib(packed, out);
  if (id == kZstd) zstd_decompress_frames(packed, out);
  if (id == kLzf) lzf_decompress(packed, out);
  return out;
}

std::uint32_t swapped_halves(std::uint32_t sum) {
  return (sum & 0xff00ff00) >> 8 | (sum & 0x00ff00ff) << 8;
}

void take_checksum(core::ByteVector& bytes, std::atomic<bool>* let_pass) {
  if (bytes.size() < kChecksum) throw Error(ErrorCode::corrupt, "a chunk is shorter than its checksum");
  core::Bytes content = core::Bytes(bytes).first(bytes.size() - kChecksum);
  auto stored = core::load_le<std::uint32_t>(content.data() + content.size());
  std::uint32_t found = fletcher32(content);
  // Versions before 1.6.3 swapped the bytes of both halves on some machines.
  bool matches = stored == found || stored == swapped_halves(found);
  if (!matches && let_pass != nullptr) *let_pass = true;
  if (!matches && let_pass == nullptr) {
    throw Error(ErrorCode::corrupt, "a chunk is damaged: its Fletcher checksum is " + std::to_string(found) +
                                        " where " + std::to_string(stored) + " was written");
  }
  bytes.resize(content.size());
}

std::uint64_t shuffle_width(const Hdf5Filter& filter, const Hdf5Dataset& dataset) {
  return filter.values.empty() || filter.values[0] == 0 ? dataset.width : filter.values[0];
}

core::ByteVector unshuffled(const core::ByteVector& bytes, std::uint64_t width) {
  core::ByteVector out(bytes.size());
  unshuffle(bytes, static_cast<std::uint32_t>(std::min<std::uint64_t>(width, UINT32_MAX)), out);
  return out;
}

}  // namespace

std::string filter_obstacle(const Hdf5Dataset& dataset) {
  std::size_t compressors = 0;
  for (const Hdf5Filter& filter : dataset.filters) {
    if (!is_known(filter.id)) return describe(filter.id) + " is not supported";
    if (filter.id == kFast && float_kind(filter) == FloatKind::none) return describe(kFast) + " packs no known floats";
    if (filter.id == kDelta && word_width(filter) == 0) return describe(kDelta) + " packs no known words";
    compressors += is_compressor(filter.id) ? 1 : 0;
  }
  if (compressors > 1) return "several compressing filters one upon the other are not accepted";
  if (dataset.filters.size() > kMaxFilters) return "more than 3 filters are not accepted";
  return "";
}

core::ByteVector decode_chunk(core::ByteVector stored, const Hdf5Dataset& dataset, const ChunkDecoding& how) {
  std::uint64_t size = dataset.chunk_bytes();
  core::ByteVector bytes = std::move(stored);
  for (std::size_t i = dataset.filters.size(); i-- > 0;) {
    if ((how.skipped >> i & 1) != 0) continue;
    const Hdf5Filter& filter = dataset.filters[i];
    if (filter.id == kFletcher) {
      take_checksum(bytes, how.let_pass);
    } else if (filter.id == kShuffle) {
      bytes = unshuffled(bytes, shuffle_width(filter, dataset));
    } else {
      // Checksums that were added before the compression are inside.
      std::uint64_t inner = size;
      for (std::size_t j = 0; j < i; ++j) {
        if (dataset.filters[j].id == kFletcher && (how.skipped >> j & 1) == 0) inner += kChecksum;
      }
      bytes = decompressed(filter, bytes, inner);
    }
  }
  if (bytes.size() == size) return bytes;
  throw Error(ErrorCode::corrupt, "a chunk holds " + std::to_string(bytes.size()) + " bytes where " +
                                      std::to_string(size) + " were expected");
}

std::uint32_t fletcher32(core::Bytes bytes) {
  constexpr std::size_t kWordsBeforeOverflow = 360;
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  auto fold = [&] {
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
  };
  std::size_t at = 0;
  while (at + 1 < bytes.size()) {
    std::size_t end = std::min(bytes.size() - 1, at + 2 * kWordsBeforeOverflow);
    for (; at < end; at += 2) {
      low += static_cast<std::uint32_t>(bytes[at]) << 8 | static_cast<std::uint32_t>(bytes[at + 1]);
      high += low;
    }
    fold();
  }
  if (at < bytes.size()) {
    low += static_cast<std::uint32_t>(bytes[at]) << 8;
    high += low;
    fold();
  }
  fold();
  return high << 16 | low;
}

}  // namespace ckpt::detail

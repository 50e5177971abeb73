#include "libckpt/format/hdf5_write/chunk_codec.h"

#include <algorithm>

#include "libckpt/io/codec.h"
#include "libckpt/io/scratch.h"
#include "libckpt/io/word_planes.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

core::ByteVector compress(NativeCodec codec, core::Bytes bytes, std::uint32_t planes) {
  return codec == NativeCodec::gzip ? deflate_zlib(bytes, kGzipLevel) : zstd_compress_planes(bytes, planes, kZstdLevel);
}

void decompress(NativeCodec codec, core::Bytes packed, core::MutableBytes out) {
  codec == NativeCodec::gzip ? inflate_zlib(packed, out) : zstd_decompress(packed, out);
}

/// One byte stays, as HDF5 knows no chunk of none.
core::ByteVector without_zeros_behind(core::Bytes bytes) {
  std::size_t size = bytes.size();
  while (size > 8 && core::load_le<std::uint64_t>(bytes.data() + size - 8) == 0) size -= 8;
  while (size > 1 && bytes[size - 1] == std::byte{0}) --size;
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

void put_zeros_behind(core::Bytes bytes, core::MutableBytes out) {
  if (bytes.size() > out.size()) throw core::Error(core::ErrorCode::corrupt, "a chunk is longer than it says");
  std::fill(std::ranges::copy(bytes, out.begin()).out, out.end(), std::byte{0});
}

}  // namespace

core::ByteVector pack_chunk(const Payload& payload, core::Bytes chunk) {
  if (payload.codec == NativeCodec::fast) return pack_floats(chunk, payload.floats);
  if (payload.codec == NativeCodec::delta) return pack_words(chunk, payload.shuffle);
  if (payload.codec == NativeCodec::trimmed) return without_zeros_behind(chunk);
  if (payload.shuffle == 0) return compress(payload.codec, chunk, 1);
  Scratch planes(chunk.size());
  shuffle(chunk, payload.shuffle, planes.bytes());
  return compress(payload.codec, planes.bytes(), payload.shuffle);
}

void unpack_chunk(const Payload& payload, core::Bytes packed, core::MutableBytes chunk) {
  if (payload.codec == NativeCodec::fast) return unpack_floats(packed, payload.floats, chunk);
  if (payload.codec == NativeCodec::delta) return unpack_words(packed, payload.shuffle, chunk);
  if (payload.codec == NativeCodec::trimmed) return put_zeros_behind(packed, chunk);
  if (payload.shuffle == 0) return decompress(payload.codec, packed, chunk);
  Scratch planes(chunk.size());
  decompress(payload.codec, packed, planes.bytes());
  unshuffle(planes.bytes(), payload.shuffle, chunk);
}

std::uint64_t packed_bound(const Payload& payload) {
  std::uint64_t chunk = payload.chunks.chunk;
  if (payload.codec == NativeCodec::fast) return packed_floats_bound(chunk);
  if (payload.codec == NativeCodec::delta) return packed_words_bound(chunk, payload.shuffle);
  if (payload.codec == NativeCodec::trimmed) return chunk;
  return payload.codec == NativeCodec::gzip ? deflate_bound(chunk) : zstd_bound(chunk);
}

}  // namespace ckpt::detail

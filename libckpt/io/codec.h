#pragma once
// Codecs: zstd frames, byte shuffling, deflate data. Nothing is allocated in proportion to a number in the input: the
// caller says how large the result must be. Thread safety: pure functions (contexts are kept for the next call). Use:
// ByteVector frame = zstd_compress(bytes, 3); ByteVector back = zstd_decompress(frame, bytes.size());

#include <cstdint>
#include <optional>

#include "libcore/base/bytes.h"

namespace ckpt {

using core::Bytes;
using core::ByteVector;
using core::MutableBytes;

/// One frame that records its content size (HDF5's registered filter 32015 needs it) and no checksum.
ByteVector zstd_compress(Bytes bytes, int level = 3);
/// The same for the planes that shuffle() makes of elements of `width` bytes: one frame again, but usually a smaller
/// one and faster both ways. Planes of noise stand in it as they are, planes of few values are packed by Huffman's
/// codes alone, or all are left to zstd_compress() where a sample of them repeats itself. The same bytes give the same
/// frame. REQUIRES: width > 0.
ByteVector zstd_compress_planes(Bytes planes, std::uint32_t width, int level = 3);
/// Largest possible frame for `size` bytes, of both.
std::uint64_t zstd_bound(std::uint64_t size);
/// Content size that a frame states, nullopt when it states none or is no frame.
std::optional<std::uint64_t> zstd_content_size(Bytes frame);
/// Fills `out` from exactly one frame. Error(corrupt) when the frame is damaged, is followed by more bytes, or holds
/// more or fewer bytes than `out`.
void zstd_decompress(Bytes frame, MutableBytes out);
ByteVector zstd_decompress(Bytes frame, std::uint64_t expected_size);

/// Fills `out` from one or more frames, whatever sizes they state: other writers of HDF5 files leave the size out or
/// append frames. Error(corrupt) when they hold more or fewer bytes than `out`.
void zstd_decompress_frames(Bytes frames, MutableBytes out);

/// Byte i of every element together, then byte i+1 of every element: HDF5's shuffle filter. A tail shorter than `width`
/// stays as it is. REQUIRES: width > 0, out as large as in, no overlap.
void shuffle(Bytes in, std::uint32_t width, MutableBytes out);
void unshuffle(Bytes in, std::uint32_t width, MutableBytes out);

/// Raw deflate data (as in zip members) that must fill `out` exactly and be used up. Error(corrupt) otherwise.
void inflate(Bytes deflated, MutableBytes out);
/// The same for a zlib stream (header and Adler-32 around deflate data), as HDF5's gzip filter writes.
void inflate_zlib(Bytes stream, MutableBytes out);
/// Such a stream of `bytes`; `level` from 1 to 9. deflate_bound(): largest possible stream for `size` bytes.
ByteVector deflate_zlib(Bytes bytes, int level);
std::uint64_t deflate_bound(std::uint64_t size);
/// Fills `out` exactly from LZF data, h5py's fast codec. Error(corrupt) otherwise.
void lzf_decompress(Bytes packed, MutableBytes out);

}  // namespace ckpt

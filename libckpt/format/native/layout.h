#pragma once
// The parts of the packed index of a native file as plain structures. FORMAT_NATIVE.md has their bytes.
// Thread safety: plain values. Use: NativeIndex index = parse_index(bytes, header, limits);

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/format/native/parity_layout.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/large_pages.h"
#include "libckpt/io/shared_bytes.h"
#include "libckpt/limits.h"
#include "libckpt/wrappers.h"
#include "libcore/base/bytes.h"
#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

inline constexpr std::string_view kNativeMagic{"\x89\x43\x4b\x50\x54\x0d\x0a\x1a", 8};
inline constexpr std::uint16_t kNativeMajor = 1;
inline constexpr std::uint16_t kNativeMinor = 5;
inline constexpr std::uint16_t kMinorOfDelta = 6;    ///< of files with payloads of the codec delta
inline constexpr std::uint16_t kMinorOfTrimmed = 7;  ///< and of the codec trimmed
inline constexpr std::uint64_t kHeaderBytes = 128;
/// Bytes before the content of a section of the index: its number, whether it is needed, its size.
inline constexpr std::size_t kSectionHead = 16;
inline constexpr std::size_t kRequiredSections = 6;  ///< 1 to 6, which every file has
inline constexpr std::uint64_t kMinUserBlock = 4096;
inline constexpr std::uint64_t kMaxUserBlock = 1ULL << 40;

/// The first 128 bytes of a file.
struct NativeHeader {
  std::uint16_t major = kNativeMajor;
  std::uint16_t minor = kNativeMinor;
  std::uint64_t user_block = 0;  ///< bytes before the HDF5 part
  std::uint64_t generation = 1;  ///< edits count up
  std::uint64_t index_size = 0;  ///< bytes behind the header
  std::uint64_t body_size = 0;   ///< bytes behind the user block
  Hash128 index_hash;
};

/// A part of the file that is no payload, with what it held when the index was written.
struct StampedRange {
  std::uint64_t offset = 0;  ///< from the end of the user block
  std::uint64_t length = 0;
  Hash128 hash;
};

/// Order of elements in memory, where it is not the row-major order of the payload.
struct MemoryOrder {
  core::DType dtype = core::DType::u8;
  core::Shape shape;
  core::Shape strides;
};

/// A storage that views look into.
struct StorageRecord {
  std::uint32_t payload = 0;
  core::DType dtype = core::DType::u8;
  std::string location;
  std::optional<MemoryOrder> order;
};

/// Window of a tensor into a payload.
struct Window {
  std::uint32_t payload = 0;
  std::uint64_t offset = 0;  ///< bytes
};

struct ViewRecord {
  std::uint32_t storage = 0;
  std::int64_t offset = 0;  ///< elements
  core::Shape strides;
};

struct NativeIndex {
  std::vector<StampedRange> ranges;
  LargeVector<Payload> payloads;
  std::vector<StorageRecord> storages;
  SharedBytes tree;  ///< the encoded Value tree
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<WrapperUse> wrappers;  ///< what list_wrappers() said of the tree when the file was written
  bool has_wrappers = false;         ///< files of version 1.0 have no record
  std::optional<ParityLayout> parity;
  std::vector<std::string> files;  ///< in the same folder, that hold payloads of this one
};

/// Number of a dtype in a file, and back (nullopt for numbers this version does not know).
std::uint8_t dtype_code(core::DType dtype);
std::optional<core::DType> dtype_of_code(std::uint8_t code);

/// The checksum at the end of the header's bytes is that of the bytes before it. REQUIRES: kHeaderBytes of them.
bool header_hash_fits(core::Bytes header);
core::ByteVector encode_header(const NativeHeader& header);
/// Errors: Error(corrupt) for a wrong checksum or impossible sizes; Error(unsupported) for a newer major version.
NativeHeader parse_header(core::Bytes head);

/// `user_block` counts where there is parity data.
core::ByteVector encode_index(const NativeIndex& index, std::uint64_t user_block = 0);
/// Size of encode_index() for the same index, whatever the offsets, sizes and hashes in it.
std::uint64_t encoded_size(const NativeIndex& index);
/// Checks everything that can be checked without the rest of the file. The tree stays where it is in `bytes`. Errors:
/// Error(corrupt | unsupported | refused).
NativeIndex parse_index(const SharedBytes& bytes, const NativeHeader& header, const Limits& limits);

}  // namespace ckpt::detail

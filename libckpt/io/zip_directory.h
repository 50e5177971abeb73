#pragma once
// The fixed structures of a zip file: end records, directory entries, local headers with their data descriptors. Each
// function reads one of them and checks everything that can be checked on it alone. Internal to zip.cpp.
// Thread safety: one owner. Use: ZipEnd end = find_zip_end(*file, false);

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/io/zip.h"

namespace ckpt::detail {

inline constexpr std::uint32_t kLocalSignature = 0x04034b50;
inline constexpr std::uint32_t kCentralSignature = 0x02014b50;
inline constexpr std::uint32_t kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kEnd64Signature = 0x06064b50;
inline constexpr std::uint32_t kLocator64Signature = 0x07064b50;
inline constexpr std::uint32_t kDescriptorSignature = 0x08074b50;
inline constexpr std::uint64_t kLocalSize = 30;
inline constexpr std::uint64_t kCentralSize = 46;
inline constexpr std::uint64_t kEndSize = 22;
inline constexpr std::uint64_t kEnd64Size = 56;
inline constexpr std::uint64_t kLocator64Size = 20;
inline constexpr std::uint16_t kZip64Id = 0x0001;
inline constexpr std::uint16_t kFlagDescriptor = 0x0008;
inline constexpr std::uint16_t kFlagUtf8 = 0x0800;
inline constexpr std::uint32_t kMax32 = 0xffffffff;
inline constexpr std::uint16_t kMax16 = 0xffff;

/// What the end records say together.
struct ZipEnd {
  std::uint64_t entries = 0;
  std::uint64_t directory_offset = 0;
  std::uint64_t directory_size = 0;
  std::uint64_t end = 0;  ///< behind the last record and its comment
  std::string comment;
};

/// The end record of the archive that fills `file`. Error(corrupt) "the file is cut off: ..." when there is none.
ZipEnd find_zip_end(const ByteSource& file, bool accept_trailing);
/// The end record without a comment that ends at byte `end`, if there is a well-formed one whose directory begins at or
/// behind `begin`.
std::optional<ZipEnd> try_zip_end_at(const ByteSource& file, std::uint64_t begin, std::uint64_t end);
/// All entries. Payload offsets and record ends are not known yet.
std::vector<ZipMember> read_zip_directory(const ByteSource& file, const ZipEnd& end, const ZipReadOptions& options);

/// A part of the file that is read ahead, for headers that lie close together.
class HeaderWindow {
 public:
  /// Nothing at or behind `limit` is touched.
  HeaderWindow(const ByteSource& file, std::uint64_t limit) : file_(file), limit_(limit) {}
  /// Error(corrupt) when the range reaches past the limit.
  Bytes at(std::uint64_t offset, std::uint64_t length);
  std::uint64_t limit() const { return limit_; }

 private:
  const ByteSource& file_;
  std::uint64_t limit_;
  std::uint64_t begin_ = 0;
  core::ByteVector buffer_;
};

/// Reads the local header and the data descriptor of `member`, compares them with the directory's entry, and fills in
/// payload_offset and record_end. Error(corrupt) when they differ.
void read_zip_record(HeaderWindow& window, ZipMember& member);
/// The record that begins at `begin` and ends exactly at `end`, known from its local header and descriptor alone.
std::optional<ZipMember> try_lone_record(HeaderWindow& window, std::uint64_t begin, std::uint64_t end);

}  // namespace ckpt::detail

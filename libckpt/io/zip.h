#pragma once
// Zip archives as checkpoints use them (.pth, .npz, .keras): a reader that accounts for every byte, and a writer whose
// files are byte for byte those of PyTorch. Thread safety: a ZipArchive is immutable, its sources may be read from many
// threads; a ZipWriter has one owner. Use: ZipArchive zip = ZipArchive::open(open_file("net.pth"), {});
// SourcePtr pickle = zip.payload(*zip.find("net/data.pkl"));

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libckpt/io/byte_sink.h"
#include "libckpt/io/byte_source.h"

namespace ckpt {

inline constexpr std::uint16_t kZipStored = 0;
inline constexpr std::uint16_t kZipDeflated = 8;
inline constexpr std::uint64_t kZipAlignment = 64;  ///< of the payloads that PyTorch writes

struct ZipMember {
  std::string name;  ///< as the directory says it; ends with '/' for a folder
  std::uint16_t method = kZipStored;
  std::uint16_t flags = 0;
  std::uint32_t crc32 = 0;  ///< as recorded; PyTorch can be told to write false ones
  std::uint64_t stored_size = 0;
  std::uint64_t size = 0;
  std::uint64_t record_offset = 0;   ///< of the local header
  std::uint64_t payload_offset = 0;  ///< of the first stored byte
  std::uint64_t record_end = 0;      ///< behind the payload and its data descriptor
  std::uint64_t entry_offset = 0;    ///< of its entry, which ends where the next one begins, from the directory's start

  bool is_folder() const { return name.ends_with('/'); }
};

/// Bytes of an archive that no member uses: records and directories that others behind them replaced.
struct ZipDeadRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string what;  ///< "replaced record 'net/data.pkl'", "replaced directory"
};

struct ZipReadOptions {
  std::uint64_t max_members = 1'048'576 + 64;
  std::uint64_t max_name = 65'535;
  bool accept_trailing = false;  ///< lenient: bytes behind the archive are let pass (trailing_bytes() says how many)
  std::uint64_t max_expansion = 100;  ///< total inflated over file size, where more than expansion_floor is inflated
  std::uint64_t expansion_floor = 4ULL << 30;
};

class ZipArchive {
 public:
  /// Reads and checks the directory and every local header; in a file on another machine (remote_name.h) each header
  /// once its member is read, and offsets and ends of records are not known before. Errors: Error(corrupt) "the file is
  /// cut off: ..." for a truncated archive, Error(corrupt) for contradictions, overlaps, duplicates and bytes that
  /// nothing accounts for; Error(refused) for names that leave the archive and for limits; Error(unsupported) for
  /// encryption, several disks and methods other than stored and deflated.
  static ZipArchive open(SourcePtr file, const ZipReadOptions& options = {});

  /// In the order of the directory.
  std::span<const ZipMember> members() const { return members_; }
  /// Null when there is none of this name.
  const ZipMember* find(std::string_view name) const;
  /// The member's bytes. Stored ones are a range of the file. Deflated ones are decoded while they are read, in bounded
  /// memory (inflate_source.h); Error(corrupt) from read() when they do not inflate to their size.
  SourcePtr payload(const ZipMember& member) const;
  /// The same for an archive whose recorded checksums are false: a copy computes new ones.
  SourcePtr payload_without_checksum(const ZipMember& member) const;

  /// In file order.
  std::span<const ZipDeadRange> dead_ranges() const { return dead_; }
  std::uint64_t trailing_bytes() const { return trailing_; }
  const std::string& comment() const { return comment_; }
  std::uint64_t directory_offset() const { return directory_offset_; }
  /// The entries of all members as they stand in the file.
  core::ByteVector read_directory() const;
  std::uint64_t file_size() const { return file_->size(); }

  ZipArchive(ZipArchive&&) = default;
  ZipArchive& operator=(ZipArchive&&) = default;

 private:
  ZipArchive() = default;
  void check_records(const ZipReadOptions& options);
  SourcePtr stored(const ZipMember& member) const;

  SourcePtr file_;
  std::vector<ZipMember> members_;
  std::unordered_map<std::string_view, std::size_t> index_;
  std::vector<ZipDeadRange> dead_;
  std::uint64_t trailing_ = 0;
  std::uint64_t directory_offset_ = 0;
  std::uint64_t directory_size_ = 0;
  std::string comment_;
};

/// The recorded CRC-32 when `source` is a whole stored member of an archive: a copy carries it over unread, so that
/// damage stays visible instead of getting a fresh checksum.
std::optional<std::uint32_t> recorded_crc32(const ByteSource& source);

/// False where replacement_end() has no place or would be read otherwise than the archive: behind a comment or other
/// bytes, and for a name whose encoding the member does not tell.
bool can_replace(const ZipArchive& archive, const ZipMember& member);
/// What stands behind the old end of an archive after one of its members got other content: the new record, a directory
/// that has the old entries of all others byte for byte, the records that end an archive. No old byte changes; the old
/// record and directory become dead ranges. Errors: Error(io) from the file. REQUIRES: `member` is one of
/// archive.members(); can_replace().
core::ByteVector replacement_end(const ZipArchive& archive, const ZipMember& member, Bytes content);

/// One record to write.
struct ZipItem {
  std::string name;
  SourcePtr payload;
};

/// Lays out stored records as PyTorch does (payloads at multiples of `alignment`), so sizes and offsets are known
/// before anything is written.
class ZipWriter {
 public:
  /// `name_room`: bytes of padding in each local header at the least, by which its name can grow in place.
  explicit ZipWriter(std::vector<ZipItem> items, std::uint64_t alignment = kZipAlignment, std::uint64_t name_room = 0);

  /// Size of the whole archive.
  std::uint64_t total_size() const { return total_size_; }
  /// Where the payload of the item will lie, from the start of the archive.
  std::uint64_t payload_offset(std::size_t item) const { return records_[item].payload_offset; }

  /// Writes everything, reading each payload once. `progress` gets the bytes written so far. Errors: those of the sink
  /// and of the payloads.
  void write(ByteSink& sink, const std::function<void(std::uint64_t)>& progress = {}) const;

 private:
  struct Record {
    std::uint64_t offset = 0;
    std::uint64_t payload_offset = 0;
    std::uint64_t payload_size = 0;
  };
  std::vector<ZipItem> items_;
  std::vector<Record> records_;
  std::uint64_t directory_offset_ = 0;
  std::uint64_t directory_size_ = 0;
  std::uint64_t total_size_ = 0;
};

}  // namespace ckpt

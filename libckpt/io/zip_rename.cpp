#include "libckpt/io/zip_rename.h"

#include <algorithm>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/zip_directory.h"

namespace ckpt {
namespace {

using core::ByteVector;
using detail::kCentralSize;
using detail::kLocalSize;
using detail::kMax16;
using detail::kMax32;

constexpr std::uint16_t kPaddingId = 0x4246;      // "FB", of records that PyTorch or this library aligned
constexpr std::uint16_t kUnicodeNameId = 0x7075;  // Info-ZIP's, holds the name once more
constexpr std::uint64_t kFieldHeader = 4;         // id and size
constexpr std::byte kFill{'Z'};

ByteVector read_name_range(const ByteSource& file, std::uint64_t offset, std::uint64_t length) {
  ByteVector bytes(length);
  file.read(offset, bytes);
  return bytes;
}

bool all_are(Bytes bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
}

/// Extra fields without what only fills room. Nullopt where they tell the name, and where they are none.
std::optional<ByteVector> without_padding(Bytes extra) {
  ByteVector kept;
  while (extra.size() >= kFieldHeader) {
    auto id = core::load_le<std::uint16_t>(extra.data());
    std::uint64_t length = kFieldHeader + core::load_le<std::uint16_t>(extra.data() + 2);
    if (length > extra.size() || id == kUnicodeNameId) return std::nullopt;
    Bytes field = extra.first(length);
    if (id != kPaddingId || !all_are(field.subspan(kFieldHeader), kFill)) core::append(kept, field);
    extra = extra.subspan(length);
  }
  return all_are(extra, std::byte{0}) ? std::optional(std::move(kept)) : std::nullopt;
}

/// Room too short for a field is filled with zeros, as Android's zipalign does: readers stop where no field fits.
void append_padding(ByteVector& out, std::uint64_t room) {
  if (room < kFieldHeader) {
    out.resize(out.size() + room, std::byte{0});
    return;
  }
  core::append_le<std::uint16_t>(out, kPaddingId);
  core::append_le<std::uint16_t>(out, static_cast<std::uint16_t>(room - kFieldHeader));
  out.resize(out.size() + room - kFieldHeader, kFill);
}

/// Where a kind of header keeps its numbers.
struct NameFields {
  std::uint64_t header;  ///< bytes in front of the name
  std::uint64_t flags;
  std::uint64_t name_size;
  std::uint64_t extra_size;
};
constexpr NameFields kLocal{kLocalSize, 6, 26, 28};
constexpr NameFields kCentral{kCentralSize, 8, 28, 30};

std::uint64_t number_at(Bytes header, std::uint64_t offset) {
  return core::load_le<std::uint16_t>(header.data() + offset);
}

Bytes extra_of(Bytes record, const NameFields& fields) {
  return record.subspan(fields.header + number_at(record, fields.name_size), number_at(record, fields.extra_size));
}

/// The fixed part of a header with another name; flags say what the bytes of it are.
ByteVector header_with(Bytes record, const NameFields& fields, std::string_view name, std::uint64_t extra_size) {
  ByteVector out(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(fields.header));
  bool ascii = std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  std::uint64_t flags = number_at(record, fields.flags) | (ascii ? 0U : detail::kFlagUtf8);
  core::store_le(out.data() + fields.flags, static_cast<std::uint16_t>(flags));
  core::store_le(out.data() + fields.name_size, static_cast<std::uint16_t>(name.size()));
  core::store_le(out.data() + fields.extra_size, static_cast<std::uint16_t>(extra_size));
  core::append(out, core::as_bytes(name));
  return out;
}

/// A local header of the same length.
std::optional<ByteVector> renamed_local(Bytes record, std::string_view name) {
  std::optional<ByteVector> kept = without_padding(extra_of(record, kLocal));
  if (!kept || record.size() < kLocalSize + name.size() + kept->size()) return std::nullopt;
  std::uint64_t extra_size = record.size() - kLocalSize - name.size();
  if (extra_size > kMax16) return std::nullopt;
  ByteVector out = header_with(record, kLocal, name, extra_size);
  core::append(out, *kept);
  append_padding(out, record.size() - out.size());
  return out;
}

/// An entry of the directory, which becomes as long as it must.
std::optional<ByteVector> renamed_entry(Bytes record, std::string_view name) {
  if (!without_padding(extra_of(record, kCentral))) return std::nullopt;
  ByteVector out = header_with(record, kCentral, name, number_at(record, kCentral.extra_size));
  core::append(out, record.subspan(kCentralSize + number_at(record, kCentral.name_size)));
  return out;
}

/// The records of a directory, which the archive has checked.
std::vector<Bytes> split_directory(Bytes directory) {
  constexpr std::uint64_t kCommentSize = 32;
  std::vector<Bytes> entries;
  ByteCursor in(directory, "the zip directory");
  while (!in.at_end()) {
    Bytes rest = directory.subspan(in.position());
    entries.push_back(in.take_bytes(kCentralSize + number_at(rest, kCentral.name_size) +
                                    number_at(rest, kCentral.extra_size) + number_at(rest, kCommentSize)));
  }
  return entries;
}

/// The end records behind a directory of another size. REQUIRES: that size has 32 bits.
void append_end(ByteVector& out, Bytes old_end, const detail::ZipEnd& end, std::uint64_t directory_size) {
  constexpr std::uint64_t kSizeInEnd64 = 40;
  constexpr std::uint64_t kOffsetInLocator = 8;
  constexpr std::uint64_t kSizeInEnd = 12;
  ByteVector records(old_end.begin(), old_end.end());
  std::byte* last = records.data() + records.size() - detail::kEndSize - end.comment.size();
  if (last != records.data()) {  // the zip64 records stand in front of it
    core::store_le(records.data() + kSizeInEnd64, directory_size);
    core::store_le(records.data() + detail::kEnd64Size + kOffsetInLocator, end.directory_offset + directory_size);
  }
  core::store_le(last + kSizeInEnd, static_cast<std::uint32_t>(directory_size));
  core::append(out, records);
}

/// The directory and what follows it, with other names.
std::optional<ByteVector> renamed_directory(Bytes old_bytes, const detail::ZipEnd& end, const ZipArchive& zip,
                                            std::span<const std::string> names) {
  std::vector<Bytes> entries = split_directory(old_bytes.first(end.directory_size));
  ByteVector out;
  out.reserve(old_bytes.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (names[i] == zip.members()[i].name) {
      core::append(out, entries[i]);
    } else if (std::optional<ByteVector> entry = renamed_entry(entries[i], names[i])) {
      core::append(out, *entry);
    } else {
      return std::nullopt;
    }
  }
  if (out.size() >= kMax32) return std::nullopt;
  append_end(out, old_bytes.subspan(end.directory_size), end, out.size());
  return out;
}

}  // namespace

std::optional<FileEdit> rename_in_zip(const ByteSource& file, const ZipArchive& zip,
                                      std::span<const std::string> names) {
  if (!zip.dead_ranges().empty() || zip.trailing_bytes() > 0) return std::nullopt;
  detail::ZipEnd end = detail::find_zip_end(file, false);
  std::vector<std::size_t> by_offset(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) by_offset[i] = i;
  std::sort(by_offset.begin(), by_offset.end(), [&](std::size_t a, std::size_t b) {
    return zip.members()[a].record_offset < zip.members()[b].record_offset;
  });
  FileEdit edit{.old_size = file.size(), .new_size = file.size()};
  for (std::size_t i : by_offset) {
    const ZipMember& member = zip.members()[i];
    if (member.name == names[i]) continue;
    ByteVector old = read_name_range(file, member.record_offset, member.payload_offset - member.record_offset);
    std::optional<ByteVector> fresh = renamed_local(old, names[i]);
    if (!fresh) return std::nullopt;
    std::uint64_t begin = 0;
    std::uint64_t last = old.size();
    while (begin < last && old[begin] == (*fresh)[begin]) ++begin;
    while (begin < last && old[last - 1] == (*fresh)[last - 1]) --last;  // the padding
    edit.replace(member.record_offset + begin, Bytes(old).subspan(begin, last - begin),
                 Bytes(*fresh).subspan(begin, last - begin));
  }
  ByteVector old_end = read_name_range(file, end.directory_offset, file.size() - end.directory_offset);
  std::optional<ByteVector> new_end = renamed_directory(old_end, end, zip, names);
  if (!new_end) return std::nullopt;
  edit.replace_end(end.directory_offset, old_end, *new_end);
  return edit;
}

}  // namespace ckpt

#include "libckpt/io/zip_directory.h"

#include <algorithm>

#include "libckpt/io/byte_cursor.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint16_t kAllowedFlags = 0x0806 | kFlagDescriptor;  // compression level, descriptor, UTF-8
constexpr std::uint64_t kReadAhead = 4096;

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}
[[noreturn]] void corrupt_member(const ZipMember& member, const std::string& what) {
  throw Error(ErrorCode::corrupt, "zip record " + core::quote(member.name) + ": " + what);
}

core::ByteVector read_range(const ByteSource& file, std::uint64_t offset, std::uint64_t length) {
  core::ByteVector bytes(length);
  file.read(offset, bytes);
  return bytes;
}

/// Replaces what the 32-bit record cannot say by the zip64 end record in front of it. `begin` moves to that record.
void apply_end64(const ByteSource& file, ZipEnd& end, std::uint64_t& begin) {
  if (begin < kEnd64Size + kLocator64Size) return;
  core::ByteVector bytes = read_range(file, begin - kLocator64Size, kLocator64Size);
  ByteCursor locator(bytes, "the zip64 locator");
  if (locator.take<std::uint32_t>() != kLocator64Signature) return;
  auto disk = locator.take<std::uint32_t>();
  auto offset = locator.take<std::uint64_t>();
  auto disks = locator.take<std::uint32_t>();
  if (disk != 0 || disks > 1) throw Error(ErrorCode::unsupported, "the zip archive spans several disks");
  if (offset != begin - kLocator64Size - kEnd64Size) corrupt("the zip64 locator points to a wrong place");
  bytes = read_range(file, offset, kEnd64Size);
  ByteCursor in(bytes, "the zip64 end record");
  if (in.take<std::uint32_t>() != kEnd64Signature) corrupt("the zip64 end record is missing");
  if (in.take<std::uint64_t>() != kEnd64Size - 12) corrupt("the zip64 end record has an unknown size");
  in.skip(4);  // versions
  if (in.take<std::uint64_t>() != 0) throw Error(ErrorCode::unsupported, "the zip archive spans several disks");
  auto here = in.take<std::uint64_t>();
  auto entries = in.take<std::uint64_t>();
  auto size = in.take<std::uint64_t>();
  auto start = in.take<std::uint64_t>();
  auto agrees = [](std::uint64_t small, std::uint64_t limit, std::uint64_t large) {
    return small == limit || small == large;
  };
  if (here != entries || !agrees(end.entries, kMax16, entries) || !agrees(end.directory_size, kMax32, size) ||
      !agrees(end.directory_offset, kMax32, start)) {
    corrupt("the two end records of the zip archive contradict each other");
  }
  end.entries = entries;
  end.directory_size = size;
  end.directory_offset = start;
  begin = offset;
}

/// The end record at `position`, checked against the place where it stands.
ZipEnd read_end(const ByteSource& file, std::uint64_t position) {
  core::ByteVector bytes = read_range(file, position, kEndSize);
  ByteCursor in(bytes, "the zip end record");
  in.skip(4);
  if (in.take<std::uint32_t>() != 0) throw Error(ErrorCode::unsupported, "the zip archive spans several disks");
  ZipEnd end;
  auto here = in.take<std::uint16_t>();
  end.entries = in.take<std::uint16_t>();
  end.directory_size = in.take<std::uint32_t>();
  end.directory_offset = in.take<std::uint32_t>();
  auto comment = in.take<std::uint16_t>();
  if (here != end.entries) corrupt("the zip end record contradicts itself about the number of members");
  std::uint64_t begin = position;
  apply_end64(file, end, begin);
  if (core::checked_add(end.directory_offset, end.directory_size) != begin) {
    corrupt("the zip directory does not end where the end record begins: " +
            std::to_string(end.directory_offset + end.directory_size) + " where " + std::to_string(begin) +
            " was expected");
  }
  end.end = position + kEndSize + comment;
  if (end.end > file.size()) corrupt("the file is cut off: the comment at its end is incomplete");
  core::ByteVector text = read_range(file, position + kEndSize, comment);
  end.comment = core::as_text(text);
  if (end.comment.find("PK\x05\x06") != std::string::npos) corrupt("the zip comment holds a second end record");
  return end;
}

[[noreturn]] void throw_no_end() {
  corrupt("the file is cut off: the zip directory at its end is missing");
}

void check_name(const std::string& name, std::uint16_t flags) {
  auto refuse = [&](const char* why) {
    throw Error(ErrorCode::refused, "zip record " + core::quote(name) + " has a name that " + why);
  };
  if (name.empty()) refuse("is empty");
  if (name.find('\0') != std::string::npos) refuse("holds a NUL byte");
  if (name.find('\\') != std::string::npos) refuse("holds a backslash");
  if (name.front() == '/' || (name.size() > 1 && name[1] == ':')) refuse("is an absolute path");
  if ((flags & kFlagUtf8) != 0 && !core::is_utf8(name)) refuse("is not valid UTF-8");
  for (std::string_view part : core::split(name, '/')) {
    if (part == "..") refuse("leaves the archive");
  }
}

/// The body of the only zip64 field of `extra`, empty when there is none.
Bytes zip64_field(Bytes extra, const ZipMember& member) {
  ByteCursor in(extra, "an extra field of a zip record");
  Bytes found;
  while (in.remaining() >= 4) {
    auto id = in.take<std::uint16_t>();
    Bytes body = in.take_bytes(in.take<std::uint16_t>());
    if (id != kZip64Id) continue;
    if (!found.empty()) corrupt_member(member, "it has two zip64 fields");
    found = body;
  }
  return found;
}

void resolve_zip64(Bytes extra, ZipMember& member) {
  if (member.size != kMax32 && member.stored_size != kMax32 && member.record_offset != kMax32) return;
  ByteCursor in(zip64_field(extra, member), "the zip64 field of a zip record");
  if (member.size == kMax32) member.size = in.take<std::uint64_t>();
  if (member.stored_size == kMax32) member.stored_size = in.take<std::uint64_t>();
  if (member.record_offset == kMax32) member.record_offset = in.take<std::uint64_t>();
}

void check_entry(const ZipMember& member, std::uint64_t directory_offset) {
  if ((member.flags & 1) != 0) {
    throw Error(ErrorCode::unsupported, "zip record " + core::quote(member.name) + " is encrypted");
  }
  if ((member.flags & ~kAllowedFlags) != 0) corrupt_member(member, "it has unknown flags");
  if (member.method != kZipStored && member.method != kZipDeflated) {
    throw Error(ErrorCode::unsupported, "zip record " + core::quote(member.name) + " is packed with method " +
                                            std::to_string(member.method) + ", which is not supported");
  }
  if (member.method == kZipStored && member.stored_size != member.size) {
    corrupt_member(member, "it is stored as it is, but has two different sizes");
  }
  std::uint64_t least = core::checked_add(core::checked_add(member.record_offset, member.stored_size), kLocalSize);
  if (least > directory_offset) corrupt_member(member, "it reaches into the directory");
}

ZipMember read_entry(ByteCursor& in, std::uint64_t directory_offset, const ZipReadOptions& options) {
  ZipMember member;
  member.entry_offset = in.position();
  if (in.take<std::uint32_t>() != kCentralSignature) corrupt("the zip directory holds something that is not an entry");
  in.skip(4);  // versions
  member.flags = in.take<std::uint16_t>();
  member.method = in.take<std::uint16_t>();
  in.skip(4);  // time and date
  member.crc32 = in.take<std::uint32_t>();
  member.stored_size = in.take<std::uint32_t>();
  member.size = in.take<std::uint32_t>();
  auto name_size = in.take<std::uint16_t>();
  auto extra_size = in.take<std::uint16_t>();
  auto comment_size = in.take<std::uint16_t>();
  if (in.take<std::uint16_t>() != 0) throw Error(ErrorCode::unsupported, "the zip archive spans several disks");
  in.skip(6);  // attributes
  member.record_offset = in.take<std::uint32_t>();
  if (name_size > options.max_name) throw Error(ErrorCode::refused, "a zip record has a name longer than allowed");
  member.name = in.take_text(name_size);
  resolve_zip64(in.take_bytes(extra_size), member);
  in.skip(comment_size);
  check_name(member.name, member.flags);
  check_entry(member, directory_offset);
  return member;
}

/// The local header as far as it is not already known from the directory.
struct LocalHeader {
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc32 = 0;
  std::uint64_t stored_size = 0;
  std::uint64_t size = 0;
  std::string_view name;
  Bytes extra;
  std::uint64_t length = 0;
};

LocalHeader read_local(HeaderWindow& window, std::uint64_t offset) {
  ByteCursor in(window.at(offset, kLocalSize), "a zip record");
  if (in.take<std::uint32_t>() != kLocalSignature) {
    corrupt("no zip record begins at byte " + std::to_string(offset) + " where the directory says one does");
  }
  in.skip(2);  // version
  LocalHeader header;
  header.flags = in.take<std::uint16_t>();
  header.method = in.take<std::uint16_t>();
  in.skip(4);  // time and date
  header.crc32 = in.take<std::uint32_t>();
  header.stored_size = in.take<std::uint32_t>();
  header.size = in.take<std::uint32_t>();
  auto name_size = in.take<std::uint16_t>();
  auto extra_size = in.take<std::uint16_t>();
  header.length = kLocalSize + name_size + extra_size;
  Bytes variable = window.at(offset + kLocalSize, std::uint64_t{name_size} + extra_size);
  header.name = core::as_text(variable.first(name_size));
  header.extra = variable.subspan(name_size);
  return header;
}

/// Length of the data descriptor at `offset`: 16 bytes, or 24 with 64-bit sizes. 0 when neither fits.
std::uint64_t descriptor_length(HeaderWindow& window, std::uint64_t offset, const ZipMember& member) {
  auto matches = [&](std::uint64_t length) {
    if (offset + length > window.limit()) return false;
    ByteCursor in(window.at(offset, length), "a data descriptor");
    if (in.take<std::uint32_t>() != kDescriptorSignature || in.take<std::uint32_t>() != member.crc32) return false;
    if (length == 24) return in.take<std::uint64_t>() == member.stored_size && in.take<std::uint64_t>() == member.size;
    return in.take<std::uint32_t>() == member.stored_size && in.take<std::uint32_t>() == member.size;
  };
  if (matches(24)) return 24;
  return matches(16) ? 16 : 0;
}

/// With a descriptor behind the payload the local fields may be left open: 0, or all ones where they could be large.
void compare_sizes(const LocalHeader& header, const ZipMember& member) {
  bool left_open = header.stored_size == header.size && (header.size == 0 || header.size == kMax32);
  if ((member.flags & kFlagDescriptor) != 0 && header.crc32 == 0 && left_open) return;
  ZipMember local = member;
  local.size = header.size;
  local.stored_size = header.stored_size;
  local.record_offset = 0;
  resolve_zip64(header.extra, local);
  if (header.crc32 != member.crc32 || local.size != member.size || local.stored_size != member.stored_size) {
    corrupt_member(member, "its header and the directory disagree about size or checksum");
  }
}

/// The search from the end would find that one first.
bool ends_without_comment(const ByteSource& file) {
  core::ByteVector last = read_range(file, file.size() - kEndSize, kEndSize);
  return core::load_le<std::uint32_t>(last.data()) == kEndSignature &&
         core::load_le<std::uint16_t>(&last[kEndSize - 2]) == 0;
}

}  // namespace

ZipEnd find_zip_end(const ByteSource& file, bool accept_trailing) {
  if (file.size() < kEndSize) throw_no_end();
  // Most archives have no comment; of another machine, the tail comes with the first look at it.
  bool is_near = file.file_range().has_value() || !file.memory().empty();
  if (is_near && ends_without_comment(file)) return read_end(file, file.size() - kEndSize);
  std::uint64_t tail_size = std::min<std::uint64_t>(file.size(), kEndSize + kMax16);
  std::uint64_t tail_begin = file.size() - tail_size;
  core::ByteVector tail = read_range(file, tail_begin, tail_size);
  std::optional<std::uint64_t> early;
  for (std::uint64_t at = tail_size - kEndSize + 1; at-- > 0;) {
    if (core::load_le<std::uint32_t>(&tail[at]) != kEndSignature) continue;
    std::uint64_t end = at + kEndSize + core::load_le<std::uint16_t>(&tail[at + kEndSize - 2]);
    if (end == tail_size) return read_end(file, tail_begin + at);
    if (end < tail_size && !early) early = tail_begin + at;
  }
  if (!early) throw_no_end();
  ZipEnd end = read_end(file, *early);
  if (accept_trailing) return end;
  corrupt(core::format_count(file.size() - end.end) + " bytes lie after the end of the zip archive");
}

std::optional<ZipEnd> try_zip_end_at(const ByteSource& file, std::uint64_t begin, std::uint64_t end) {
  if (end - begin < kEndSize) return std::nullopt;
  core::ByteVector bytes = read_range(file, end - kEndSize, kEndSize);
  if (core::load_le<std::uint32_t>(bytes.data()) != kEndSignature) return std::nullopt;
  try {
    ZipEnd found = read_end(file, end - kEndSize);
    if (found.end == end && found.directory_offset >= begin) return found;
  } catch (const Error&) {
    return std::nullopt;  // a payload may hold the signature by chance
  }
  return std::nullopt;
}

std::vector<ZipMember> read_zip_directory(const ByteSource& file, const ZipEnd& end, const ZipReadOptions& options) {
  if (end.entries > options.max_members) {
    throw Error(ErrorCode::refused, "the zip archive has " + core::format_count(end.entries) + " members where " +
                                        core::format_count(options.max_members) + " are allowed");
  }
  if (end.entries > end.directory_size / kCentralSize) corrupt("the zip directory is too short for its entries");
  core::ByteVector bytes = read_range(file, end.directory_offset, end.directory_size);
  ByteCursor in(bytes, "the zip directory");
  std::vector<ZipMember> members;
  members.reserve(end.entries);
  for (std::uint64_t i = 0; i < end.entries; ++i) members.push_back(read_entry(in, end.directory_offset, options));
  if (!in.at_end()) corrupt("the zip directory holds more than the end record says");
  return members;
}

Bytes HeaderWindow::at(std::uint64_t offset, std::uint64_t length) {
  if (offset > limit_ || length > limit_ - offset) corrupt("a zip record reaches past the directory");
  if (offset < begin_ || offset + length > begin_ + buffer_.size()) {
    begin_ = offset;
    buffer_.resize(std::min(std::max(length, kReadAhead), limit_ - offset));
    file_.read(begin_, buffer_);
  }
  return Bytes(buffer_).subspan(offset - begin_, length);
}

void read_zip_record(HeaderWindow& window, ZipMember& member) {
  LocalHeader header = read_local(window, member.record_offset);
  if (header.name != member.name) {
    corrupt_member(member, "its header names it " + core::quote(header.name));
  }
  if (header.flags != member.flags || header.method != member.method) {
    corrupt_member(member, "its header and the directory disagree about flags or method");
  }
  compare_sizes(header, member);
  member.payload_offset = member.record_offset + header.length;
  member.record_end = core::checked_add(member.payload_offset, member.stored_size);
  if (member.record_end > window.limit()) corrupt_member(member, "it reaches into the directory");
  if ((member.flags & kFlagDescriptor) == 0) return;
  std::uint64_t length = descriptor_length(window, member.record_end, member);
  if (length == 0) corrupt_member(member, "the descriptor after its data disagrees with the directory");
  member.record_end += length;
}

std::optional<ZipMember> try_lone_record(HeaderWindow& window, std::uint64_t begin, std::uint64_t end) {
  try {
    LocalHeader header = read_local(window, begin);
    ZipMember member;
    member.name = header.name;
    member.flags = header.flags;
    member.method = header.method;
    member.record_offset = begin;
    member.payload_offset = begin + header.length;
    member.record_end = end;
    member.size = header.size;
    member.stored_size = header.stored_size;
    member.crc32 = header.crc32;
    if ((header.flags & kFlagDescriptor) == 0) {
      resolve_zip64(header.extra, member);
      if (core::checked_add(member.payload_offset, member.stored_size) == end) return member;
      return std::nullopt;
    }
    for (std::uint64_t length : {24U, 16U}) {
      if (member.payload_offset + length > end || member.method != kZipStored) continue;
      member.size = member.stored_size = end - length - member.payload_offset;
      member.crc32 = core::load_le<std::uint32_t>(window.at(end - length, 8).data() + 4);
      if (descriptor_length(window, end - length, member) == length) return member;
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ckpt::detail

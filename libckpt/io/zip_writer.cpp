#include <algorithm>

#include "libckpt/io/checked_source.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/zip.h"
#include "libckpt/io/zip_directory.h"
#include "libcore/base/checked_math.h"

namespace ckpt {
namespace {

using core::append_le;
using core::ByteVector;
using detail::kMax16;
using detail::kMax32;

constexpr std::uint64_t kPaddingHeader = 4;

/// 0xffffffff where the true number stands in a zip64 field.
std::uint32_t clipped(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kMax32));
}

bool is_large(std::uint64_t value) {
  return value >= kMax32;
}

/// Sizes of the zip64 field in the local header: PyTorch also puts the offset there, which no standard asks for.
std::uint64_t zip64_size(std::uint64_t size, std::uint64_t offset) {
  std::uint64_t body = (is_large(size) ? 16 : 0) + (is_large(offset) ? 8 : 0);
  return body == 0 ? 0 : 4 + body;
}

void append_zip64(ByteVector& out, std::uint64_t size, std::uint64_t stored_size, std::uint64_t offset) {
  std::uint64_t total = zip64_size(size, offset);
  if (total == 0) return;
  append_le<std::uint16_t>(out, detail::kZip64Id);
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(total - 4));
  if (is_large(size)) {
    append_le<std::uint64_t>(out, size);
    append_le<std::uint64_t>(out, stored_size);
  }
  if (is_large(offset)) append_le<std::uint64_t>(out, offset);
}

std::uint16_t flags_for(std::uint64_t size) {
  return size == 0 ? detail::kFlagUtf8 : detail::kFlagUtf8 | detail::kFlagDescriptor;
}

std::uint64_t descriptor_size(std::uint64_t size, std::uint64_t offset) {
  if (size == 0) return 0;
  return is_large(size) || is_large(offset) ? 24 : 16;
}

ByteVector local_header(const std::string& name, std::uint64_t size, std::uint64_t offset,
                        std::uint64_t payload_offset) {
  std::uint64_t extra = payload_offset - offset - detail::kLocalSize - name.size();
  ByteVector out;
  append_le<std::uint32_t>(out, detail::kLocalSignature);
  append_le<std::uint16_t>(out, 0);  // version needed
  append_le<std::uint16_t>(out, flags_for(size));
  out.resize(out.size() + 2 + 4 + 12);  // method, time, date, checksum and sizes: all zero, the descriptor has them
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(name.size()));
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(extra));
  core::append(out, core::as_bytes(name));
  append_zip64(out, size, 0, offset);
  std::uint64_t padding = extra - zip64_size(size, offset) - kPaddingHeader;
  core::append(out, core::as_bytes("FB"));
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(padding));
  out.resize(out.size() + padding, std::byte{'Z'});
  return out;
}

ByteVector descriptor(std::uint64_t size, std::uint64_t offset, std::uint32_t crc) {
  ByteVector out;
  append_le<std::uint32_t>(out, detail::kDescriptorSignature);
  append_le<std::uint32_t>(out, crc);
  for (int i = 0; i < 2; ++i) {
    if (descriptor_size(size, offset) == 24) {
      append_le<std::uint64_t>(out, size);
    } else {
      append_le<std::uint32_t>(out, static_cast<std::uint32_t>(size));
    }
  }
  return out;
}

void append_entry(ByteVector& out, const std::string& name, std::uint64_t size, std::uint64_t offset,
                  std::uint32_t crc) {
  append_le<std::uint32_t>(out, detail::kCentralSignature);
  append_le<std::uint32_t>(out, 0);  // versions
  append_le<std::uint16_t>(out, flags_for(size));
  out.resize(out.size() + 2 + 4);  // method, time, date
  append_le<std::uint32_t>(out, crc);
  append_le<std::uint32_t>(out, clipped(size));
  append_le<std::uint32_t>(out, clipped(size));
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(name.size()));
  append_le<std::uint16_t>(out, static_cast<std::uint16_t>(zip64_size(size, offset)));
  out.resize(out.size() + 2 + 2 + 2 + 4);  // comment, disk, attributes
  append_le<std::uint32_t>(out, clipped(offset));
  core::append(out, core::as_bytes(name));
  append_zip64(out, size, size, offset);
}

/// PyTorch always writes the zip64 records, whether they are needed or not.
ByteVector end_records(std::uint64_t entries, std::uint64_t offset, std::uint64_t size) {
  ByteVector out;
  append_le<std::uint32_t>(out, detail::kEnd64Signature);
  append_le<std::uint64_t>(out, detail::kEnd64Size - 12);
  append_le<std::uint16_t>(out, 0x031e);  // made by
  append_le<std::uint16_t>(out, 0x002d);  // version needed
  append_le<std::uint64_t>(out, 0);       // disks
  append_le<std::uint64_t>(out, entries);
  append_le<std::uint64_t>(out, entries);
  append_le<std::uint64_t>(out, size);
  append_le<std::uint64_t>(out, offset);
  append_le<std::uint32_t>(out, detail::kLocator64Signature);
  append_le<std::uint32_t>(out, 0);
  append_le<std::uint64_t>(out, offset + size);
  append_le<std::uint32_t>(out, 1);
  auto short_entries = static_cast<std::uint16_t>(std::min<std::uint64_t>(entries, kMax16));
  append_le<std::uint32_t>(out, detail::kEndSignature);
  append_le<std::uint32_t>(out, 0);  // disks
  append_le<std::uint16_t>(out, short_entries);
  append_le<std::uint16_t>(out, short_entries);
  append_le<std::uint32_t>(out, clipped(size));
  append_le<std::uint32_t>(out, clipped(offset));
  append_le<std::uint16_t>(out, 0);  // comment
  return out;
}

/// Where the payload of a record goes whose header begins at `offset`.
std::uint64_t payload_offset_at(std::uint64_t offset, const std::string& name, std::uint64_t size,
                                std::uint64_t alignment, std::uint64_t name_room = 0) {
  std::uint64_t header = detail::kLocalSize + name.size() + zip64_size(size, offset) + kPaddingHeader + name_room;
  return core::align_up(core::checked_add(offset, header), alignment);
}

bool is_ascii_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Copies the payload and returns its checksum: the recorded one where it comes from an archive unchanged (the bytes
/// are compared with it while they pass), and one that cannot match for bytes that are known to be damaged.
std::uint32_t copy_payload(const SourcePtr& payload, ByteSink& sink, const std::function<void()>& step) {
  if (std::optional<std::uint32_t> known = recorded_crc32(*payload)) {
    for_each_part(*payload, [&](Bytes part) {
      sink.write(part);
      step();
    });
    return *known;
  }
  std::uint32_t crc = 0;
  for_each_part(*payload, [&](Bytes part) {
    crc = crc32(part, crc);
    sink.write(part);
    step();
  });
  return is_damaged(*payload) ? ~crc : crc;
}

}  // namespace

ZipWriter::ZipWriter(std::vector<ZipItem> items, std::uint64_t alignment, std::uint64_t name_room)
    : items_(std::move(items)) {
  std::uint64_t offset = 0;
  records_.reserve(items_.size());
  for (const ZipItem& item : items_) {
    std::uint64_t size = item.payload->size();
    std::uint64_t start = payload_offset_at(offset, item.name, size, alignment, name_room);
    records_.push_back({offset, start, size});
    directory_size_ += detail::kCentralSize + item.name.size() + zip64_size(size, offset);
    offset = core::checked_add(start, size) + descriptor_size(size, offset);
  }
  directory_offset_ = offset;
  total_size_ = core::checked_add(directory_offset_, directory_size_) + detail::kEnd64Size + detail::kLocator64Size +
                detail::kEndSize;
}

void ZipWriter::write(ByteSink& sink, const std::function<void(std::uint64_t)>& progress) const {
  BufferedSink out(sink);
  std::uint64_t base = out.position();
  auto step = [&] {
    if (progress) progress(out.position() - base);
  };
  ByteVector directory;
  directory.reserve(directory_size_);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Record& record = records_[i];
    out.write(local_header(items_[i].name, record.payload_size, record.offset, record.payload_offset));
    std::uint32_t crc = copy_payload(items_[i].payload, out, step);
    if (record.payload_size > 0) out.write(descriptor(record.payload_size, record.offset, crc));
    append_entry(directory, items_[i].name, record.payload_size, record.offset, crc);
  }
  out.write(directory);
  out.write(end_records(items_.size(), directory_offset_, directory_size_));
  out.flush();
  step();
}

bool can_replace(const ZipArchive& archive, const ZipMember& member) {
  bool ends_there = archive.trailing_bytes() == 0 && archive.comment().empty();
  return ends_there && ((member.flags & detail::kFlagUtf8) != 0 || is_ascii_name(member.name));
}

core::ByteVector replacement_end(const ZipArchive& archive, const ZipMember& member, Bytes content) {
  std::uint64_t begin = archive.file_size();
  std::uint32_t crc = crc32(content);
  std::uint64_t payload = payload_offset_at(begin, member.name, content.size(), kZipAlignment);
  ByteVector out = local_header(member.name, content.size(), begin, payload);
  core::append(out, content);
  if (!content.empty()) core::append(out, descriptor(content.size(), begin, crc));
  std::size_t directory = out.size();
  const ByteVector old = archive.read_directory();
  std::span<const ZipMember> members = archive.members();
  std::size_t next = static_cast<std::size_t>(&member - members.data()) + 1;
  core::append(out, Bytes(old).first(member.entry_offset));
  append_entry(out, member.name, content.size(), begin, crc);
  if (next < members.size()) core::append(out, Bytes(old).subspan(members[next].entry_offset));
  core::append(out, end_records(members.size(), begin + directory, out.size() - directory));
  return out;
}

}  // namespace ckpt

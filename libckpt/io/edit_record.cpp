#include "libckpt/io/edit_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/file_ops.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kMagic = "ckptedit";
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kHashBytes = 16;
constexpr std::uint64_t kLongest = 256ULL << 20;  ///< twice the longest header that any format may have, and some

void append_hash(core::ByteVector& out, core::Bytes bytes) {
  Hash128 hash = hash128(bytes);
  core::append_le(out, hash.low);
  core::append_le(out, hash.high);
}

/// Reads at an offset until `out` is full or the file ends; the bytes that were there.
core::Bytes read_at(int fd, std::uint64_t offset, core::MutableBytes out) {
  std::size_t done = 0;
  while (done < out.size()) {
    ssize_t n = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, "cannot read at byte " + std::to_string(offset + done));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  return out.first(done);
}

std::optional<EditRecord> parse(core::Bytes bytes) {
  ByteCursor in(bytes, "the record of an edit");
  if (in.take_text(kMagic.size()) != kMagic || in.take<std::uint64_t>() != kVersion) return std::nullopt;
  EditRecord record;
  record.device = in.take<std::uint64_t>();
  record.inode = in.take<std::uint64_t>();
  record.size = in.take<std::uint64_t>();
  record.offset = in.take<std::uint64_t>();
  auto length = in.take<std::uint64_t>();
  bool inside = record.offset <= record.size && length <= record.size - record.offset;
  if (length == 0 || !inside || length > in.remaining() / 2) return std::nullopt;
  core::Bytes old_bytes = in.take_bytes(length);
  core::Bytes new_bytes = in.take_bytes(length);
  core::ByteVector hash;
  append_hash(hash, bytes.first(in.position()));
  if (in.remaining() != kHashBytes || !std::ranges::equal(in.take_bytes(kHashBytes), hash)) return std::nullopt;
  record.old_bytes.assign(old_bytes.begin(), old_bytes.end());
  record.new_bytes.assign(new_bytes.begin(), new_bytes.end());
  return record;
}

}  // namespace

core::ByteVector encode(const EditRecord& record) {
  core::ByteVector out;
  core::append(out, core::as_bytes(kMagic));
  for (std::uint64_t number :
       {kVersion, record.device, record.inode, record.size, record.offset, std::uint64_t{record.old_bytes.size()}}) {
    core::append_le(out, number);
  }
  core::append(out, record.old_bytes);
  core::append(out, record.new_bytes);
  append_hash(out, out);
  return out;
}

std::optional<EditRecord> decode(core::Bytes bytes) {
  try {
    return parse(bytes);
  } catch (const core::Error&) {
    return std::nullopt;  // it is cut
  }
}

FoundEdit find_edit(int folder, const std::string& name, uid_t owner) {
  struct stat status {};
  FoundEdit found;
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return found;
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || status.st_uid != owner) return found;
  Fd fd(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) return found;
  struct stat opened {};
  if (!fd || ::fstat(fd.get(), &opened) != 0) return {FoundEdit::Kind::unreadable, {}, {}, errno};
  if (opened.st_ino != status.st_ino || opened.st_dev != status.st_dev) return found;
  found.kind = FoundEdit::Kind::present;
  found.named = opened.st_ctim;
  auto size = static_cast<std::uint64_t>(opened.st_size);
  if (size > kLongest) return found;
  core::ByteVector bytes(size);
  found.record = decode(read_at(fd.get(), 0, bytes));
  return found;
}

EditStage stage_of(int file, const EditRecord& record) {
  struct stat status {};
  if (::fstat(file, &status) != 0) throw_errno(errno, "cannot look at the file");
  if (static_cast<std::uint64_t>(status.st_size) != record.size) return EditStage::foreign;
  core::ByteVector room(record.old_bytes.size());
  core::Bytes now = read_at(file, record.offset, room);
  if (std::ranges::equal(now, record.new_bytes)) return EditStage::whole;
  if (now.size() != room.size()) return EditStage::foreign;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] != record.old_bytes[i] && now[i] != record.new_bytes[i]) return EditStage::foreign;
  }
  return EditStage::begun;
}

bool holds(int file, std::uint64_t offset, core::Bytes bytes) {
  core::ByteVector room(bytes.size());
  return std::ranges::equal(read_at(file, offset, room), bytes);
}

}  // namespace ckpt::detail

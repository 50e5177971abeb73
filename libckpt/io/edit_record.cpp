#include "libckpt/io/edit_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kMagic = "ckptedit";
constexpr std::uint64_t kVersion = 3;
constexpr std::uint64_t kLongestName = 255;
constexpr std::uint64_t kHashBytes = 16;

void append_hash(core::ByteVector& out, core::Bytes bytes) {
  Hash128 hash = hash128(bytes);
  core::append_le(out, hash.low);
  core::append_le(out, hash.high);
}

core::ByteVector take_vector(ByteCursor& in, std::uint64_t length) {
  core::Bytes bytes = in.take_bytes(length);
  return {bytes.begin(), bytes.end()};
}

/// nullopt where the patch does not lie behind the one that ends at `from`, inside the first `size` bytes.
std::optional<FilePatch> parse_patch(ByteCursor& in, std::uint64_t from, std::uint64_t size) {
  FilePatch patch{.offset = in.take<std::uint64_t>(), .old_bytes = {}, .new_bytes = {}};
  auto length = in.take<std::uint64_t>();
  bool inside = from <= patch.offset && patch.offset <= size && length <= size - patch.offset;
  if (length == 0 || !inside) return std::nullopt;
  patch.old_bytes = take_vector(in, length);
  patch.new_bytes = take_vector(in, length);
  return patch;
}

void append_set(core::ByteVector& out, const std::optional<EditOfSet>& set) {
  core::append_le(out, std::uint64_t{set ? set->head.size() : 0});
  if (!set) return;
  core::append_le(out, std::uint64_t{set->member.size()});
  core::append(out, core::as_bytes(set->head));
  core::append(out, core::as_bytes(set->member));
  for (const Hash128& hash : {set->before, set->after}) {
    core::append_le(out, hash.low);
    core::append_le(out, hash.high);
  }
}

Hash128 take_hash(ByteCursor& in) {
  auto low = in.take<std::uint64_t>();
  return {low, in.take<std::uint64_t>()};
}

/// False for names that no file has.
bool take_set(ByteCursor& in, std::optional<EditOfSet>& set) {
  auto head = in.take<std::uint64_t>();
  if (head == 0) return true;
  auto member = in.take<std::uint64_t>();
  if (head > kLongestName || member == 0 || member > kLongestName) return false;
  set.emplace();
  set->head = in.take_text(head);
  set->member = in.take_text(member);
  set->before = take_hash(in);
  set->after = take_hash(in);
  return set->head.find('/') == std::string::npos && set->member.find('/') == std::string::npos;
}

std::optional<EditRecord> parse(core::Bytes bytes) {
  ByteCursor in(bytes, "the record of an edit");
  if (in.take_text(kMagic.size()) != kMagic || in.take<std::uint64_t>() != kVersion) return std::nullopt;
  EditRecord record;
  record.device = in.take<std::uint64_t>();
  record.inode = in.take<std::uint64_t>();
  FileEdit& edit = record.edit;
  edit.old_size = in.take<std::uint64_t>();
  edit.new_size = in.take<std::uint64_t>();
  auto patches = in.take<std::uint64_t>();
  if (!take_set(in, record.set)) return std::nullopt;
  for (std::uint64_t i = 0, from = 0; i < patches; ++i) {
    std::optional<FilePatch> patch = parse_patch(in, from, edit.common_size());
    if (!patch) return std::nullopt;
    from = patch->offset + patch->old_bytes.size();
    edit.patches.push_back(std::move(*patch));
  }
  edit.tail = take_vector(in, std::max(edit.old_size, edit.new_size) - edit.common_size());
  core::ByteVector hash;
  append_hash(hash, bytes.first(in.position()));
  if (in.remaining() != kHashBytes || !std::ranges::equal(in.take_bytes(kHashBytes), hash)) return std::nullopt;
  return edit.length() == 0 ? std::nullopt : std::optional(std::move(record));
}

/// Where the bytes of a place stand: each is that of one version, or of neither.
struct PlaceState {
  bool old = true;  ///< all are old
  bool whole = true;
  bool known = true;
};

PlaceState look_at(int file, const FilePatch& patch) {
  core::ByteVector room(patch.old_bytes.size());
  core::Bytes now = read_at(file, patch.offset, room);
  PlaceState place{.old = std::ranges::equal(now, patch.old_bytes), .whole = std::ranges::equal(now, patch.new_bytes)};
  if (place.old || place.whole) return place;
  place.known = now.size() == room.size();
  for (std::size_t i = 0; place.known && i < now.size(); ++i) {
    place.known = now[i] == patch.old_bytes[i] || now[i] == patch.new_bytes[i];
  }
  return place;
}

/// The end that only the longer version has. Of what was written there a power cut may leave anything, zeros and what
/// lay on the disk before included: the patch in front of it says whose end it is.
PlaceState look_at_tail(int file, std::uint64_t size, const FileEdit& edit) {
  core::ByteVector room(size - edit.common_size());
  core::Bytes now = read_at(file, edit.common_size(), room);
  PlaceState place;
  bool complete = std::ranges::equal(now, edit.tail);
  place.old = edit.old_size > edit.new_size ? complete : now.empty();
  place.whole = edit.new_size > edit.old_size ? complete : now.empty();
  return place;
}

PlaceState look_at(int file, const FileEdit& edit) {
  struct stat status {};
  if (::fstat(file, &status) != 0) throw_errno(errno, "cannot look at the file");
  auto size = static_cast<std::uint64_t>(status.st_size);
  bool may_be = size >= edit.common_size() && size <= std::max(edit.old_size, edit.new_size);
  if (!may_be) return {.old = false, .whole = false, .known = false};
  PlaceState all = look_at_tail(file, size, edit);
  for (const FilePatch& patch : edit.patches) {
    PlaceState place = look_at(file, patch);
    all = {.old = all.old && place.old, .whole = all.whole && place.whole, .known = all.known && place.known};
  }
  return all;
}

}  // namespace

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

FileEdit anchored(int file, FileEdit edit) {
  constexpr std::uint64_t kAnchor = 4096;
  std::uint64_t end = edit.common_size();
  std::uint64_t patched = edit.patches.empty() ? 0 : edit.patches.back().offset + edit.patches.back().old_bytes.size();
  if (edit.tail.empty() || patched == end) return edit;
  std::uint64_t begin = std::max(patched, end - std::min(end, kAnchor));
  core::ByteVector bytes(end - begin);
  bytes.resize(read_at(file, begin, bytes).size());
  edit.patches.push_back({begin, bytes, bytes});
  return edit;
}

FileEdit reversed(FileEdit edit) {
  std::swap(edit.old_size, edit.new_size);
  for (FilePatch& patch : edit.patches) std::swap(patch.old_bytes, patch.new_bytes);
  return edit;
}

std::uint64_t record_size(const EditRecord& record) {
  constexpr std::uint64_t kNumbers = 7;
  const FileEdit& edit = record.edit;
  std::uint64_t size = kMagic.size() + kNumbers * sizeof(std::uint64_t) + edit.tail.size() + kHashBytes;
  if (record.set) {
    size += sizeof(std::uint64_t) + record.set->head.size() + record.set->member.size() + 2 * kHashBytes;
  }
  for (const FilePatch& patch : edit.patches) size += 2 * (sizeof(std::uint64_t) + patch.new_bytes.size());
  return size;
}

core::ByteVector encode(const EditRecord& record) {
  core::ByteVector out;
  append_record(out, record);
  return out;
}

void append_record(core::ByteVector& out, const EditRecord& record) {
  const std::size_t begin = out.size();
  out.reserve(begin + record_size(record) + kHashBytes);
  core::append(out, core::as_bytes(kMagic));
  for (std::uint64_t number : {kVersion, record.device, record.inode, record.edit.old_size, record.edit.new_size,
                               std::uint64_t{record.edit.patches.size()}}) {
    core::append_le(out, number);
  }
  append_set(out, record.set);
  for (const FilePatch& patch : record.edit.patches) {
    core::append_le(out, patch.offset);
    core::append_le(out, std::uint64_t{patch.old_bytes.size()});
    core::append(out, patch.old_bytes);
    core::append(out, patch.new_bytes);
  }
  core::append(out, record.edit.tail);
  append_hash(out, core::Bytes(out).subspan(begin));
}

std::optional<EditRecord> decode(core::Bytes bytes) {
  try {
    return parse(bytes);
  } catch (const core::Error&) {
    return std::nullopt;  // it is cut
  }
}

RecordBytes read_record(int folder, const std::string& name, uid_t owner) {
  struct stat status {};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || status.st_uid != owner) return {};
  Fd fd(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) return {};
  struct stat opened {};
  if (!fd || ::fstat(fd.get(), &opened) != 0) return {FoundEdit::Kind::unreadable, {}, errno};
  if (opened.st_ino != status.st_ino || opened.st_dev != status.st_dev) return {};
  RecordBytes found{.kind = FoundEdit::Kind::present, .bytes = {}};
  auto size = static_cast<std::uint64_t>(opened.st_size);
  if (size > kLongestRecord) return found;
  found.bytes.resize(size);
  found.bytes.resize(read_at(fd.get(), 0, found.bytes).size());
  return found;
}

FoundEdit find_edit(int folder, const std::string& name, uid_t owner) {
  RecordBytes read = read_record(folder, name, owner);
  return {read.kind, read.kind == FoundEdit::Kind::present ? decode(read.bytes) : std::nullopt, read.error};
}

EditStage stage_of(int file, const FileEdit& edit) {
  PlaceState place = look_at(file, edit);
  if (place.whole) return EditStage::whole;
  return place.known ? EditStage::begun : EditStage::foreign;
}

namespace {

enum class Head : std::uint8_t { before, after, other };

/// Which of both the head of a set is now.
Head look_at_head(int folder, const EditOfSet& set) {
  Fd file(::openat(folder, set.head.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  bool there = file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  auto size = there ? static_cast<std::uint64_t>(status.st_size) : 0;
  if (!there || size > kLongestRecord) return Head::other;
  core::ByteVector room(size);
  Hash128 hash = hash128(read_at(file.get(), 0, room));
  return hash == set.before ? Head::before : hash == set.after ? Head::after : Head::other;
}

}  // namespace

/// Where another program has replaced the head meanwhile, the bytes of the member alone decide.
EditStage stage_in(int folder, int file, const EditRecord& record) {
  EditStage stage = stage_of(file, record.edit);
  bool undecided = stage == EditStage::whole && record.set && look_at_head(folder, *record.set) == Head::before;
  return undecided ? EditStage::begun : stage;
}

bool is_before(int file, const FileEdit& edit) {
  return look_at(file, edit).old;
}

int write_version(int file, const FileEdit& edit, Version version) {
  bool before = version == Version::before;
  std::uint64_t size = before ? edit.old_size : edit.new_size;
  // The end goes first, so that what is written over the old bytes finds there what it speaks of.
  int error = size > edit.common_size() ? write_fully(file, edit.common_size(), edit.tail) : 0;
  for (const FilePatch& patch : edit.patches) {
    if (error != 0) return error;
    if (patch.old_bytes == patch.new_bytes) continue;
    error = write_fully(file, patch.offset, before ? patch.old_bytes : patch.new_bytes);
  }
  bool cut = error == 0 && edit.old_size != edit.new_size && size == edit.common_size();
  if (cut && file_ops().ftruncate(file, static_cast<off_t>(size)) != 0) error = errno;
  return error;
}

core::ByteVector version_of(core::Bytes other, const FileEdit& edit, Version version) {
  bool before = version == Version::before;
  core::ByteVector out(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(edit.common_size()));
  for (const FilePatch& patch : edit.patches) {
    std::ranges::copy(before ? patch.old_bytes : patch.new_bytes,
                      out.begin() + static_cast<std::ptrdiff_t>(patch.offset));
  }
  if ((before ? edit.old_size : edit.new_size) > edit.common_size()) core::append(out, edit.tail);
  return out;
}

int write_journal(int folder, const std::string& name, int file, core::Bytes encoded) {
  std::string journal = journal_name(name);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  Fd fd(file_ops().openat(folder, journal.c_str(), kFlags, 0600));
  struct stat owner {};
  if (!fd || ::fstat(file, &owner) != 0) return errno;
  // The superuser's record must be the owner's, or nobody would believe it; readers of the file need it, too.
  if (owner.st_uid != ::geteuid()) (void)!::fchown(fd.get(), owner.st_uid, owner.st_gid);
  (void)::fchmod(fd.get(), owner.st_mode & 0666);
  int error = write_fully(fd.get(), 0, encoded);
  if (error == 0 && file_ops().fsync(fd.get()) != 0) error = errno;
  if (error != 0) file_ops().unlinkat(folder, journal.c_str(), 0);
  return error;
}

}  // namespace ckpt::detail

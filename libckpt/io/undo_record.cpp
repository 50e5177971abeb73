#include "libckpt/io/undo_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUndoMagic = "ckptundo";
constexpr std::uint64_t kUndoVersion = 2;
constexpr std::uint64_t kMostParts = 1 << 20;
constexpr std::uint64_t kUndoHashBytes = 16;
constexpr const char* kSuffix = ".ckpt-undo";
constexpr std::time_t kKeptFor = std::time_t{30} * 24 * 3600;  // seconds

/// "" where the user has none.
fs::path state_folder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && state[0] == '/') return fs::path(state) / "ckpt" / "undo";
  if (home != nullptr && home[0] == '/') return fs::path(home) / ".local" / "state" / "ckpt" / "undo";
  return "";
}

/// Names and metadata of models are nobody else's business.
void make_state_folder(const fs::path& path) {
  std::error_code ignored;
  fs::create_directories(path.parent_path().parent_path(), ignored);
  (void)::mkdir(path.parent_path().c_str(), 0700);
  (void)::mkdir(path.c_str(), 0700);
}

/// The state folder when it is there and ours.
Fd open_state_folder(const fs::path& path) {
  if (path.empty()) return {};
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  bool mine = folder && ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid();
  return mine ? std::move(folder) : Fd();
}

/// Where a file lies, links resolved; "" where the system does not say.
std::string path_of(int folder, const std::string& name) {
  char path[PATH_MAX];
  std::string link = "/proc/self/fd/" + std::to_string(folder);
  ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  if (length <= 0 || length == sizeof path || path[0] != '/') return "";
  return std::string(path, static_cast<std::size_t>(length)) + "/" + name;
}

/// "net.bin-0123456789abcdef.ckpt-undo"; "" where the path of the file is not known.
std::string state_name(int folder, const std::string& name) {
  constexpr std::size_t kLongestStart = 128;
  std::string path = path_of(folder, name);
  if (path.empty()) return "";
  return name.substr(0, kLongestStart) + "-" + to_hex(hash128(core::as_bytes(path))).substr(0, 16) + kSuffix;
}

struct RecordPlace {
  UndoKept kept = UndoKept::nowhere;
  int folder = -1;
  std::string name;
  std::string path;
};

/// Both places in the order in which they are tried; the first only where there is a state folder.
class Places {
 public:
  Places(int folder, const std::string& name, bool make = false) {
    fs::path state = state_folder();
    std::string own = state.empty() ? "" : state_name(folder, name);
    if (make && !own.empty()) make_state_folder(state);
    if (!own.empty()) state_ = open_state_folder(state);
    if (state_) places_.push_back({UndoKept::state_folder, state_.get(), own, (state / own).string()});
    places_.push_back({UndoKept::beside, folder, undo_name(name), undo_name(name)});
  }
  auto begin() const { return places_.begin(); }
  auto end() const { return places_.end(); }

 private:
  Fd state_;
  std::vector<RecordPlace> places_;
};

void append_hash(core::ByteVector& out, const Hash128& hash) {
  core::append_le(out, hash.low);
  core::append_le(out, hash.high);
}

Hash128 take_undo_hash(ByteCursor& in) {
  auto low = in.take<std::uint64_t>();
  return {low, in.take<std::uint64_t>()};
}

/// Of the bytes that the edit wrote, which stay in the file alone.
Hash128 hash_of_new(const FileEdit& edit) {
  Hasher128 hasher;
  for (const FilePatch& patch : edit.patches) hasher.update(patch.new_bytes);
  if (edit.new_size > edit.old_size) hasher.update(edit.tail);
  return hasher.finish();
}

void append_part(core::ByteVector& out, const UndoPart& part) {
  const FileEdit& edit = part.record.edit;
  for (std::uint64_t number : {std::uint64_t{part.name.size()}, static_cast<std::uint64_t>(part.modified.tv_sec),
                               static_cast<std::uint64_t>(part.modified.tv_nsec), part.record.device, part.record.inode,
                               edit.old_size, edit.new_size, std::uint64_t{edit.patches.size()}}) {
    core::append_le(out, number);
  }
  core::append(out, core::as_bytes(part.name));
  for (const FilePatch& patch : edit.patches) {
    core::append_le(out, patch.offset);
    core::append_le(out, std::uint64_t{patch.old_bytes.size()});
    core::append(out, patch.old_bytes);
  }
  if (edit.old_size > edit.new_size) core::append(out, edit.tail);
  append_hash(out, hash_of_new(edit));
}

core::ByteVector encode(const UndoParts& parts) {
  core::ByteVector out;
  core::append(out, core::as_bytes(kUndoMagic));
  core::append_le(out, kUndoVersion);
  core::append_le(out, std::uint64_t{parts.size()});
  for (const UndoPart& part : parts) append_part(out, part);
  append_hash(out, hash128(out));
  return out;
}

core::ByteVector take_undo_vector(ByteCursor& in, std::uint64_t length) {
  core::Bytes bytes = in.take_bytes(length);
  return {bytes.begin(), bytes.end()};
}

/// False for what append_part() did not make. The new bytes have their length and nothing else yet.
bool take_part(ByteCursor& in, UndoPart& part) {
  auto number = [&] { return in.take<std::uint64_t>(); };
  auto length = number();
  part.modified.tv_sec = static_cast<std::time_t>(number());
  part.modified.tv_nsec = static_cast<long>(number());
  part.record.device = number();
  part.record.inode = number();
  FileEdit& edit = part.record.edit;
  edit.old_size = number();
  edit.new_size = number();
  auto patches = number();
  part.name = in.take_text(length);
  std::uint64_t from = 0;
  for (std::uint64_t i = 0; i < patches; ++i) {
    FilePatch patch{.offset = number(), .old_bytes = {}, .new_bytes = {}};
    patch.old_bytes = take_undo_vector(in, number());
    patch.new_bytes.resize(patch.old_bytes.size());
    bool inside = patch.offset >= from && patch.offset <= edit.common_size() &&
                  patch.old_bytes.size() <= edit.common_size() - patch.offset;
    if (!inside) return false;
    from = patch.offset + patch.old_bytes.size();
    edit.patches.push_back(std::move(patch));
  }
  std::uint64_t rest = std::max(edit.old_size, edit.new_size) - edit.common_size();
  if (rest > kLongestRecord) return false;
  if (edit.old_size > edit.new_size) edit.tail = take_undo_vector(in, rest);
  edit.tail.resize(rest);
  part.new_hash = take_undo_hash(in);
  return !part.name.empty() && part.name.find('/') == std::string::npos;
}

UndoParts parse_undo(core::Bytes bytes) {
  if (bytes.size() < kUndoHashBytes) return {};
  ByteCursor in(bytes, "the record of an edit");
  ByteCursor end(bytes.subspan(bytes.size() - kUndoHashBytes));
  if (take_undo_hash(end) != hash128(bytes.first(bytes.size() - kUndoHashBytes))) return {};
  if (in.take_text(kUndoMagic.size()) != kUndoMagic || in.take<std::uint64_t>() != kUndoVersion) return {};
  auto count = in.take<std::uint64_t>();
  if (count > kMostParts) return {};
  UndoParts parts;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!take_part(in, parts.emplace_back())) return {};
  }
  return parts;
}

/// Edits of long ago are taken back by nobody, and their files may be gone.
void remove_old(int folder) {
  std::error_code failed;
  for (fs::directory_iterator at("/proc/self/fd/" + std::to_string(folder), failed), end; !failed && at != end;
       at.increment(failed)) {
    std::string name = at->path().filename().string();
    struct stat status {};
    bool ours = is_undo_name(name) && ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (ours && std::time(nullptr) - status.st_mtim.tv_sec > kKeptFor) file_ops().unlinkat(folder, name.c_str(), 0);
  }
}

/// What lies beside a file is its owner's, and is read by whoever reads the file.
void give_to_owner(int record, int folder, const std::string& name) {
  struct stat owner {};
  if (::fstatat(folder, name.c_str(), &owner, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (owner.st_uid != ::geteuid()) (void)!::fchown(record, owner.st_uid, owner.st_gid);
  (void)::fchmod(record, owner.st_mode & 0666);
}

bool is_there(const RecordPlace& place) {
  struct stat status {};
  return ::fstatat(place.folder, place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

bool write_record(const RecordPlace& place, core::Bytes bytes, const std::string& name) {
  if (is_there(place)) file_ops().unlinkat(place.folder, place.name.c_str(), 0);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  Fd record(file_ops().openat(place.folder, place.name.c_str(), kFlags, 0600));
  if (!record) return false;
  if (place.kept == UndoKept::beside) give_to_owner(record.get(), place.folder, name);
  if (write_fully(record.get(), 0, bytes) == 0) return true;
  file_ops().unlinkat(place.folder, place.name.c_str(), 0);
  return false;
}

}  // namespace

UndoKept keep_undo(int folder, const std::string& name, const UndoParts& parts) {
  core::ByteVector bytes = encode(parts);
  UndoKept kept = UndoKept::nowhere;
  for (const RecordPlace& place : Places(folder, name, true)) {
    if (kept != UndoKept::nowhere) {
      if (is_there(place)) file_ops().unlinkat(place.folder, place.name.c_str(), 0);
    } else if (write_record(place, bytes, name)) {
      kept = place.kept;
      if (kept == UndoKept::state_folder) remove_old(place.folder);
    }
  }
  return kept;
}

FoundUndo find_undo(int folder, const std::string& name, uid_t owner) {
  for (const RecordPlace& place : Places(folder, name)) {
    if (!is_there(place)) continue;
    FoundUndo found{.kept = place.kept, .path = place.path, .parts = {}};
    uid_t writer = place.kept == UndoKept::beside ? owner : ::geteuid();
    RecordBytes read = read_record(place.folder, place.name, writer);
    found.foreign = read.kind == FoundEdit::Kind::none;
    found.error = read.error;
    try {
      found.parts = parse_undo(read.bytes);
    } catch (const core::Error&) {
      found.parts.clear();  // it is cut
    }
    return found;
  }
  return {};
}

bool is_as_left(int file, UndoPart& part) {
  struct stat status {};
  if (::fstat(file, &status) != 0) throw_errno(errno, "cannot look at the file");
  FileEdit& edit = part.record.edit;
  // Written to since: whatever changed, the edit is no longer the last one.
  bool same = part.record.device == status.st_dev && part.record.inode == status.st_ino &&
              part.modified.tv_sec == status.st_mtim.tv_sec && part.modified.tv_nsec == status.st_mtim.tv_nsec &&
              static_cast<std::uint64_t>(status.st_size) == edit.new_size;
  if (!same) return false;
  for (FilePatch& patch : edit.patches) patch.new_bytes.resize(read_at(file, patch.offset, patch.new_bytes).size());
  if (edit.new_size > edit.old_size) edit.tail.resize(read_at(file, edit.old_size, edit.tail).size());
  return hash_of_new(edit) == part.new_hash;
}

void drop_undo(int folder, const std::string& name) {
  for (const RecordPlace& place : Places(folder, name)) {
    if (is_there(place)) file_ops().unlinkat(place.folder, place.name.c_str(), 0);
  }
}

bool is_undo_name(std::string_view name) {
  return name.ends_with(kSuffix);
}

}  // namespace ckpt::detail

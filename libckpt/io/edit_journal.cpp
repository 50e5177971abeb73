#include "libckpt/io/edit_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/edit_record.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/pending_files.h"
#include "libckpt/io/replaced_file.h"
#include "libckpt/io/set_edit.h"
#include "libckpt/io/undo_record.h"
#include "libckpt/io/writer_lock.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::EditStage;
using detail::Fd;
using detail::file_ops;
using detail::FoundEdit;
using detail::sync_folder;
using detail::throw_errno;

Fd open_target(int folder, const std::string& name) {
  return Fd(file_ops().openat(folder, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0));
}

struct stat status_of_target(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(errno, "cannot look at the file");
  return status;
}

/// For an edit that stands.
UndoKept keep_undo_of(int folder, const std::string& name, int file, detail::EditRecord record) {
  struct stat status = status_of_target(file);
  record.device = status.st_dev;
  record.inode = status.st_ino;
  detail::UndoParts parts;
  parts.push_back({name, status.st_mtim, std::move(record)});
  return detail::keep_undo(folder, name, parts);
}

/// Ends the interrupted edit of an open file: one that is whole is kept, of one that was begun the old bytes come back.
/// Returns how many. Killed anywhere, it can be repeated: the record goes last.
std::uint64_t settle_open(int folder, const std::string& name, int target) {
  constexpr const char* kDoing = "cannot take back an edit of this file that was interrupted";
  std::string journal = detail::journal_name(name);
  FoundEdit found = detail::find_edit(folder, journal, status_of_target(target).st_uid);
  if (found.kind == FoundEdit::Kind::none) return 0;
  if (found.kind == FoundEdit::Kind::unreadable) throw_errno(found.error, kDoing);
  // A record that is not whole was followed by no write; one that does not fit is that of a file which was replaced.
  EditStage stage = found.record ? detail::stage_in(folder, target, *found.record) : EditStage::foreign;
  int error = 0;
  if (stage == EditStage::begun) {
    error = detail::write_version(target, found.record->edit, detail::Version::before);
  }
  if (error == 0 && stage != EditStage::foreign && file_ops().fsync(target) != 0) error = errno;
  if (error != 0) throw_errno(error, kDoing);
  std::uint64_t put_back = stage == EditStage::begun ? found.record->edit.length() : 0;
  bool alone = stage == EditStage::whole && !found.record->set;
  if (alone && !found.record->edit.appends()) keep_undo_of(folder, name, target, std::move(*found.record));
  if (stage == EditStage::whole && !alone) error = sync_folder(folder);  // that the head of the set is the new one
  if (error != 0) throw_errno(error, kDoing);
  error = file_ops().unlinkat(folder, journal.c_str(), 0) == 0 ? sync_folder(folder) : errno;
  if (error != 0) throw_errno(error, kDoing);
  return put_back;
}

}  // namespace

bool FileEdit::appends() const {
  auto stays = [](const FilePatch& patch) { return patch.old_bytes == patch.new_bytes; };
  return new_size > old_size && std::ranges::all_of(patches, stays);
}

std::uint64_t FileEdit::length() const {
  std::uint64_t bytes = tail.size();
  for (const FilePatch& patch : patches) bytes += patch.old_bytes == patch.new_bytes ? 0 : patch.new_bytes.size();
  return bytes;
}

void FileEdit::replace(std::uint64_t offset, core::Bytes old_bytes, core::Bytes new_bytes) {
  if (std::ranges::equal(old_bytes, new_bytes)) return;
  patches.push_back({offset, {old_bytes.begin(), old_bytes.end()}, {new_bytes.begin(), new_bytes.end()}});
}

void FileEdit::replace_where_different(std::uint64_t offset, core::Bytes old_bytes, core::Bytes new_bytes) {
  constexpr std::size_t kBlock = 256;  // so many bytes that stay are worth a patch less
  std::size_t end = old_bytes.size();
  auto same = [&](std::size_t at) {
    return std::memcmp(&old_bytes[at], &new_bytes[at], std::min(kBlock, end - at)) == 0;
  };
  for (std::size_t at = 0; at < end;) {
    while (at < end && same(at)) at += kBlock;
    std::size_t begin = std::min(at, end);
    while (at < end && !same(at)) at += kBlock;
    std::size_t last = std::min(at, end);
    while (begin < last && old_bytes[begin] == new_bytes[begin]) ++begin;
    while (begin < last && old_bytes[last - 1] == new_bytes[last - 1]) --last;
    replace(offset + begin, old_bytes.subspan(begin, last - begin), new_bytes.subspan(begin, last - begin));
  }
}

void FileEdit::replace_end(std::uint64_t offset, core::Bytes old_end, core::Bytes new_end) {
  old_size = offset + old_end.size();
  new_size = offset + new_end.size();
  std::size_t common = std::min(old_end.size(), new_end.size());
  replace_where_different(offset, old_end.first(common), new_end.first(common));
  core::Bytes rest = (old_end.size() > common ? old_end : new_end).subspan(common);
  tail.assign(rest.begin(), rest.end());
}

std::string undo_warning(UndoKept kept) {
  if (kept == UndoKept::beside) {
    return "what 'ckpt undo' needs lies in a hidden file beside it: the state folder (XDG_STATE_HOME, or .local/state "
           "in HOME) cannot be written to";
  }
  if (kept == UndoKept::nowhere) {
    return "'ckpt undo' cannot take this edit back: neither the state folder (XDG_STATE_HOME, or .local/state in HOME) "
           "nor the folder of the file has room for its record";
  }
  return "";
}

struct EditJournal::Impl {
  explicit Impl(const std::filesystem::path& path_in) : path(path_in), target(detail::look_up(path)) {
    if (!target.old) throw_errno(ENOENT, "cannot write");
  }

  void begin() {
    lock = detail::WriterLock(folder(), target.name);
    detail::Step step;
    file = open_target(folder(), target.name);
    if (!file) throw_errno(errno, "cannot open it for writing");
    put_back = settle_open(folder(), target.name, file.get());
  }

  int folder() const { return target.folder.get(); }

  UndoKept apply(FileEdit wanted) {
    struct stat status = status_of_target(file.get());
    detail::EditRecord record{
        .device = status.st_dev, .inode = status.st_ino, .edit = detail::anchored(file.get(), std::move(wanted))};
    const FileEdit& edit = record.edit;
    detail::require_allowed(std::max<std::uint64_t>(edit.new_size, detail::record_size(record)));
    if (!detail::is_before(file.get(), edit)) {
      throw Error(ErrorCode::io, "the file was changed by another program; nothing was written");
    }
    detail::Step step;  // it takes milliseconds, so a signal may wait
    write_journal(detail::encode(record));
    int error = detail::write_version(file.get(), edit, detail::Version::after);
    bool synced = error != 0 || file_ops().fsync(file.get()) == 0;
    if (!synced) error = errno;
    if (error != 0) take_back(edit, error, synced);
    return end(std::move(record));
  }

  /// The record and its name are durable before anything else changes; where that fails, nothing has.
  void write_journal(const core::ByteVector& encoded) const {
    int error = detail::write_journal(folder(), target.name, file.get(), encoded);
    if (error == 0) {
      error = sync_folder(folder());
      if (error != 0) file_ops().unlinkat(folder(), detail::journal_name(target.name).c_str(), 0);
    }
    if (error != 0) throw_errno(error, "cannot write the record of the edit beside it");
  }

  /// A failed fsync is never repeated. The record stays wherever the old bytes are not known to be durable.
  [[noreturn]] void take_back(const FileEdit& edit, int error, bool may_sync) const {
    std::string name = detail::journal_name(target.name);
    std::string what = "the edit failed: " + detail::describe_errno(error) + "; ";
    int failed = detail::write_version(file.get(), edit, detail::Version::before);
    if (failed != 0) {
      throw Error(ErrorCode::io, what + "its old bytes could not be put back: " + detail::describe_errno(failed) +
                                     "; they are kept in " + core::quote(name) +
                                     ", without which the file may be unreadable, and 'ckpt undo' puts them back" +
                                     (may_sync ? "" : " (until then its durability is unknown)"));
    }
    if (!may_sync || file_ops().fsync(file.get()) != 0) {
      throw Error(ErrorCode::io, what + "its old bytes are back, but their durability is unknown: fsync failed; " +
                                     core::quote(name) + " keeps them, and 'ckpt undo' makes sure of them");
    }
    file_ops().unlinkat(folder(), name.c_str(), 0);
    sync_folder(folder());
    throw_errno(error, "cannot write; the file is as it was");
  }

  /// The edit stands already: a record of a file that holds all new bytes is that of a whole edit, and goes whenever it
  /// is found. So it need not be durable that it goes.
  UndoKept end(detail::EditRecord record) const {
    UndoKept kept = UndoKept::in_file;
    if (record.edit.appends()) {
      detail::drop_undo(folder(), target.name);
    } else {
      kept = keep_undo_of(folder(), target.name, file.get(), std::move(record));
    }
    file_ops().unlinkat(folder(), detail::journal_name(target.name).c_str(), 0);
    return kept;
  }

  detail::FoundUndo find() const {
    return detail::find_undo(folder(), target.name, status_of_target(file.get()).st_uid);
  }

  /// The last edit, when the file is as it left it. Errors: those of EditJournal::undo().
  FileEdit last_edit() const {
    detail::FoundUndo found = find();
    if (found.error != 0)
      throw_errno(found.error, "cannot read the record of its last edit, " + core::quote(found.path));
    if (found.parts.size() != 1) {
      throw Error(ErrorCode::io, "there is no record of an edit in place, so nothing can be undone");
    }
    if (!detail::is_as_left(file.get(), found.parts.front())) {
      throw Error(ErrorCode::io, "the file was changed after its last edit in place, which therefore cannot be undone");
    }
    return std::move(found.parts.front().record.edit);
  }

  std::uint64_t undo() {
    if (put_back > 0) return put_back;
    FileEdit last = last_edit();
    std::uint64_t bytes = last.length();
    apply(detail::reversed(std::move(last)));
    return bytes;
  }

  std::filesystem::path path;
  detail::Target target;
  detail::WriterLock lock;  ///< behind target, whose folder it needs
  Fd file;
  std::uint64_t put_back = 0;  ///< bytes of an interrupted edit that begin() took back
};

EditJournal::EditJournal(const std::filesystem::path& path)
    : impl_(core::with_context(path.string(), [&] {
        auto impl = std::make_unique<Impl>(path);
        impl->begin();
        return impl;
      })) {}

EditJournal::~EditJournal() = default;

bool EditJournal::may_edit(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) return false;
  bool mine = status.st_uid == ::geteuid() || ::geteuid() == 0;
  return mine && (status.st_mode & S_IWUSR) != 0 && ::access(path.c_str(), W_OK) == 0;
}

bool EditJournal::can_record(const FileEdit& edit) {
  return detail::record_size({.edit = edit}) <= detail::kLongestRecord;
}

UndoKept EditJournal::apply(FileEdit edit) {
  return core::with_context(impl_->path.string(), [&] { return impl_->apply(std::move(edit)); });
}

std::uint64_t EditJournal::undo() {
  return core::with_context(impl_->path.string(), [&] { return impl_->undo(); });
}

bool EditJournal::can_undo() const {
  return impl_->put_back > 0 || impl_->find().kept != UndoKept::nowhere;
}

bool EditJournal::settle(const std::filesystem::path& path) {
  std::error_code failed;
  std::filesystem::path real = std::filesystem::canonical(path, failed);
  if (failed || !std::filesystem::is_regular_file(real, failed)) return false;
  std::filesystem::path journal = real.parent_path() / detail::journal_name(real.filename().string());
  struct stat status {};
  if (::lstat(journal.c_str(), &status) == 0) return EditJournal(path).impl_->put_back > 0;
  return detail::may_be_head(real.filename().string()) && settle_set(path) > 0;
}

UndoKept keep_undo_of_replaced(const std::filesystem::path& path, FileEdit edit) {
  return core::with_context(path.string(), [&] {
    EditJournal::Impl replaced(path);
    replaced.begin();
    if (detail::stage_of(replaced.file.get(), edit) != EditStage::whole) {
      throw Error(ErrorCode::io, "the file was changed by another program right after it was written");
    }
    return keep_undo_of(replaced.folder(), replaced.target.name, replaced.file.get(), {.edit = std::move(edit)});
  });
}

std::uint64_t undo_by_replacing(const std::filesystem::path& path) {
  std::uint64_t put_back = EditJournal(path).impl_->put_back;
  if (put_back > 0) return put_back;
  AtomicFile before(path);  // from here on nobody else writes it
  return core::with_context(path.string(), [&] {
    EditJournal::Impl edited(path);
    edited.file = open_target(edited.folder(), edited.target.name);
    if (!edited.file) throw_errno(errno, "cannot open it");
    FileEdit last = edited.last_edit();
    core::ByteVector now(last.new_size);
    now.resize(detail::read_at(edited.file.get(), 0, now).size());
    before.write(detail::version_of(now, last, detail::Version::before));
    before.commit();
    std::uint64_t bytes = last.length();
    try {
      keep_undo_of_replaced(path, detail::reversed(std::move(last)));
    } catch (const Error&) {  // it is undone, whether that can be taken back or not
    }
    return bytes;
  });
}

namespace detail {

std::uint64_t settle_edit(int folder, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder, journal_name(name).c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return 0;
  Fd file = open_target(folder, name);
  if (file) return settle_open(folder, name, file.get());
  if (errno != ENOENT) throw_errno(errno, "cannot take back an edit of this file that was interrupted");
  return 0;
}

}  // namespace detail
}  // namespace ckpt

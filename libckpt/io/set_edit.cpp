#include "libckpt/io/set_edit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/edit_record.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/mentions.h"
#include "libckpt/io/pending_files.h"
#include "libckpt/io/replaced_file.h"
#include "libckpt/io/undo_record.h"
#include "libckpt/io/writer_lock.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::EditRecord;
using detail::Fd;
using detail::file_ops;
using detail::throw_errno;
using detail::Version;
namespace fs = std::filesystem;

constexpr const char* kChanged = "the file was changed by another program; nothing was written";

struct stat status_of_part(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(errno, "cannot look at the file");
  return status;
}

Fd open_member(int folder, const std::string& name, int access) {
  Fd file(file_ops().openat(folder, name.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0));
  if (!file) throw_errno(errno, "cannot open it for writing");
  return file;
}

FileEdit whole_edit(core::Bytes before, core::Bytes after) {
  FileEdit edit;
  edit.replace_end(0, before, after);
  return edit;
}

/// A member while its set is edited.
struct OpenMember {
  OpenMember(int folder, const MemberEdit& edit) : name(edit.name), lock(folder, edit.name) {
    file = open_member(folder, name, O_RDWR);
    detail::settle_edit(folder, name);
    struct stat status = status_of_part(file.get());
    record = {.device = status.st_dev, .inode = status.st_ino, .edit = detail::anchored(file.get(), edit.changes)};
    if (!detail::is_before(file.get(), record.edit)) throw Error(ErrorCode::io, kChanged);
  }

  /// 0, or the errno that stopped it.
  int make(Version version) {
    touched = true;
    int error = detail::write_version(file.get(), record.edit, version);
    if (error != 0) return error;
    if (sync_failed) return EIO;  // an fsync that failed says nothing when it is repeated
    error = file_ops().fsync(file.get()) == 0 ? 0 : errno;
    sync_failed = error != 0;
    return error;
  }

  std::string name;
  detail::WriterLock lock;
  Fd file;
  EditRecord record;
  bool has_journal = false;
  bool touched = false;
  bool sync_failed = false;
};

class SetWriter {
 public:
  explicit SetWriter(const fs::path& head)
      : path_(head), target_(detail::look_up(head)), lock_(target_.folder.get(), target_.name) {
    if (!target_.old) throw_errno(ENOENT, "cannot write");
    detail::settle_edit(folder(), target_.name);
    put_back_ = detail::settle_members(folder(), target_.name);
  }

  std::uint64_t put_back() const { return put_back_; }

  UndoKept apply(const SetEdit& edit) {
    if (read_all(*open_file(path_)) != edit.old_head) throw Error(ErrorCode::io, kChanged);
    open_members(edit);
    AtomicFile head(path_, {.overwrite = true, .durable = true, .expected_size = edit.new_head.size(), .lock = false});
    head.write(edit.new_head);
    head.prepare();
    detail::Step step;  // until the set is old or new again, a signal waits
    write_journals();
    change_members();
    commit(head);
    return end(edit);
  }

  std::uint64_t undo() {
    if (put_back_ > 0) return put_back_;
    SetEdit back = last_edit();
    apply(back);
    return back.length();
  }

 private:
  int folder() const { return target_.folder.get(); }

  void open_members(const SetEdit& edit) {
    Hash128 before = hash128(edit.old_head);
    Hash128 after = hash128(edit.new_head);
    for (const MemberEdit& member : edit.members) {
      core::with_context(core::quote(member.name), [&] {
        members_.push_back(std::make_unique<OpenMember>(folder(), member));
        EditRecord& record = members_.back()->record;
        record.set = {target_.name, member.name, before, after};
        detail::require_allowed(std::max(record.edit.new_size, detail::record_size(record)));
      });
    }
  }

  void write_journals() {
    int error = 0;
    for (const auto& member : members_) {
      if (error != 0) break;
      error = detail::write_journal(folder(), member->name, member->file.get(), detail::encode(member->record));
      member->has_journal = error == 0;
    }
    if (error == 0) error = detail::sync_folder(folder());
    if (error == 0) return;
    remove_journals();
    throw_errno(error, "cannot write the record of the edit beside it");
  }

  void change_members() {
    for (const auto& member : members_) {
      int error = member->make(Version::after);
      if (error != 0)
        take_back("the edit of " + core::quote(member->name) + " failed: " + detail::describe_errno(error));
    }
  }

  void commit(AtomicFile& head) {
    std::string why;
    try {
      return head.commit();
    } catch (const Error& error) {
      // Whether a power cut leaves the old head or the new one is unknown; the journals go with either.
      if (head.in_place()) throw;
      why = error.message();
    }
    take_back(why);
  }

  [[noreturn]] void take_back(const std::string& why) {
    bool durable = true;
    for (const auto& member : members_) {
      if (member->touched && member->make(Version::before) != 0) durable = false;
    }
    if (!durable) {
      throw Error(ErrorCode::io, why + "; the old bytes are not back everywhere, or their durability is unknown; " +
                                     "hidden files beside it keep them, and 'ckpt undo' puts them back");
    }
    remove_journals();
    detail::sync_folder(folder());
    throw Error(ErrorCode::io, why + "; all files are as they were");
  }

  /// The edit stands already, and a journal that is found with the new head goes: that they go need not be durable.
  UndoKept end(const SetEdit& edit) {
    UndoKept kept = UndoKept::nowhere;
    Fd head(::openat(folder(), target_.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (head) {
      struct stat status = status_of_part(head.get());
      EditRecord record{
          .device = status.st_dev, .inode = status.st_ino, .edit = whole_edit(edit.old_head, edit.new_head)};
      detail::UndoParts parts{{target_.name, status.st_mtim, std::move(record)}};
      for (const auto& member : members_) {
        parts.push_back({member->name, status_of_part(member->file.get()).st_mtim, member->record});
      }
      kept = detail::keep_undo(folder(), target_.name, parts);
    }
    remove_journals();
    return kept;
  }

  void remove_journals() {
    for (const auto& member : members_) {
      if (member->has_journal) file_ops().unlinkat(folder(), detail::journal_name(member->name).c_str(), 0);
    }
  }

  /// What takes back the edit that is recorded.
  SetEdit last_edit() const {
    detail::FoundUndo found = detail::find_undo(folder(), target_.name, target_.old->st_uid);
    if (found.error != 0)
      throw_errno(found.error, "cannot read the record of its last edit, " + core::quote(found.path));
    if (found.parts.size() < 2) throw Error(ErrorCode::io, "there is no record of an edit in place of several files");
    SetEdit back;
    for (detail::UndoPart& part : found.parts) {
      Fd file(::openat(folder(), part.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
      if (!file || !detail::is_as_left(file.get(), part)) {
        throw Error(ErrorCode::io, core::quote(part.name) +
                                       " was changed after the last edit in place, which therefore cannot be undone");
      }
      if (&part != &found.parts.front()) back.members.push_back({part.name, detail::reversed(part.record.edit)});
    }
    back.old_head = read_all(*open_file(path_));
    back.new_head = detail::version_of(back.old_head, found.parts.front().record.edit, Version::before);
    return back;
  }

  fs::path path_;
  detail::Target target_;
  detail::WriterLock lock_;  ///< behind target_, whose folder it needs
  std::vector<std::unique_ptr<OpenMember>> members_;
  std::uint64_t put_back_ = 0;
};

/// Names of the files in an open folder; none where it cannot be listed.
std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  Fd fd(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* listing = fd ? ::fdopendir(fd.get()) : nullptr;
  if (listing == nullptr) return names;
  fd.release();
  while (const dirent* entry = ::readdir(listing)) names.emplace_back(entry->d_name);
  ::closedir(listing);
  return names;
}

struct Journaled {
  std::string member;  ///< "" for a journal of another set, or of a file alone
  bool whole = false;  ///< what is not does not say whose it is, and counts: nothing was written after it
};

Journaled member_of(int folder, const std::string& journal, const std::string& head) {
  struct stat status {};
  if (::fstatat(folder, journal.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return {};
  detail::FoundEdit found = detail::find_edit(folder, journal, status.st_uid);
  bool other = found.record && (!found.record->set || found.record->set->head != head);
  if (found.kind != detail::FoundEdit::Kind::present || other) return {};
  std::string member = found.record ? found.record->set->member : detail::journaled_name(journal);
  bool fits = detail::is_plain_name(member) && detail::journal_name(member) == journal;
  return fits ? Journaled{std::move(member), found.record.has_value()} : Journaled();
}

}  // namespace

std::uint64_t SetEdit::length() const {
  std::uint64_t bytes = new_head.size();
  for (const MemberEdit& member : members) bytes += member.changes.length();
  return bytes;
}

bool may_edit_member(const fs::path& head, const std::string& name) {
  std::error_code failed;
  fs::path member = head.parent_path() / name;
  return detail::is_plain_name(name) && !fs::is_symlink(head, failed) && !fs::is_symlink(member, failed) &&
         EditJournal::may_edit(member);
}

UndoKept apply_set_edit(const fs::path& head, const SetEdit& edit) {
  return core::with_context(head.string(), [&] { return SetWriter(head).apply(edit); });
}

bool is_set_edit(const fs::path& head) {
  return core::with_context(head.string(), [&] {
    detail::Target target = detail::look_up(head);
    return target.old && detail::find_undo(target.folder.get(), target.name, target.old->st_uid).parts.size() > 1;
  });
}

std::uint64_t undo_set_edit(const fs::path& head) {
  return core::with_context(head.string(), [&] { return SetWriter(head).undo(); });
}

std::uint64_t settle_set(const fs::path& head) {
  return core::with_context(head.string(), [&] {
    detail::Target target = detail::look_up(head);
    for (const std::string& name : names_in(target.folder.get())) {
      if (detail::is_journal_name(name) && !member_of(target.folder.get(), name, target.name).member.empty()) {
        return SetWriter(head).put_back();
      }
    }
    return std::uint64_t{0};
  });
}

namespace detail {

bool may_be_head(std::string_view name) {
  return name.ends_with(".json");
}

std::uint64_t settle_members(int folder, const std::string& head) {
  std::uint64_t bytes = 0;
  for (const std::string& name : names_in(folder)) {
    Journaled journal = is_journal_name(name) ? member_of(folder, name, head) : Journaled();
    if (journal.member.empty()) continue;
    try {
      WriterLock lock(folder, journal.member);
      bytes += settle_edit(folder, journal.member);
    } catch (Error& error) {
      if (!journal.whole) continue;  // another writer is about to write it
      throw error.add_context(core::quote(journal.member));
    }
  }
  return bytes;
}

}  // namespace detail
}  // namespace ckpt

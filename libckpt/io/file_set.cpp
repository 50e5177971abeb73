#include "libckpt/io/file_set.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <optional>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/leftovers.h"
#include "libckpt/io/mentions.h"
#include "libckpt/io/pending_files.h"
#include "libckpt/io/replaced_file.h"
#include "libckpt/io/set_edit.h"
#include "libckpt/io/writer_lock.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using detail::file_ops;
using detail::throw_errno;
namespace fs = std::filesystem;

/// Who a file is, whatever its name.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Identity&) const = default;
};

/// nullopt for what is no regular file, and for nothing.
std::optional<Identity> identity_of(int folder, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) return {};
  return Identity{status.st_dev, status.st_ino};
}

struct Member {
  std::string name;
  std::string hidden;
  std::optional<Identity> identity;
  bool placed = false;
  detail::Pending pending;  ///< what goes with it when the program ends before the set is whole
};

struct Hidden {
  std::string name;
  detail::PendingFile pending;
};

struct Superseded {
  std::string name;
  std::optional<Identity> identity;
};

}  // namespace

struct FileSet::Impl {
  Impl(const fs::path& head_path, const Options& options_in)
      : options(options_in),
        name(head_path.filename().string()),
        folder(head_path.has_parent_path() ? head_path.parent_path() : fs::path(".")),
        folder_fd(open_folder(folder)),
        lock(folder_fd.get(), name) {
    detail::sweep_folder(folder_fd.get(), lock);
    detail::settle_members(folder_fd.get(), name);  // an edit in place of the old set that was interrupted
    head = std::make_unique<AtomicFile>(
        head_path, AtomicFile::Options{.overwrite = options.overwrite, .durable = options.durable, .lock = false});
  }

  ~Impl() {
    if (committed) return;
    for (const Member& member : members) take_back(member);
  }

  /// Members lie where a reader looks for them: beside the path of the head, also where that is a link to elsewhere.
  static detail::Fd open_folder(const fs::path& folder) {
    detail::Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) throw_errno(errno, "cannot open the folder " + core::quote(folder.string()));
    return fd;
  }

  int remove(const std::string& file) const { return file_ops().unlinkat(folder_fd.get(), file.c_str(), 0); }

  void take_back(const Member& member) const {
    if (!member.placed) {
      remove(member.hidden);
    } else if (member.identity && identity_of(folder_fd.get(), member.name) == member.identity) {
      remove(member.name);
    }
  }

  void place_members() {
    for (Member& member : members) {
      core::with_context((folder / member.name).string(), [&] {
        detail::Step step;
        member.identity = identity_of(folder_fd.get(), member.hidden);
        detail::put_in_place({folder_fd.get(), member.hidden}, {folder_fd.get(), member.name}, detail::Taken::refuse);
        member.placed = true;
        member.pending = detail::PendingPart(folder_fd.get(), member.name);
      });
    }
    int error = options.durable ? detail::sync_folder(folder_fd.get()) : 0;
    if (error != 0) throw_errno(error, "cannot make the files durable (fsync of the folder)");
  }

  void commit_head() {
    try {
      head->commit();
      committed = true;
    } catch (...) {
      committed = head->in_place();
      if (committed) keep_members();
      throw;
    }
    keep_members();
  }

  void keep_members() {
    for (Member& member : members) member.pending.let_go();
  }

  /// The files first get hidden names: what has such a name cannot be exchanged any more, and goes with the next save
  /// even when this process is killed, however long the removal of large files takes.
  std::vector<Hidden> hide_superseded(const detail::IndexMentions& mentions) {
    std::vector<Hidden> hidden;
    for (const Superseded& file : superseded) {
      if (mentions.holds(file.name)) continue;
      std::string why = hide(file, hidden);
      if (!why.empty()) left.push_back(core::quote(file.name) + " (" + why + ")");
    }
    return hidden;
  }

  void remove_hidden(const std::vector<Hidden>& hidden) {
    for (const Hidden& file : hidden) {
      if (remove(file.name) != 0) {
        left.push_back(core::quote(file.name) + " (it cannot be removed: " + detail::describe_errno(errno) + ")");
      }
    }
  }

  /// "" when the file has a hidden name now, which is added to `hidden`, else why not.
  std::string hide(const Superseded& file, std::vector<Hidden>& hidden) const {
    if (!file.identity) return "it is not a regular file";
    if (identity_of(folder_fd.get(), file.name) != file.identity) return "it was replaced by another program";
    std::string fresh = detail::temporary_name(file.name);
    detail::Place named{folder_fd.get(), file.name};
    detail::Place away{folder_fd.get(), fresh};
    int error = detail::rename_file(named, away, detail::Taken::refuse);
    if (error != 0) return "it cannot be removed: " + detail::describe_errno(error);
    if (identity_of(folder_fd.get(), fresh) == file.identity) {
      hidden.push_back({fresh, detail::PendingFile(folder_fd.get(), fresh)});
      return "";
    }
    error = detail::rename_file(away, named, detail::Taken::refuse);
    return "it was replaced by another program" + (error == 0 ? "" : " and is now called " + core::quote(fresh));
  }

  Options options;
  std::string name;  ///< of the head
  fs::path folder;
  detail::Fd folder_fd;
  detail::WriterLock lock;  ///< of the head; members need none of their own
  std::unique_ptr<AtomicFile> head;
  std::vector<Member> members;
  std::vector<Superseded> superseded;
  std::vector<std::string> left;
  bool committed = false;
};

FileSet::FileSet(const fs::path& head, const Options& options)
    : impl_(core::with_context(head.string(), [&] { return std::make_unique<Impl>(head, options); })) {}

FileSet::~FileSet() = default;

bool FileSet::is_free(const std::string& name) const {
  std::error_code error;
  return fs::symlink_status(impl_->folder / name, error).type() == fs::file_type::not_found;
}

void FileSet::announce(const std::vector<std::string>& members, const std::vector<std::string>& superseded,
                       std::uint64_t size) {
  struct statvfs space {};
  if (::fstatvfs(impl_->folder_fd.get(), &space) == 0 && space.f_bavail < size / space.f_frsize) {
    throw_errno(ENOSPC, "cannot write " + core::format_size(size));
  }
  for (const std::string& name : members) {
    if (!is_free(name)) throw core::Error(core::ErrorCode::io, "it already exists").add_context(impl_->folder / name);
  }
  for (const std::string& name : superseded) {
    if (!detail::is_plain_name(name) || is_free(name)) continue;
    impl_->superseded.push_back({name, identity_of(impl_->folder_fd.get(), name)});
  }
}

void FileSet::write_member(const std::string& name, std::uint64_t size, const std::function<void(AtomicFile&)>& write) {
  const Options& options = impl_->options;
  AtomicFile file(impl_->folder / name, {.overwrite = false,
                                         .durable = options.durable,
                                         .expected_size = size,
                                         .lock = false,
                                         .io = options.io,
                                         .threads = options.threads});
  write(file);
  file.prepare();
  detail::Step step;
  Member member{name, file.leave_hidden(), std::nullopt, false, {}};
  member.pending = detail::PendingFile(impl_->folder_fd.get(), member.hidden);
  impl_->members.push_back(std::move(member));
}

void FileSet::keep_member(const std::string& name) {
  if (!impl_->options.durable) return;
  core::with_context((impl_->folder / name).string(), [&] {
    detail::Fd file(::openat(impl_->folder_fd.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file || file_ops().fsync(file.get()) != 0) throw_errno(errno, "cannot make the file durable (fsync)");
  });
}

void FileSet::commit(Bytes head) {
  impl_->head->write(head);
  impl_->head->prepare();
  detail::IndexMentions mentions(impl_->folder, impl_->name);
  mentions.add_text(core::as_text(head));
  impl_->place_members();
  std::vector<Hidden> hidden;
  {
    detail::Step step;  // the head is in place, the members stay and the old ones go, or none of it
    impl_->commit_head();
    hidden = impl_->hide_superseded(mentions);
  }
  impl_->remove_hidden(hidden);
}

const std::vector<std::string>& FileSet::left() const {
  return impl_->left;
}

}  // namespace ckpt

#include "libckpt/io/atomic_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/file_tree.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/leftovers.h"
#include "libckpt/io/writer_lock.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::Fd;
using detail::file_ops;
using detail::throw_errno;
namespace fs = std::filesystem;

/// Behind the name of a folder that was moved aside.
constexpr std::string_view kAside = ".ckpt-old";

/// "run/step-100/" and "run/step-100" name one folder; "." and "/" none that could be replaced.
fs::path plain(const fs::path& path) {
  fs::path name = path.has_filename() ? path : path.parent_path();
  if (!name.has_filename() || name.filename() == "." || name.filename() == "..") {
    throw Error(ErrorCode::usage, "names no folder that can be written");
  }
  return name;
}

/// The system or the file system cannot do it; not that the names are wrong.
bool cannot_exchange(int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP;
}

}  // namespace

struct AtomicFolder::Impl {
  Impl(const fs::path& path_in, const Options& options_in)
      : path(plain(path_in)), name(path.filename().string()), options(options_in) {}

  void create() {
    fs::path above = path.has_parent_path() ? path.parent_path() : fs::path(".");
    parent = Fd(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent) throw_errno(errno, "the folder " + core::quote(above.string()) + " cannot be opened");
    lock = detail::WriterLock(parent.get(), name);
    detail::sweep_folder(parent.get(), lock);
    detail::sweep_hidden_folders(parent.get(), lock);
    put_back();
    check_old();
    temporary = detail::temporary_name(name);
    if (file_ops().mkdirat(parent.get(), temporary.c_str(), 0777) != 0) {
      int error = std::exchange(errno, 0);
      temporary.clear();
      throw_errno(error, "cannot create a folder in " + core::quote(above.string()));
    }
    hidden = above / temporary;
    sync_parent("the folder beside it");
  }

  ~Impl() {
    if (!temporary.empty()) detail::remove_tree(parent.get(), temporary);
  }

  bool exists(const std::string& entry) const {
    struct stat status {};
    return ::fstatat(parent.get(), entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  }

  /// What a killed commit moved aside is the folder again.
  void put_back() const {
    std::string aside = name + std::string(kAside);
    if (!exists(aside)) return;
    if (exists(name)) {
      if (is_checkpoint(path.parent_path() / aside)) detail::remove_tree(parent.get(), aside);
    } else if (file_ops().renameat2(parent.get(), aside.c_str(), parent.get(), name.c_str(), RENAME_NOREPLACE) != 0) {
      throw_errno(errno, "cannot give " + core::quote(aside) + " its name back");
    }
  }

  /// What is in a folder and no file of a checkpoint, or "".
  std::string stranger_in(const fs::path& folder, std::error_code& error) const {
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      std::string entry = at->path().filename().string();
      bool known = options.may_replace && options.may_replace(entry) && !at->is_directory(error);
      if (!known) return entry;
    }
    return "";
  }

  /// Anything else of the name of a folder that was moved aside is somebody's own.
  bool is_checkpoint(const fs::path& folder) const {
    std::error_code error;
    return stranger_in(folder, error).empty() && !error;
  }

  void check_old() {
    struct stat status {};
    replaces = ::fstatat(parent.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (!replaces) return;
    if (!options.overwrite) throw_errno(EEXIST, "cannot write");
    if (!S_ISDIR(status.st_mode)) throw Error(ErrorCode::io, "is a file where a folder is to be written");
    std::error_code error;
    std::string stranger = stranger_in(path, error);
    if (error) throw Error(ErrorCode::io, "the folder cannot be read: " + error.message());
    if (stranger.empty()) return;
    throw Error(ErrorCode::refused,
                "the folder holds " + core::quote(stranger) + ", which is no part of a checkpoint; it is not replaced");
  }

  void sync_parent(const std::string& what) const {
    if (!options.durable) return;
    if (int error = detail::sync_folder(parent.get()); error != 0)
      throw_errno(error, "cannot make " + what + " durable");
  }

  int rename(const std::string& from, const std::string& to, unsigned flags) const {
    return file_ops().renameat2(parent.get(), from.c_str(), parent.get(), to.c_str(), flags) == 0 ? 0 : errno;
  }

  /// The old folder has the hidden name afterwards.
  void exchange() {
    int error = rename(temporary, name, RENAME_EXCHANGE);
    if (error == 0) return;
    if (!cannot_exchange(error)) throw_errno(error, "cannot put it in place");
    std::string aside = name + std::string(kAside);
    error = rename(name, aside, 0);
    if (error != 0) throw_errno(error, "cannot move the old folder aside");
    error = rename(temporary, name, 0);
    if (error != 0) {
      rename(aside, name, 0);
      throw_errno(error, "cannot put it in place");
    }
    temporary = aside;
  }

  void put_in_place() {
    if (replaces) return exchange();
    int error = rename(temporary, name, RENAME_NOREPLACE);
    if (cannot_exchange(error)) error = exists(name) ? EEXIST : rename(temporary, name, 0);
    if (error != 0) throw_errno(error, "cannot put it in place");
    temporary.clear();
  }

  void commit() {
    if (options.durable) {
      Fd folder(::openat(parent.get(), temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
      int error = folder ? detail::sync_folder(folder.get()) : errno;
      if (error != 0) throw_errno(error, "cannot make its files durable");
    }
    put_in_place();
    if (options.durable) {
      int error = detail::sync_folder(parent.get());
      if (error != 0) throw_errno(error, "it is in place, but its durability is unknown");
    }
    if (!temporary.empty()) detail::remove_tree(parent.get(), temporary);
    temporary.clear();
  }

  fs::path path;
  std::string name;
  Options options;
  Fd parent;
  detail::WriterLock lock;
  std::string temporary;  ///< what is to be removed at the end
  fs::path hidden;
  bool replaces = false;
};

AtomicFolder::AtomicFolder(const fs::path& path, const Options& options) {
  core::with_context(path.string(), [&] {
    impl_ = std::make_unique<Impl>(path, options);
    impl_->create();
  });
}

AtomicFolder::~AtomicFolder() = default;

const fs::path& AtomicFolder::hidden() const {
  return impl_->hidden;
}

void AtomicFolder::commit() {
  core::with_context(impl_->path.string(), [&] { impl_->commit(); });
}

fs::path moved_aside(const fs::path& path) {
  std::error_code ignored;
  if (path.empty() || fs::exists(path, ignored)) return path;
  fs::path name = path.has_filename() ? path : path.parent_path();
  fs::path aside = name.string() + std::string(kAside);
  return fs::is_directory(aside, ignored) ? aside : path;
}

}  // namespace ckpt

#include "libckpt/io/draft.h"

#include <fcntl.h>

#include <cerrno>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/leftovers.h"
#include "libckpt/io/pending_files.h"
#include "libckpt/io/replaced_file.h"
#include "libckpt/io/writer_lock.h"
#include "libcore/base/error.h"

namespace ckpt {

using detail::file_ops;
using detail::throw_errno;

struct Draft::Impl {
  explicit Impl(const std::filesystem::path& target)
      : beside(detail::look_up(target)),
        name(detail::temporary_name(beside.name)),
        path(std::filesystem::path(beside.folder_path) / name),
        lock(beside.folder.get(), name + ".draft"),
        pending(beside.folder.get(), name) {
    detail::sweep_folder(beside.folder.get(), lock);
  }
  ~Impl() {
    if (!name.empty()) file_ops().unlinkat(beside.folder.get(), name.c_str(), 0);
  }

  void make_durable(const detail::Target& target, const AtomicFile::Options& options) const {
    detail::Fd file(::openat(beside.folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) throw_errno(errno, "cannot open the file that was written");
    detail::keep_attributes(target, file.get());
    if (options.durable && file_ops().fsync(file.get()) != 0) {
      throw_errno(errno, "cannot make the file durable (fsync)");
    }
  }

  void move_to(const std::filesystem::path& path_in, const AtomicFile::Options& options) {
    detail::Target target = detail::look_up(path_in);
    if (!options.overwrite && target.old) throw_errno(EEXIST, "cannot write");
    detail::WriterLock writer(target.folder.get(), target.name);
    make_durable(target, options);
    if (options.overwrite) detail::require_unchanged(target);
    detail::Step step;
    detail::put_in_place({beside.folder.get(), name}, {target.folder.get(), target.name},
                         options.overwrite ? detail::Taken::replace : detail::Taken::refuse);
    name.clear();
    pending.let_go();
    if (options.durable) detail::sync_new_names(target.folder.get());
  }

  detail::Target beside;
  std::string name;  ///< empty when there is nothing to remove
  std::filesystem::path path;
  detail::WriterLock lock;  ///< says to others that whoever writes here lives
  detail::PendingFile pending;
};

Draft::Draft(const std::filesystem::path& target)
    : impl_(core::with_context(target.string(), [&] { return std::make_unique<Impl>(target); })) {}

Draft::~Draft() = default;

const std::filesystem::path& Draft::path() const {
  return impl_->path;
}

void Draft::move_to(const std::filesystem::path& target, const AtomicFile::Options& options) {
  core::with_context(target.string(), [&] { impl_->move_to(target, options); });
}

}  // namespace ckpt

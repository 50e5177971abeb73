#include "libckpt/io/atomic_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <mutex>
#include <optional>

#include "libckpt/io/checked_source.h"
#include "libckpt/io/direct_writer.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/leftovers.h"
#include "libckpt/io/pending_files.h"
#include "libckpt/io/replaced_file.h"
#include "libckpt/io/writer_lock.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::file_ops;
using detail::throw_errno;

constexpr std::uint64_t kCopyStep = 64ULL << 20;

/// Not supported everywhere (NFS before 4.2, some FUSE systems); then the free space is compared at least.
void preallocate(int fd, std::uint64_t size) {
  int result = 0;
  do {
    result = file_ops().fallocate(fd, 0, 0, static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno != EOPNOTSUPP && errno != ENOSYS) throw_errno(errno, "cannot reserve " + core::format_size(size));
  struct statvfs space {};
  if (::fstatvfs(fd, &space) != 0) return;
  if (space.f_bavail < size / space.f_frsize) throw_errno(ENOSPC, "cannot reserve " + core::format_size(size));
}

}  // namespace

struct AtomicFile::Impl {
  Impl(std::filesystem::path path_in, const Options& options_in)
      : path(std::move(path_in)), options(options_in), target(detail::look_up(path)) {
    if (!options.overwrite && target.old) throw_errno(EEXIST, "cannot write");
  }

  ~Impl() {
    if (!temporary.empty()) file_ops().unlinkat(target.folder.get(), temporary.c_str(), 0);
  }

  void create() {
    if (options.lock) take_lock();
    // A new file gets the mode that the system gives new files here (umask, default ACL); one that replaces another is
    // private until it has that one's mode.
    mode_t mode = target.old ? 0600 : 0666;
    make_temporary(detail::temporary_name(target.name), mode);
    if (options.expected_size > 0) {
      detail::require_allowed(options.expected_size);
      preallocate(fd.get(), options.expected_size);
    }
    if (wants_direct()) open_direct();
  }

  bool wants_direct() const {
    if (options.io != Io::automatic) return options.io == Io::direct;
    bool large = options.durable && options.expected_size >= detail::kDirectFrom;
    return large && detail::gains_from_direct(fd.get());
  }

  /// Where the system refuses, everything goes through the cache.
  void open_direct() {
    constexpr int kFlags = O_WRONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW;
    detail::Fd again(file_ops().openat(target.folder.get(), temporary.c_str(), kFlags, 0));
    if (again) direct.emplace(std::move(again), fd.get(), options.threads != 1);
  }

  void make_temporary(std::string name, mode_t mode) {
    detail::Step step;
    pending = detail::PendingFile(target.folder.get(), name);
    fd = detail::Fd(
        file_ops().openat(target.folder.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!fd) throw_errno(errno, "cannot create a file in the folder " + core::quote(target.folder_path));
    temporary = std::move(name);
  }

  void take_lock() {
    lock = detail::WriterLock(target.folder.get(), target.name);
    detail::sweep_folder(target.folder.get(), lock);
  }

  void append(Bytes bytes) {
    detail::require_allowed(position + bytes.size());
    direct ? direct->write(position, bytes) : write_at(position, bytes);
    position += bytes.size();
  }

  /// What follows may be anywhere in the file.
  void settle() {
    std::lock_guard one(settling);
    if (direct) direct->settle();
  }

  void write_at(std::uint64_t offset, Bytes bytes) {
    detail::require_allowed(offset + bytes.size());
    int error = detail::write_fully(fd.get(), offset, bytes);
    if (error != 0) throw_errno(error, "cannot write at byte " + std::to_string(offset));
  }

  /// Copies inside the kernel as far as that works; returns how many bytes were done.
  std::uint64_t copy_range(const FileRange& range) {
    detail::require_allowed(position + range.length);
    std::uint64_t done = 0;
    while (done < range.length) {
      auto from = static_cast<off_t>(range.offset + done);
      auto to = static_cast<off_t>(position + done);
      std::size_t step = std::min(kCopyStep, range.length - done);
      ssize_t n = file_ops().copy_file_range(range.fd, &from, fd.get(), &to, step, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == ENOSPC || errno == EDQUOT)) throw_errno(errno, "cannot write");
      if (n <= 0) break;
      done += static_cast<std::uint64_t>(n);
    }
    return done;
  }

  void finish_file() {
    detail::require_allowed(position);
    settle();
    direct.reset();
    if (file_ops().ftruncate(fd.get(), static_cast<off_t>(position)) != 0) throw_errno(errno, "cannot cut to size");
    detail::keep_attributes(target, fd.get());
    // A failed fsync is never repeated: the kernel has already dropped the pages, so a second one would lie.
    if (options.durable && file_ops().fsync(fd.get()) != 0) throw_errno(errno, "cannot make the file durable (fsync)");
    if (file_ops().close(fd.release()) != 0 && errno != EINTR) throw_errno(errno, "cannot close the file");
  }

  void move_into_place() {
    if (options.overwrite) detail::require_unchanged(target);
    int folder = target.folder.get();
    detail::Step step;
    detail::put_in_place({folder, temporary}, {folder, target.name},
                         options.overwrite ? detail::Taken::replace : detail::Taken::refuse);
    temporary.clear();
    pending.let_go();
    placed = true;
    lock = detail::WriterLock();
  }

  std::filesystem::path path;
  Options options;
  detail::Target target;
  detail::WriterLock lock;  ///< behind target, whose folder it needs
  std::string temporary;    ///< empty when there is nothing to remove
  detail::PendingFile pending;
  detail::Fd fd;
  std::optional<detail::DirectWriter> direct;  ///< behind fd, which it needs
  std::mutex settling;
  std::uint64_t position = 0;
  bool placed = false;
};

AtomicFile::AtomicFile(const std::filesystem::path& path, const Options& options)
    : impl_(core::with_context(path.string(), [&] {
        auto impl = std::make_unique<Impl>(path, options);
        impl->create();  // not in the constructor: from here on the destructor removes what was made
        return impl;
      })) {}

AtomicFile::~AtomicFile() = default;

std::uint64_t AtomicFile::position() const {
  return impl_->position;
}

void AtomicFile::write_at(std::uint64_t offset, Bytes bytes) {
  core::with_context(impl_->path.string(), [&] {
    impl_->settle();
    impl_->write_at(offset, bytes);
  });
}

void AtomicFile::read_at(std::uint64_t offset, MutableBytes out) const {
  core::with_context(impl_->path.string(), [&] {
    impl_->settle();
    while (!out.empty()) {
      ssize_t n = ::pread(impl_->fd.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw_errno(errno, "cannot read back at byte " + std::to_string(offset));
      if (n == 0)
        throw Error(ErrorCode::io, "cannot read back at byte " + std::to_string(offset) + ": nothing is there");
      offset += static_cast<std::uint64_t>(n);
      out = out.subspan(static_cast<std::size_t>(n));
    }
  });
}

void AtomicFile::write(Bytes bytes) {
  core::with_context(impl_->path.string(), [&] { impl_->append(bytes); });
}

void AtomicFile::write_from(const ByteSource& source) {
  std::optional<FileRange> range = source.file_range();
  bool may_copy = range && !awaits_check(source);
  if (impl_->direct && source.memory().empty() && !(may_copy && detail::shares_blocks(range->fd))) {
    return append_read(source);
  }
  if (!may_copy) return ByteSink::write_from(source);
  std::uint64_t done = core::with_context(impl_->path.string(), [&] { return impl_->copy_range(*range); });
  impl_->position += done;
  if (done == source.size()) return source.require_unchanged();
  // The kernel could not copy (another file system, a source that shrank); reading says which it is.
  SourcePtr borrowed(std::shared_ptr<const ByteSource>(), &source);
  ByteSink::write_from(*slice(borrowed, done, source.size() - done));
}

void AtomicFile::append_read(const ByteSource& source) {
  auto at_fault = [&](auto body) { return core::with_context(impl_->path.string(), body); };
  at_fault([&] { detail::require_allowed(impl_->position + source.size()); });
  for (std::uint64_t done = 0; done < source.size();) {
    MutableBytes room = at_fault([&] { return impl_->direct->room(impl_->position); });
    room = room.first(std::min<std::uint64_t>(room.size(), source.size() - done));
    source.read(done, room);
    at_fault([&] { impl_->direct->advance(room.size()); });
    done += room.size();
    impl_->position += room.size();
  }
  source.require_unchanged();
}

void AtomicFile::skip_to(std::uint64_t offset) {
  assert(offset >= impl_->position);
  impl_->position = offset;
}

void AtomicFile::prepare() {
  core::with_context(impl_->path.string(), [&] { impl_->finish_file(); });
}

bool AtomicFile::in_place() const {
  return impl_->placed;
}

void AtomicFile::commit() {
  assert(!impl_->temporary.empty());
  if (impl_->fd) prepare();
  core::with_context(impl_->path.string(), [&] {
    impl_->move_into_place();
    if (impl_->options.durable) detail::sync_new_names(impl_->target.folder.get());
  });
}

std::string AtomicFile::leave_hidden() {
  if (impl_->fd) prepare();
  impl_->lock = detail::WriterLock();
  impl_->pending.let_go();
  return std::exchange(impl_->temporary, "");
}

}  // namespace ckpt

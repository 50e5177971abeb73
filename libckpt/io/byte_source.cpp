#include "libckpt/io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libckpt/io/checked_source.h"
#include "libckpt/io/direct_reader.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/io/small_reads.h"
#include "libckpt/io/unedited_source.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// Reads past the end are the fault of whoever computed the offset from a file, hence corrupt.
void require_inside(std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
  if (offset <= size && length <= size - offset) return;
  throw Error(ErrorCode::corrupt, "bytes " + std::to_string(offset) + " to " + std::to_string(offset) + "+" +
                                      std::to_string(length) + " are past the end: only " + std::to_string(size) +
                                      " bytes are there");
}

struct stat status_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) detail::throw_errno(errno, "cannot look at the file");
  return status;
}

class FileSource final : public ByteSource {
 public:
  FileSource(detail::Fd fd, const struct stat& status, std::string path)
      : fd_(std::move(fd)),
        size_(static_cast<std::uint64_t>(status.st_size)),
        written_(status.st_mtim),
        path_(std::move(path)),
        cold_(fd_.get(), size_),
        small_(fd_.get()) {}

  std::uint64_t size() const override { return size_; }

  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(size_, offset, out.size());
    if (small_.read(offset, out) || cold_.read(offset, out)) return require_unchanged();
    while (!out.empty()) {
      ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail(n < 0 ? errno : 0, offset);
      offset += static_cast<std::uint64_t>(n);
      out = out.subspan(static_cast<std::size_t>(n));
    }
    // Here, so that no reader can forget it: the system sets the time before it writes, so bytes that were read before
    // this look are those of the file that was opened.
    require_unchanged();
  }

  std::optional<FileRange> file_range() const override { return FileRange{fd_.get(), 0, size_}; }
  void use(Io io) const { cold_.use(io); }
  const detail::DirectReader& cold() const { return cold_; }

  // Not the time of the last status change: a rename or a new mode changes that as well, and training programs move
  // a checkpoint ("epoch3.pth" becomes "best.pth") while it is open here.
  void require_unchanged() const override {
    struct stat now = status_of(fd_.get());
    bool same_time = now.st_mtim.tv_sec == written_.tv_sec && now.st_mtim.tv_nsec == written_.tv_nsec;
    if (same_time && static_cast<std::uint64_t>(now.st_size) == size_) return;
    throw Error(ErrorCode::io, "the file was changed by another program while it was being read").add_context(path_);
  }

 private:
  [[noreturn]] void fail(int error, std::uint64_t offset) const {
    std::string text = error == 0
                           ? "the file became shorter while it was being read"
                           : "cannot read at byte " + std::to_string(offset) + ": " + detail::describe_errno(error);
    throw Error(ErrorCode::io, std::move(text)).add_context(path_);
  }

  detail::Fd fd_;
  std::uint64_t size_;
  timespec written_;
  std::string path_;
  detail::DirectReader cold_;
  detail::SmallReads small_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(core::ByteVector bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(bytes_.size(), offset, out.size());
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  Bytes memory() const override { return bytes_; }
  void require_unchanged() const override {}

 private:
  core::ByteVector bytes_;
};

class SliceSource final : public ByteSource {
 public:
  SliceSource(SourcePtr whole, std::uint64_t offset, std::uint64_t length)
      : whole_(std::move(whole)), offset_(offset), length_(length) {}
  std::uint64_t size() const override { return length_; }
  void read(std::uint64_t offset, MutableBytes out) const override {
    require_inside(length_, offset, out.size());
    whole_->read(offset_ + offset, out);
  }
  Bytes memory() const override {
    Bytes all = whole_->memory();
    return all.empty() ? Bytes() : all.subspan(offset_, length_);
  }
  std::optional<FileRange> file_range() const override {
    std::optional<FileRange> range = whole_->file_range();
    if (range) *range = {range->fd, range->offset + offset_, length_};
    return range;
  }
  void require_unchanged() const override { whole_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { whole_->visit_checked(see); }
  const SourcePtr& whole() const { return whole_; }
  std::uint64_t offset() const { return offset_; }

 private:
  SourcePtr whole_;
  std::uint64_t offset_;
  std::uint64_t length_;
};

/// Null where there is none.
const FileSource* file_behind(const ByteSource& source) {
  const ByteSource& whole = detail::whole_of(unchecked(source));
  const auto* made = dynamic_cast<const detail::MadeOf*>(&whole);
  return made == nullptr ? dynamic_cast<const FileSource*>(&whole) : file_behind(made->made_of());
}

detail::Fd open_for_reading(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) detail::throw_errno(errno, "cannot open");
  return detail::Fd(fd);
}

struct stat regular_status(int fd) {
  struct stat status = status_of(fd);
  if (S_ISDIR(status.st_mode)) detail::throw_errno(EISDIR, "cannot open");
  if (!S_ISREG(status.st_mode)) throw Error(ErrorCode::io, "cannot open: it is a device or pipe, not a regular file");
  return status;
}

}  // namespace

SourcePtr detail::source_of(Fd file, const std::filesystem::path& path) {
  return core::with_context(path.string(), [&]() -> SourcePtr {
    struct stat status = regular_status(file.get());
    return detail::as_before_edit(std::make_shared<FileSource>(std::move(file), status, path.string()), path);
  });
}

void detail::read_as(const ByteSource& source, Io io) {
  if (const auto* file = dynamic_cast<const FileSource*>(&source)) file->use(io);
}

const ByteSource& detail::whole_of(const ByteSource& source) {
  const auto* part = dynamic_cast<const SliceSource*>(&source);
  return part == nullptr ? source : *part->whole();
}

bool detail::was_on_disk(const ByteSource& source) {
  const FileSource* file = file_behind(source);
  return file != nullptr && file->cold().was_cold();
}

bool detail::waits_for_disk(const ByteSource& source) {
  const FileSource* file = file_behind(source);
  return file != nullptr && file->cold().waits_for_disk();
}

SourcePtr open_file(const std::filesystem::path& path) {
  if (is_remote_name(path)) {
    return core::with_context(shown_name(path), [&] { return detail::remote_opener().open(path.native()); });
  }
  detail::Fd file = core::with_context(path.string(), [&] { return open_for_reading(path); });
  return detail::source_of(std::move(file), path);
}

SourcePtr slice(SourcePtr whole, std::uint64_t offset, std::uint64_t length) {
  require_inside(whole->size(), offset, length);
  if (offset == 0 && length == whole->size()) return whole;
  if (const auto* inner = dynamic_cast<const SliceSource*>(whole.get())) {
    return std::make_shared<SliceSource>(inner->whole(), inner->offset() + offset, length);
  }
  return std::make_shared<SliceSource>(std::move(whole), offset, length);
}

bool is_file_of(const ByteSource& source, const std::filesystem::path& path) {
  std::optional<FileRange> range = source.file_range();
  struct stat opened {};
  struct stat named {};
  bool looked = range && ::fstat(range->fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0;
  return looked && opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

SourcePtr memory_source(core::ByteVector bytes) {
  return std::make_shared<MemorySource>(std::move(bytes));
}

core::ByteVector read_all(const ByteSource& source) {
  core::ByteVector bytes(source.size());
  source.read(0, bytes);
  source.require_unchanged();
  return bytes;
}

}  // namespace ckpt

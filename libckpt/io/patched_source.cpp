#include "libckpt/io/patched_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

detail::Fd open_scratch(const std::filesystem::path& folder) {
  std::string name = folder.empty() ? "." : folder.string();
  detail::Fd fd(::open(name.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  // Not every file system has files without a name.
  std::string temporary = (std::filesystem::temp_directory_path() / "ckpt-rescue-XXXXXX").string();
  fd = detail::Fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) detail::throw_errno(errno, "cannot create a temporary file in the folder " + core::quote(name));
  ::unlink(temporary.c_str());
  return fd;
}

void write_fully(int fd, std::uint64_t at, Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) detail::throw_errno(n < 0 ? errno : ENOSPC, "cannot write a temporary file");
    at += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

class MissingSource final : public ByteSource {
 public:
  MissingSource(std::uint64_t size, std::string text) : size_(size), text_(std::move(text)) {}
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t, MutableBytes out) const override {
    if (!out.empty()) throw Error(ErrorCode::corrupt, text_);
  }
  void require_unchanged() const override {}

 private:
  std::uint64_t size_;
  std::string text_;
};

}  // namespace

void PatchedSource::patch(std::uint64_t offset, Bytes bytes) {
  if (bytes.empty()) return;
  std::uint64_t at = 0;
  {
    std::lock_guard lock(mutex_);
    if (!scratch_) scratch_ = open_scratch(folder_);
    at = scratch_end_;
    scratch_end_ += bytes.size();
    places_[offset] = {bytes.size(), at};
  }
  write_fully(scratch_.get(), at, bytes);
}

void PatchedSource::read(std::uint64_t offset, MutableBytes out) const {
  if (offset > size_ || out.size() > size_ - offset) throw Error(ErrorCode::corrupt, "a range lies past the end");
  auto next = places_.upper_bound(offset);
  if (next != places_.begin() && std::prev(next)->first + std::prev(next)->second.length > offset) --next;
  while (!out.empty()) {
    bool inside = next != places_.end() && next->first <= offset;
    std::uint64_t end = next == places_.end() ? size_ : next->first + (inside ? next->second.length : 0);
    MutableBytes part = out.first(std::min<std::uint64_t>(out.size(), end - offset));
    if (inside) {
      read_patch(next->second.at + (offset - next->first), part);
      ++next;
    } else {
      read_unpatched(offset, part);
    }
    offset += part.size();
    out = out.subspan(part.size());
  }
}

void PatchedSource::read_unpatched(std::uint64_t offset, MutableBytes out) const {
  if (offset + out.size() > file_->size()) {
    throw Error(ErrorCode::corrupt, "its bytes lie after the end of the file, which is cut");
  }
  file_->read(offset, out);
}

void PatchedSource::read_patch(std::uint64_t at, MutableBytes out) const {
  while (!out.empty()) {
    ssize_t n = ::pread(scratch_.get(), out.data(), out.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) detail::throw_errno(n < 0 ? errno : EIO, "cannot read a temporary file");
    at += static_cast<std::uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

SourcePtr missing_source(std::uint64_t size, std::string text) {
  return std::make_shared<MissingSource>(size, std::move(text));
}

}  // namespace ckpt

#include "libckpt/io/cached_pages.h"

#include <fcntl.h>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/file_source.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;

void drop_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file) ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace

void drop_cached_pages(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return drop_file(path);
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) drop_file(at->path());
}

void ask_for_pages_at(const ByteSource& file, const std::vector<std::uint64_t>& offsets) {
  constexpr off_t kPage = 4096;
  const std::optional<FileRange> range = file.file_range();
  if (!range || !was_on_disk(file)) return;
  for (const std::uint64_t offset : offsets) {
    ::posix_fadvise(range->fd, static_cast<off_t>(range->offset + offset), kPage, POSIX_FADV_WILLNEED);
  }
}

}  // namespace ckpt::detail

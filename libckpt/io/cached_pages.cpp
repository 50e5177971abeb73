#include "libckpt/io/cached_pages.h"

#include <fcntl.h>

#include "libckpt/io/file_ops.h"

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

}  // namespace ckpt::detail

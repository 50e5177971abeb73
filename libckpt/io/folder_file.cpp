#include "libckpt/io/folder_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "libckpt/hint.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

// O_NONBLOCK: opening a named pipe must not wait for a writer.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

/// A folder that links may not leave, and where the file lies from there.
struct Root {
  fs::path folder;
  fs::path name;
};

/// The cache of a model hub keeps the files of a revision as links: models--x/snapshots/REVISION/NAME leads to
/// ../../blobs/HASH. All of models--x came from one place, so a link may stay anywhere in it.
Root root_of(const fs::path& folder, const std::string& name) {
  std::error_code failed;
  fs::path real = fs::canonical(folder, failed);
  if (failed || real.parent_path().filename() != "snapshots") return {folder, name};
  fs::path cache = real.parent_path().parent_path();
  bool is_cache = fs::is_directory(fs::symlink_status(cache / "blobs", failed));
  return is_cache ? Root{cache, fs::path("snapshots") / real.filename() / name} : Root{folder, name};
}

/// -1 and errno. Each part of the name is opened without following a link: where the system has no openat2, no link at
/// all is followed.
int open_without_links(int folder, const fs::path& name) {
  Fd at(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  for (auto part = name.begin(); at && part != name.end(); ++part) {
    bool last = std::next(part) == name.end();
    if (*part == "..") return errno = EXDEV, -1;
    int flags = last ? kReadFlags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    at = Fd(::openat(at.get(), part->c_str(), flags));
  }
  return at.release();
}

int open_beneath(int folder, const fs::path& name) {
  open_how how{};
  how.flags = kReadFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  long fd = 0;
  do {
    fd = ::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how);
  } while (fd < 0 && (errno == EINTR || errno == EAGAIN));  // EAGAIN: something on the way was renamed meanwhile
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return open_without_links(folder, name);
  return static_cast<int>(fd);
}

Fd open_inside(const fs::path& folder, const std::string& name) {
  Root root = root_of(folder, name);
  std::string top = root.folder.empty() ? "." : root.folder.string();
  Fd opened(::open(top.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) throw_errno(errno, "cannot open the folder " + core::quote(top));
  Fd file(open_beneath(opened.get(), root.name));
  if (!file && (errno == EXDEV || errno == ELOOP)) {
    throw HintedError(ErrorCode::refused, "it is a symbolic link that leads out of its folder",
                      Hint{"{} reads what it leads to", {{Hint::Option::allow_symlinks}}});
  }
  return file;
}

}  // namespace

SourcePtr open_in_folder(const fs::path& folder, const std::string& name, Links links, const std::string& named_by) {
  if (is_remote_name(folder)) return open_file(remote_sibling(folder, name));
  fs::path path = folder / name;
  Fd file = links == Links::inside ? open_inside(folder, name) : Fd(::open(path.c_str(), kReadFlags));
  if (file) return source_of(std::move(file), path);
  if (errno == ENOENT) throw Error(ErrorCode::corrupt, "it is missing, although " + named_by + " names it");
  return core::with_context(path.string(), [&]() -> SourcePtr { throw_errno(errno, "cannot open"); });
}

}  // namespace ckpt::detail

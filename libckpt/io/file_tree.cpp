#include "libckpt/io/file_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "libckpt/io/file_ops.h"

namespace ckpt::detail {
namespace {

bool is_folder(int parent, const std::string& name) {
  struct stat status {};
  return ::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

bool is_file(int parent, const std::string& name) {
  struct stat status {};
  return ::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

Fd open_folder(int parent, const std::string& name) {
  return Fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/// Names in an open folder, sorted; false with errno set when it cannot be read.
bool list(int folder, std::vector<std::string>& names) {
  int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy), ::closedir);
  if (entries == nullptr) return false;
  while (const dirent* entry = ::readdir(entries.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return true;
}

/// `act` on everything in the folder: 0, or the first errno.
template <class Act>
int for_each_in(int folder, const Act& act) {
  std::vector<std::string> names;
  if (!list(folder, names)) return errno;
  int first = 0;
  for (const std::string& name : names) {
    int error = act(folder, name);
    if (first == 0) first = error;
  }
  return first;
}

}  // namespace

int sync_tree(int parent, const std::string& name) {
  if (!is_folder(parent, name)) {
    if (!is_file(parent, name)) return 0;
    Fd file(::openat(parent, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    return file && file_ops().fsync(file.get()) == 0 ? 0 : errno;
  }
  Fd folder = open_folder(parent, name);
  if (!folder) return errno;
  int error = for_each_in(folder.get(), sync_tree);
  return error != 0 ? error : sync_folder(folder.get());
}

int remove_tree(int parent, const std::string& name) {
  if (!is_folder(parent, name)) return file_ops().unlinkat(parent, name.c_str(), 0) == 0 ? 0 : errno;
  Fd folder = open_folder(parent, name);
  if (!folder) return errno;
  int error = for_each_in(folder.get(), remove_tree);
  if (error != 0) return error;
  return file_ops().unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 ? 0 : errno;
}

}  // namespace ckpt::detail

#include "tests/mutations/opened_files.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <mutex>

namespace test {
namespace {

std::mutex mutex;
std::string watched;
std::string stray;

bool is_inside(const std::string& path, const std::string& folder) {
  return !folder.empty() && path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// Program files, devices, the state folder, where a save forgets how to undo what it replaces, and the folders above:
/// a path is walked from the root to see who may change it.
bool is_allowed(const std::string& path) {
  for (const char* variable : {"CKPT_BIN_DIR", "XDG_STATE_HOME"}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && is_inside(path, folder)) return true;
  }
  for (const char* folder : {"/proc", "/sys", "/dev/null", "/dev/urandom", "/usr", "/lib", "/lib64", "/etc"}) {
    if (is_inside(path, folder)) return true;
  }
  return is_inside(path, watched) || is_inside(watched, path);
}

void note(int folder, const char* name) {
  std::lock_guard<std::mutex> lock(mutex);
  if (watched.empty() || !stray.empty() || name == nullptr) return;
  std::filesystem::path path = name;
  if (path.is_relative()) {
    std::error_code ignored;
    std::filesystem::path base =
        folder == AT_FDCWD ? std::filesystem::current_path(ignored)
                           : std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(folder), ignored);
    path = base / path;
  }
  std::string shown = path.lexically_normal().string();
  while (shown.size() > 1 && shown.ends_with('/')) shown.pop_back();
  if (!is_allowed(shown)) stray = shown;
}

int open_noted(int folder, const char* name, int flags, va_list rest) {
  bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  mode_t mode = makes ? va_arg(rest, mode_t) : 0;
  note(folder, name);
  return static_cast<int>(::syscall(SYS_openat, folder, name, flags, mode));
}

}  // namespace

void watch_opens(const std::filesystem::path& folder) {
  std::lock_guard<std::mutex> lock(mutex);
  watched = std::filesystem::canonical(folder).string();
  stray.clear();
}

std::string first_stray_open() {
  std::lock_guard<std::mutex> lock(mutex);
  return stray;
}

}  // namespace test

extern "C" {

int open(const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int fd = test::open_noted(AT_FDCWD, name, flags, rest);
  va_end(rest);
  return fd;
}

int openat(int folder, const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int fd = test::open_noted(folder, name, flags, rest);
  va_end(rest);
  return fd;
}

int open64(const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int fd = test::open_noted(AT_FDCWD, name, flags, rest);
  va_end(rest);
  return fd;
}

int openat64(int folder, const char* name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int fd = test::open_noted(folder, name, flags, rest);
  va_end(rest);
  return fd;
}
}

#include "tools/ckpt/line/standard_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kPiece = 1 << 20;

std::string& stored_path() {
  static std::string path;
  return path;
}

[[noreturn]] void fail(const std::string& doing) {
  throw Error(ErrorCode::io, doing + ": " + std::strerror(errno)).add_context("standard input");
}

int create_unlinked(const std::string& where) {
  int fd = ::open(where.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string name = where + "/ckpt-XXXXXX";  // a file system without O_TMPFILE
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) fail("cannot create a temporary file in " + core::quote(where));
  ::unlink(name.c_str());
  return fd;
}

void write_all(int fd, const char* data, std::size_t size, const std::string& where) {
  while (size > 0) {
    ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      fail("cannot copy it to a temporary file in " + core::quote(where) + " (set TMPDIR to use another folder)");
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

int copy_pipe() {
  std::string where = temporary_folder();
  int fd = create_unlinked(where);
  std::vector<char> buffer(kPiece);
  for (;;) {
    ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read");
    if (n == 0) return fd;
    write_all(fd, buffer.data(), static_cast<std::size_t>(n), where);
  }
}

}  // namespace

std::string spool_standard_input() {
  std::string& path = stored_path();
  if (!path.empty()) return path;
  struct stat status = {};
  if (::fstat(STDIN_FILENO, &status) != 0) fail("cannot read");
  if (::isatty(STDIN_FILENO) == 1) {
    throw Error(ErrorCode::usage, "is a terminal; pipe a checkpoint into it, or name a file")
        .add_context("standard input");
  }
  int fd = S_ISREG(status.st_mode) ? STDIN_FILENO : copy_pipe();
  path = "/proc/self/fd/" + std::to_string(fd);
  return path;
}

std::string temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return ::access("/var/tmp", W_OK | X_OK) == 0 ? "/var/tmp" : "/tmp";  // which often lies in memory
}

const std::string& standard_input_path() {
  return stored_path();
}

}  // namespace cli

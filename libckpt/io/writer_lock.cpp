#include "libckpt/io/writer_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "libckpt/io/hidden_names.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr int kAttempts = 100;
/// A sweep holds the lock of a dead writer, or one that was made a moment ago and not yet taken, and may itself have to
/// wait for a processor meanwhile.
constexpr int kBusyAttempts = 50;
constexpr auto kBusyWait = std::chrono::milliseconds(2);
constexpr int kLockFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

bool no_locks_here(int error) {
  return error == ENOLCK || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == ENOTTY;
}

bool is_refused(int error) {
  return error == EACCES || error == EPERM;
}

/// "process 4711 on 'host'" as the lock file says it.
std::string owner_text(int fd) {
  std::array<char, 400> text{};
  ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  std::vector<std::string_view> words =
      core::split({text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))}, ' ');
  if (words.size() < 3 || words[0].empty()) return "another process";
  return "process " + core::printable(words[0]) + " on " + core::quote(words[1], 100);
}

}  // namespace

WriterLock::WriterLock(int folder, const std::string& name) : folder_(folder), target_(name), file_(lock_name(name)) {
  int busy = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Attempt result = try_take();
    if (result == Attempt::taken) return;
    if (result == Attempt::again) continue;
    if (++busy == kBusyAttempts) {
      throw Error(ErrorCode::io, "cannot write: " + busy_owner_ + " is writing this file; wait for it to finish");
    }
    std::this_thread::sleep_for(kBusyWait);
  }
  throw Error(ErrorCode::io, "cannot write: other programs keep writing this file");
}

WriterLock::WriterLock(WriterLock&& other) noexcept {
  *this = std::move(other);
}

WriterLock& WriterLock::operator=(WriterLock&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(target_, other.target_);
  std::swap(file_, other.file_);
  std::swap(fd_, other.fd_);
  std::swap(pending_, other.pending_);
  std::swap(left_behind_, other.left_behind_);
  std::swap(locked_, other.locked_);
  return *this;
}

WriterLock::~WriterLock() {
  // Removed while it is held: whoever opened it before finds it without a name and starts again.
  if (!fd_) return;
  Step step;  // a name that was let go of may be another's
  file_ops().unlinkat(folder_, file_.c_str(), 0);
  pending_.let_go();
}

/// An own lock file, or the present one. Another user's may only be readable: then the descriptor is, too.
WriterLock::Opened WriterLock::open_file() const {
  Opened file;
  file.fd = Fd(file_ops().openat(folder_, file_.c_str(), O_RDWR | kLockFlags | O_CREAT | O_EXCL, 0666));
  if (file.fd) {
    // Whoever may not write to it must at least see whether it is held, whatever the umask.
    struct stat status {};
    if (::fstat(file.fd.get(), &status) == 0) (void)::fchmod(file.fd.get(), (status.st_mode & 07777) | 0444);
    return file;
  }
  if (errno != EEXIST) throw_errno(errno, "cannot create a file beside it");
  file.existed = true;
  file.fd = Fd(::openat(folder_, file_.c_str(), O_RDWR | kLockFlags));
  if (file.fd || !is_refused(errno)) return file;
  file.only_read = true;
  file.fd = Fd(::openat(folder_, file_.c_str(), O_RDONLY | kLockFlags));
  return file;
}

/// Says why the present lock file cannot be used, and whose it is.
void WriterLock::throw_unusable(int error) const {
  struct stat status {};
  std::string whose;
  if (::fstatat(folder_, file_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_uid != ::geteuid()) {
    whose = ", which belongs to user " + std::to_string(status.st_uid) + "; remove it if nobody writes this file";
  }
  throw_errno(error, "cannot use the lock file " + core::quote(file_) + whose);
}

/// Who may write to the file locks it against everybody. Who may only read it takes a shared lock, which keeps those
/// out, and a flock, which keeps the others of its kind out.
WriterLock::Attempt WriterLock::lock(const Opened& file) {
  if (file.only_read && ::flock(file.fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw_unusable(errno);
    busy_owner_ = "another process";
    return Attempt::busy;
  }
  struct flock region {};
  region.l_type = file.only_read ? F_RDLCK : F_WRLCK;
  region.l_whence = SEEK_SET;
  locked_ = file_ops().set_lock(file.fd.get(), &region) == 0;
  if (locked_ || no_locks_here(errno)) return Attempt::taken;
  int error = errno;
  if (error == EAGAIN || error == EACCES) {
    busy_owner_ = owner_text(file.fd.get());
    return Attempt::busy;
  }
  if (!file.existed) file_ops().unlinkat(folder_, file_.c_str(), 0);
  throw_errno(error, "cannot take the writer lock");
}

/// `again` when the former owner removed the file between our opening and locking it.
WriterLock::Attempt WriterLock::try_take() {
  Step step;
  Opened file = open_file();
  if (!file.fd && errno == ENOENT) return Attempt::again;
  if (!file.fd) throw_unusable(errno);
  Attempt result = lock(file);
  if (result != Attempt::taken) return result;
  struct stat mine {};
  struct stat named {};
  if (::fstat(file.fd.get(), &mine) != 0) throw_errno(errno, "cannot look at the lock file");
  bool is_named = ::fstatat(folder_, file_.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == mine.st_ino;
  if (!is_named) return Attempt::again;
  if (file.existed && !is_lock_file(file.fd.get())) {
    throw Error(ErrorCode::io, "cannot write: " + core::quote(file_) +
                                   " has the name of a lock file, but holds something else; move it away");
  }
  left_behind_ = file.existed;
  fd_ = std::move(file.fd);
  pending_ = PendingFile(folder_, file_);
  if (!file.only_read) write_owner();
  return Attempt::taken;
}

/// For the message that another writer gets; the lock itself needs no content.
void WriterLock::write_owner() const {
  std::string text = std::to_string(::getpid()) + " " + host_name() + " " + boot_digits() + "\n";
  rlimit limit{};
  bool allowed = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= text.size();
  if (allowed && ::ftruncate(fd_.get(), 0) == 0) (void)!::pwrite(fd_.get(), text.data(), text.size(), 0);
}

bool is_lock_file(int fd) {
  constexpr std::size_t kLongest = 400;
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1) return false;
  std::array<char, kLongest + 1> text{};
  ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  if (size <= 0) return size == 0;
  std::string_view line(text.data(), static_cast<std::size_t>(size));
  if (line.size() > kLongest) return false;
  if (line.ends_with('\n')) line.remove_suffix(1);
  // "4711 host 1a2b3c4d", or the start of it where the disk was full.
  std::string_view pid = line.substr(0, line.find(' '));
  return !pid.empty() && pid.find_first_not_of("0123456789") == std::string_view::npos &&
         std::count(line.begin(), line.end(), ' ') <= 2 &&
         std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c != 0x7f; });
}

}  // namespace ckpt::detail

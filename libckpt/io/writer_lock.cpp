#include "libckpt/io/writer_lock.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <memory>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxName = 255;
constexpr std::size_t kBootDigits = 8;
constexpr std::size_t kRandomDigits = 16;
constexpr int kAttempts = 100;
constexpr std::string_view kLockSuffix = ".ckpt-lock";
constexpr std::string_view kTemporary = ".ckpt-tmp-";

std::string hex(std::uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(kRandomDigits, '0');
  for (auto at = text.rbegin(); at != text.rend(); ++at, value >>= 4) *at = kDigits[value & 15];
  return text;
}

std::string boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id(kBootDigits, '0');
  in.read(id.data(), static_cast<std::streamsize>(id.size()));
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

/// A name that would be too long with its suffix is cut; a hash keeps two of them apart.
std::string lock_name(const std::string& name) {
  if (name.size() + 1 + kLockSuffix.size() <= kMaxName) return "." + name + std::string(kLockSuffix);
  std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a
  for (unsigned char c : name) hash = (hash ^ c) * 1099511628211ULL;
  std::string suffix = "-" + hex(hash) + std::string(kLockSuffix);
  return "." + name.substr(0, kMaxName - 1 - suffix.size()) + suffix;
}

/// What stands before the owner in the name of a temporary file.
std::string temporary_start(const std::string& name, std::size_t rest) {
  return "." + name.substr(0, kMaxName - 1 - rest) + std::string(kTemporary);
}

bool no_locks_here(int error) {
  return error == ENOLCK || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == ENOTTY;
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

bool is_alive(long pid) {
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
}

/// Whether `entry` is a temporary file for `name` that nobody will finish.
bool is_leftover(std::string_view entry, const std::string& name, bool locked) {
  std::size_t at = entry.rfind(kTemporary);
  if (at == std::string_view::npos) return false;
  std::string_view owner = entry.substr(at + kTemporary.size());
  std::vector<std::string_view> parts = core::split(owner, '-');
  if (parts.size() != 3 || parts[0].size() != kBootDigits || parts[2].size() != kRandomDigits) return false;
  if (entry.substr(0, at + kTemporary.size()) != temporary_start(name, entry.size() - at)) return false;
  // Under the lock nobody who lives writes this name. Without locks only a process of this machine can be judged.
  if (locked) return true;
  long pid = 0;
  auto [end, error] = std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), pid);
  bool number = error == std::errc() && end == parts[1].data() + parts[1].size() && pid > 0;
  return number && parts[0] == boot_id() && !is_alive(pid);
}

}  // namespace

WriterLock::WriterLock(int folder, const std::string& name) : folder_(folder), file_(lock_name(name)) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (try_take()) return;
  }
  fd_ = Fd();
  throw Error(ErrorCode::io, "cannot write: other programs keep writing this file");
}

WriterLock::WriterLock(WriterLock&& other) noexcept {
  *this = std::move(other);
}

WriterLock& WriterLock::operator=(WriterLock&& other) noexcept {
  std::swap(folder_, other.folder_);
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

/// False when the former owner removed the file between our opening and locking it.
bool WriterLock::try_take() {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Step step;
  Fd fd(file_ops().openat(folder_, file_.c_str(), kFlags | O_CREAT | O_EXCL, 0666));
  bool existed = !fd && errno == EEXIST;
  if (existed) fd = Fd(::openat(folder_, file_.c_str(), kFlags));
  if (!fd && existed && errno == ENOENT) return false;
  if (!fd)
    throw_errno(errno, existed ? "cannot open the lock file " + core::quote(file_) : "cannot create a file beside it");
  struct flock region {};
  region.l_type = F_WRLCK;
  region.l_whence = SEEK_SET;
  if (file_ops().set_lock(fd.get(), &region) == 0) {
    locked_ = true;
  } else if (!no_locks_here(errno)) {
    int error = errno;
    if (error != EAGAIN && error != EACCES) {
      if (!existed) file_ops().unlinkat(folder_, file_.c_str(), 0);
      throw_errno(error, "cannot take the writer lock");
    }
    throw Error(ErrorCode::io,
                "cannot write: " + owner_text(fd.get()) + " is writing this file; wait for it to finish");
  }
  struct stat mine {};
  struct stat named {};
  if (::fstat(fd.get(), &mine) != 0) throw_errno(errno, "cannot look at the lock file");
  if (::fstatat(folder_, file_.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_ino != mine.st_ino) return false;
  left_behind_ = existed;
  fd_ = std::move(fd);
  pending_ = PendingFile(folder_, file_);
  write_owner();
  return true;
}

/// For the message that another writer gets; the lock itself needs no content.
void WriterLock::write_owner() const {
  std::string text = std::to_string(::getpid()) + " " + host_name() + " " + boot_id() + "\n";
  rlimit limit{};
  bool allowed = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= text.size();
  if (allowed && ::ftruncate(fd_.get(), 0) == 0) (void)!::pwrite(fd_.get(), text.data(), text.size(), 0);
}

std::string temporary_name(const std::string& name) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) throw_errno(errno, "cannot draw a random name");
  std::string owner = boot_id() + "-" + std::to_string(::getpid()) + "-" + hex(random);
  return temporary_start(name, kTemporary.size() + owner.size()) + owner;
}

int remove_leftovers(int folder, const std::string& name, const WriterLock& lock) {
  int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy), ::closedir);
  if (entries == nullptr) return 0;
  std::vector<std::string> dead;
  while (const dirent* entry = ::readdir(entries.get())) {
    if (is_leftover(entry->d_name, name, lock.locked())) dead.emplace_back(entry->d_name);
  }
  int removed = 0;
  for (const std::string& file : dead) removed += file_ops().unlinkat(folder, file.c_str(), 0) == 0 ? 1 : 0;
  return removed;
}

}  // namespace ckpt::detail

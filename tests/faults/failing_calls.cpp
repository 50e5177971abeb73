#include "tests/faults/failing_calls.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>

#include "libckpt/io/file_ops.h"

namespace test::faults {

using ckpt::detail::system_file_ops;

struct FailingCalls::State {
  CallPlan plan;
  std::vector<Call> calls;
  std::set<ino_t> failed_syncs;
  bool struck = false;
  bool repeated_sync = false;
  bool inside = false;  ///< of before_each, whose own calls pass

  static const ckpt::detail::FileOps kOps;

  /// True when this call fails, with errno set.
  bool strikes(Call call) {
    if (inside) return false;
    inside = true;
    if (plan.before_each) plan.before_each(call);
    inside = false;
    std::size_t number = calls.size();
    CallKind kind = call.kind;
    calls.push_back(std::move(call));
    bool now = number == plan.at || (plan.from_then_on && number > plan.at && kind != CallKind::lock);
    if (!now || plan.length > 0) return false;
    struck = true;
    if (plan.kill) ::raise(SIGKILL);
    errno = plan.error;
    return true;
  }

  std::size_t allowed(std::size_t size) {
    if (inside || plan.length == 0 || calls.size() <= plan.at || size <= plan.length) return size;
    struck = true;
    return plan.length;
  }

  bool sync_strikes(int fd) {
    struct stat status {};
    ::fstat(fd, &status);
    if (!inside && failed_syncs.count(status.st_ino) > 0) repeated_sync = true;
    if (!strikes({CallKind::sync})) return false;
    failed_syncs.insert(status.st_ino);
    return true;
  }
};

FailingCalls::State FailingCalls::state_;

namespace {

std::string base_name(const char* path) {
  return std::filesystem::path(path).filename().string();
}

/// Of an open file.
std::string name_of(int fd) {
  char path[4096];
  ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1);
  if (length <= 0) return "";
  path[length] = '\0';
  return base_name(path);
}

}  // namespace

const ckpt::detail::FileOps FailingCalls::State::kOps = {
    .openat = [](int at, const char* file, int flags, mode_t mode) -> int {
      return state_.strikes({CallKind::open, base_name(file)}) ? -1 : system_file_ops().openat(at, file, flags, mode);
    },
    .pwrite = [](int fd, const void* data, std::size_t size, off_t offset) -> ssize_t {
      if (state_.strikes({CallKind::write, name_of(fd)})) return -1;
      return system_file_ops().pwrite(fd, data, state_.allowed(size), offset);
    },
    .copy_file_range = [](int in, off_t* in_at, int out, off_t* out_at, std::size_t size, unsigned flags) -> ssize_t {
      if (state_.strikes({CallKind::copy})) return -1;
      return system_file_ops().copy_file_range(in, in_at, out, out_at, state_.allowed(size), flags);
    },
    .fallocate = [](int fd, int mode, off_t offset, off_t size) -> int {
      return state_.strikes({CallKind::allocate}) ? -1 : system_file_ops().fallocate(fd, mode, offset, size);
    },
    .ftruncate = [](int fd, off_t size) -> int {
      return state_.strikes({CallKind::truncate}) ? -1 : system_file_ops().ftruncate(fd, size);
    },
    .fsync = [](int fd) -> int { return state_.sync_strikes(fd) ? -1 : system_file_ops().fsync(fd); },
    .close = [](int fd) -> int {
      bool strikes = state_.strikes({CallKind::close, name_of(fd)});
      int error = errno;
      int result = system_file_ops().close(fd);  // also when it reports an error
      if (!strikes) return result;
      errno = error;
      return -1;
    },
    .renameat2 = [](int from_at, const char* from, int to_at, const char* to, unsigned flags) -> int {
      if (state_.strikes({CallKind::rename, base_name(to)})) return -1;
      return system_file_ops().renameat2(from_at, from, to_at, to, flags);
    },
    .linkat = [](int from_at, const char* from, int to_at, const char* to, int flags) -> int {
      if (state_.strikes({CallKind::link, base_name(to)})) return -1;
      return system_file_ops().linkat(from_at, from, to_at, to, flags);
    },
    .unlinkat = [](int at, const char* file, int flags) -> int {
      return state_.strikes({CallKind::unlink, base_name(file)}) ? -1 : system_file_ops().unlinkat(at, file, flags);
    },
    .set_lock = [](int fd, const struct flock* region) -> int {
      return state_.strikes({CallKind::lock}) ? -1 : system_file_ops().set_lock(fd, region);
    },
    .mkdirat = [](int at, const char* folder, mode_t mode) -> int {
      if (state_.strikes({CallKind::make_folder, base_name(folder)})) return -1;
      return system_file_ops().mkdirat(at, folder, mode);
    },
};

std::string_view name(CallKind kind) {
  constexpr std::string_view kNames[] = {"openat", "pwrite",    "copy_file_range", "fallocate", "ftruncate", "fsync",
                                         "close",  "renameat2", "linkat",          "unlinkat",  "set_lock",  "mkdirat"};
  return kNames[static_cast<std::size_t>(kind)];
}

FailingCalls::FailingCalls(CallPlan plan) {
  state_ = State{};
  state_.plan = std::move(plan);
  ckpt::detail::set_file_ops(State::kOps);
}

FailingCalls::~FailingCalls() {
  ckpt::detail::set_file_ops(system_file_ops());
}

const std::vector<Call>& FailingCalls::calls() const {
  return state_.calls;
}

bool FailingCalls::struck() const {
  return state_.struck;
}

bool FailingCalls::repeated_sync() const {
  return state_.repeated_sync;
}

}  // namespace test::faults

#include "libckpt/hdf5/helper_child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <new>
#include <thread>

#include "libckpt/hdf5/find_helper.h"
#include "libckpt/hdf5/wire.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kFirstFreeDescriptor = 10;
constexpr std::size_t kPiece = 256 << 10;
constexpr Clock::duration kSlice = milliseconds(1000);

/// What posix_spawn is told: clean signals, a process group of its own (what a terminal sends to the group of this
/// process must not end a save that its program wants to finish), nothing open but 0, 1 and 2.
class SpawnPlan {
 public:
  SpawnPlan(int in, int out) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // What is not noted for want of memory would leave the child with other streams.
    unnoted_ = posix_spawn_file_actions_adddup2(&actions_, in, STDIN_FILENO);
    if (unnoted_ == 0) unnoted_ = posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    if (unnoted_ == 0) unnoted_ = posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  pid_t start(const std::filesystem::path& program, const std::vector<std::string>& arguments) const {
    std::string name = program.filename().string();
    std::vector<char*> argv = {name.data()};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    char* environment[] = {nullptr};
    pid_t pid = -1;
    int error = unnoted_ != 0 ? unnoted_
                              : ::posix_spawn(&pid, program.c_str(), &actions_, &attributes_, argv.data(), environment);
    if (error != 0) throw_errno(error, "cannot start " + core::quote(program.string()));
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
  int unnoted_ = 0;
};

/// Signals by which a program ends itself through what it does; any other was sent by somebody.
bool is_crash(int signal) {
  constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  return std::find(kCrashes.begin(), kCrashes.end(), signal) != kCrashes.end();
}

}  // namespace

Fd duplicate_for_helper(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeDescriptor));
  if (!copy) throw_errno(errno, "cannot start the HDF5 helper");
  return copy;
}

void require_no_outer_cause(int status) {
  constexpr int kNotLoaded = 127;  // of the dynamic loader
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitNoMemory) throw std::bad_alloc();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotLoaded) {
    throw core::Error(core::ErrorCode::io, "the HDF5 helper cannot be started: its libraries cannot be loaded");
  }
  if (WIFSIGNALED(status) && !is_crash(WTERMSIG(status))) {
    throw core::Error(core::ErrorCode::io,
                      "the HDF5 helper was ended by another program or for want of memory (signal " +
                          std::to_string(WTERMSIG(status)) + ")");
  }
}

HelperProgress progress_of(core::Bytes answer) {
  HelperProgress progress;
  ByteCursor in(answer);
  while (in.remaining() >= kFrameHead) {
    auto tag = in.take<std::uint8_t>();
    auto length = in.take<std::uint32_t>();
    if (length > in.remaining()) break;
    std::string_view content = in.take_text(length);
    if (tag == kFrameStage) progress.stage = content;
    progress.complete = tag == kFrameEnd || tag == kFrameFailure;
  }
  return progress;
}

std::uint8_t take_hello(ByteCursor& in) {
  constexpr std::uint32_t kLength = 5;
  auto tag = in.take<std::uint8_t>();
  auto length = in.take<std::uint32_t>();
  if (tag == kFrameHello && length == kLength && in.take<std::uint32_t>() == kHelperProtocol) {
    return in.take<std::uint8_t>();
  }
  throw core::Error(core::ErrorCode::unsupported,
                    "the HDF5 helper is of another version than this library; reinstall both");
}

HelperChild::HelperChild(const std::vector<std::string>& arguments, int input, std::uint64_t seconds) {
  std::filesystem::path program = find_hdf5_helper();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "cannot start the HDF5 helper");
  from_ = Fd(ends[0]);
  Fd to(ends[1]);
  to = duplicate_for_helper(to.get());
  Step step;
  pid_ = SpawnPlan(input, to.get()).start(program, arguments);
  pending_ = PendingProcess(pid_);
  allow(seconds);
}

HelperChild::~HelperChild() {
  if (waiting_ && pid_ > 0) end_now();
}

void HelperChild::allow(std::uint64_t seconds) {
  constexpr std::uint64_t kMost = 365ULL * 24 * 3600;
  left_ = std::chrono::seconds(std::min(seconds, kMost));
  last_ = Clock::now();
}

bool HelperChild::wait_for(int fd, short events) {
  while (true) {
    Clock::time_point now = Clock::now();
    left_ -= std::min(kSlice, now - last_);
    last_ = now;
    if (left_.count() <= 0) return false;  // also when it speaks without an end
    pollfd ready{fd, events, 0};
    auto slice = std::chrono::duration_cast<milliseconds>(std::min(left_, kSlice)) + milliseconds(1);
    if (::poll(&ready, 1, static_cast<int>(slice.count())) > 0) return true;
  }
}

HelperChild::Heard HelperChild::hear() {
  while (true) {
    if (!wait_for(from_.get(), POLLIN)) return Heard::slow;
    piece_.resize(kPiece);
    ssize_t n = ::read(from_.get(), piece_.data(), piece_.size());
    if (n > 0) core::append(answer_, core::Bytes(piece_).first(static_cast<std::size_t>(n)));
    if (n >= 0) return n == 0 ? Heard::end : Heard::more;
    if (errno != EINTR) throw_errno(errno, "cannot hear the HDF5 helper");
  }
}

HelperChild::Told HelperChild::tell(int socket, core::Bytes bytes) {
  while (!bytes.empty()) {
    if (!wait_for(socket, POLLOUT)) return Told::slow;
    ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) return Told::closed;
    if (n < 0 && errno != EINTR && errno != EAGAIN) throw_errno(errno, "cannot talk to the HDF5 helper");
    if (n > 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return Told::all;
}

void HelperChild::end_now() {
  ::kill(pid_, SIGKILL);
  wait(0);
}

int HelperChild::finish() {
  constexpr std::chrono::microseconds kShort{100};
  constexpr int kPatience = 10'000;
  for (int i = 0; i < kPatience && waiting_; ++i) {
    if (!wait(WNOHANG)) std::this_thread::sleep_for(kShort);
  }
  if (waiting_) end_now();
  return status_;
}

bool HelperChild::wait(int flags) {
  pid_t done = 0;
  Step step;  // the number of a process that was waited for may be another's
  do {
    done = ::waitpid(pid_, &status_, flags);
  } while (done < 0 && errno == EINTR);
  if (done < 0) status_ = 0;
  waiting_ = done == 0;
  if (!waiting_) pending_.let_go();
  return !waiting_;
}

}  // namespace ckpt::detail

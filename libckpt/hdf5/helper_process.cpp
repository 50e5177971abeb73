#include "libckpt/hdf5/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "libckpt/hdf5/find_helper.h"
#include "libckpt/hdf5/wire.h"
#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/pending_files.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using Clock = std::chrono::steady_clock;

constexpr int kFirstFreeDescriptor = 10;  ///< away from 0, 1 and 2, which the child gets
constexpr std::size_t kPiece = 64 << 10;

/// A file that the child may read: the source's own, or a copy in memory.
struct Given {
  Fd fd;
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

Fd duplicate(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeDescriptor));
  if (!copy) throw_errno(errno, "cannot start the HDF5 helper");
  return copy;
}

Given copy_in_memory(const ByteSource& file) {
  Fd fd(::memfd_create("ckpt-hdf5", MFD_CLOEXEC));
  if (!fd) throw_errno(errno, "cannot start the HDF5 helper");
  std::uint64_t at = 0;
  for_each_part(file, [&](Bytes part) {
    while (!part.empty()) {
      ssize_t n = ::pwrite(fd.get(), part.data(), part.size(), static_cast<off_t>(at));
      if (n < 0) throw_errno(errno, "cannot hand the file to the HDF5 helper");
      at += static_cast<std::uint64_t>(n);
      part = part.subspan(static_cast<std::size_t>(n));
    }
  });
  return {duplicate(fd.get()), 0, at};
}

Given give(const ByteSource& file) {
  std::optional<FileRange> range = file.file_range();
  if (!range) return copy_in_memory(file);
  return {duplicate(range->fd), range->offset, range->length};
}

/// The child: killed and waited for when nobody did so before.
class Child {
 public:
  Child(const std::filesystem::path& program, const std::vector<std::string>& arguments, int in, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    // What is not noted for want of memory would leave the child with other streams.
    int unnoted = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (unnoted == 0) unnoted = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (unnoted == 0) unnoted = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    char* environment[] = {nullptr};
    Step step;
    int error =
        unnoted != 0 ? unnoted : ::posix_spawn(&pid_, program.c_str(), &actions, &attributes, argv.data(), environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) throw_errno(error, "cannot start " + core::quote(program.string()));
    pending_ = PendingProcess(pid_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (waiting_) end_now();
  }

  void end_now() {
    ::kill(pid_, SIGKILL);
    wait(0);
  }

  /// The wait status, or 0 when somebody else took it. A child that has said all and lingers is ended.
  int finish() {
    constexpr int kPatience = 1000;
    for (int i = 0; i < kPatience && waiting_; ++i) {
      if (!wait(WNOHANG)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (waiting_) end_now();
    return status_;
  }

 private:
  bool wait(int flags) {
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

  pid_t pid_ = -1;
  PendingProcess pending_;
  int status_ = 0;
  bool waiting_ = true;
};

/// What the child was at when it last said something, and whether it ended properly.
struct Progress {
  std::string stage = "starting";
  bool complete = false;
};

Progress progress_of(Bytes answer) {
  Progress progress;
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

[[noreturn]] void fail_slow(const Progress& progress, std::uint64_t seconds) {
  throw Error(ErrorCode::refused, "reading the structure of this HDF5 file takes more than the limit of " +
                                      std::to_string(seconds) + " s; it was at: " + core::printable(progress.stage));
}

/// Reads until the child closes its end.
core::ByteVector collect(int fd, const HelperJob& job) {
  core::ByteVector answer;
  Clock::time_point end = Clock::now() + std::chrono::seconds(job.seconds);
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) fail_slow(progress_of(answer), job.seconds);  // also when it speaks without an end
    pollfd ready{fd, POLLIN, 0};
    int count = ::poll(&ready, 1, static_cast<int>(left));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_slow(progress_of(answer), job.seconds);
    std::size_t size = answer.size();
    answer.resize(size + kPiece);
    ssize_t n = ::read(fd, answer.data() + size, kPiece);
    answer.resize(size + static_cast<std::size_t>(n > 0 ? n : 0));
    if (n == 0) return answer;
    if (n < 0 && errno != EINTR) throw_errno(errno, "cannot hear the HDF5 helper");
    if (answer.size() <= job.max_answer) continue;
    throw Error(ErrorCode::refused, "the structure of this HDF5 file takes more than " +
                                        core::format_size(job.max_answer) + " to describe");
  }
}

/// Signals by which a program ends itself through what it does; any other was sent by somebody.
bool is_crash(int signal) {
  constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  return std::find(kCrashes.begin(), kCrashes.end(), signal) != kCrashes.end();
}

/// Ends that say nothing about the file: for want of memory, by another program.
void require_no_outer_cause(int status) {
  constexpr int kNotLoaded = 127;  // of the dynamic loader
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitNoMemory) throw std::bad_alloc();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitMemoryLimit) {
    throw Error(ErrorCode::refused, "reading the structure of this HDF5 file takes more memory than is allowed");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotLoaded) {
    throw Error(ErrorCode::io, "the HDF5 helper cannot be started: its libraries cannot be loaded");
  }
  if (WIFSIGNALED(status) && !is_crash(WTERMSIG(status))) {
    throw Error(ErrorCode::io, "the HDF5 helper was ended by another program or for want of memory (signal " +
                                   std::to_string(WTERMSIG(status)) + ")");
  }
}

void require_good_end(int status, Bytes answer, const HelperJob& job) {
  Progress progress = progress_of(answer);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) fail_slow(progress, job.seconds);
  require_no_outer_cause(status);
  if (WIFSIGNALED(status)) {
    throw Error(ErrorCode::corrupt, "libhdf5 crashed (signal " + std::to_string(WTERMSIG(status)) +
                                        ") in the helper process on this file, which is damaged or hostile; it was "
                                        "at: " +
                                        core::printable(progress.stage));
  }
  if (progress.complete) return;
  throw Error(ErrorCode::corrupt, "the HDF5 helper ended early (status " +
                                      std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 0) +
                                      "); it was at: " + core::printable(progress.stage));
}

}  // namespace

core::ByteVector run_hdf5_helper(const ByteSource& file, const HelperJob& job) {
  std::filesystem::path program = find_hdf5_helper();
  Given given = give(file);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno(errno, "cannot start the HDF5 helper");
  Fd from(ends[0]);
  Fd to(ends[1]);
  to = duplicate(to.get());
  std::vector<std::string> arguments = {program.filename().string(), "walk"};
  for (std::uint64_t number : {given.begin, given.length, job.max_objects, job.max_depth, job.seconds + 1}) {
    arguments.push_back(std::to_string(number));
  }
  Child child(program, arguments, given.fd.get(), to.get());
  to = Fd();
  core::ByteVector answer = collect(from.get(), job);
  require_good_end(child.finish(), answer, job);
  return answer;
}

}  // namespace ckpt::detail

#include "libckpt/bridge/detail/frozen_memory.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>

#include "libcore/base/error.h"

namespace ckpt {
namespace {

constexpr long kCloseRange = 436;  // kernel headers of before 5.9 lack both names
constexpr unsigned kUnshare = 2;   // close_range() of a table of its own

/// All signals but SIGKILL wait while it lives, so that a process that is made meanwhile runs no handler of the
/// program, whoever its process group is sent one by. The system call itself: the library's leaves out signals of its
/// own.
class SignalsWait {
 public:
  SignalsWait() { set(~std::uint64_t{0}, &before_); }
  ~SignalsWait() { set(before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  static void set(std::uint64_t mask, std::uint64_t* before) {
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, before, sizeof mask);
  }
  std::uint64_t before_ = 0;
};

/// What the other process does: system calls only, as locks of this one may be held for ever there. The kernel ends it
/// with its parent; where seccomp forbids asking for that, it looks. It lets go of the descriptors (Linux 5.9): a
/// killed parent's ports would else stay taken for as long as the kernel takes to tear down this one's memory.
[[noreturn]] [[gnu::noinline, gnu::no_sanitize("address", "thread", "undefined")]] void be_there(long parent) {
  ::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::syscall(kCloseRange, 0U, ~0U, kUnshare);
  while (::syscall(SYS_getppid) == parent) {
    timespec pause{.tv_sec = 0, .tv_nsec = 200'000'000};
    ::syscall(SYS_nanosleep, &pause, nullptr);
  }
  for (;;) ::syscall(SYS_exit_group, 0);
}

/// No fork(): it would run what others registered for it (OpenMP, OpenBLAS), and its end would be a SIGCHLD. -1: none.
[[gnu::noinline, gnu::no_sanitize("address", "thread", "undefined")]] int make_process() {
  const SignalsWait now;
  const long parent = ::syscall(SYS_getpid);
  const long process = ::syscall(SYS_clone, CLONE_FILES, nullptr, nullptr, nullptr, nullptr);
  if (process == 0) be_there(parent);
  return static_cast<int>(process);
}

std::string path_of(int process, const char* name) {
  return "/proc/" + std::to_string(process) + "/" + name;
}

/// Of a system that runs out of memory it is the one to end, and a save fails, not the training. A wish.
void offer_to_be_killed(int process) {
  const int file = ::open(path_of(process, "oom_score_adj").c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, "1000", 4);
  ::close(file);
}

}  // namespace

/// The kernel copies the tables of all pages for a child, of 4 KiB in about a sixth of the time that copying them
/// takes.
bool FrozenMemory::is_sooner_than_copying(std::size_t bytes) {
  constexpr std::size_t kFew = std::size_t{8} << 20, kPagesPerCopy = 8;
  std::size_t size = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> size >> resident >> shared;
  const std::size_t own = (resident - std::min(shared, resident)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes > std::max(kFew, own / kPagesPerCopy);
}

std::unique_ptr<FrozenMemory> FrozenMemory::make() {
  const int process = make_process();
  if (process < 0) return nullptr;
  std::unique_ptr<FrozenMemory> made(new FrozenMemory(process));
  offer_to_be_killed(process);
  return made->open() && made->find_private() ? std::move(made) : nullptr;
}

FrozenMemory::~FrozenMemory() {
  if (memory_ >= 0) ::close(memory_);
  // Who waits for children of all kinds may have seen its end, and the number may be another process's by now.
  if (::waitpid(process_, nullptr, WNOHANG | __WALL) != 0 || ::kill(process_, SIGKILL) != 0) return;
  while (::waitpid(process_, nullptr, __WALL) < 0 && errno == EINTR) {
  }
}

/// process_vm_readv() would do for reading, but it pins pages, and the other process gets copies of those that it
/// shares for that, which takes as long again.
bool FrozenMemory::open() {
  memory_ = ::open(path_of(process_, "mem").c_str(), O_RDONLY | O_CLOEXEC);
  static const char known = 1;  // there before the other process was
  char found = 0;
  return memory_ >= 0 &&
         ::pread(memory_, &found, 1, static_cast<off_t>(reinterpret_cast<std::uintptr_t>(&known))) == 1 &&
         found == known;
}

/// Of the other process, which lacks what was kept from children and changes no more.
bool FrozenMemory::find_private() {
  std::ifstream maps(path_of(process_, "maps"));
  for (std::string line; std::getline(maps, line);) add(line);
  return !private_.empty();
}

void FrozenMemory::add(const std::string& line) {
  std::uintptr_t begin = 0, end = 0;
  char rights[5] = {};
  unsigned long long inode = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx %4s %*x %*s %llu", &begin, &end, rights, &inode) != 4) return;
  if (rights[0] != 'r' || rights[3] != 'p' || inode != 0) return;
  if (!private_.empty() && private_.back().end == begin) {
    private_.back().end = end;
  } else {
    private_.push_back({begin, end});
  }
}

bool FrozenMemory::holds(const void* data, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const auto after = std::ranges::upper_bound(private_, begin, {}, &Range::begin);
  return after != private_.begin() && begin + bytes <= std::prev(after)->end;
}

void FrozenMemory::read(const void* from, std::byte* to, std::size_t bytes) const {
  const auto begin = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(from));
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count = ::pread(memory_, to + done, bytes - done, begin + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw core::Error(core::ErrorCode::io,
                        "the tensors of a save in the background cannot be read as they were at the call: the process "
                        "that keeps them is gone; is the system short of memory?");
    }
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace ckpt

#include "libckpt/hdf5/helper/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "libckpt/hdf5/wire.h"

namespace ckpt::detail {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kInstrumented = true;  // its shadow memory needs terabytes of address space
#else
constexpr bool kInstrumented = false;
#endif

/// `grace` more until the system stops asking: SIGXCPU comes before SIGKILL.
bool limit(int resource, rlim_t value, rlim_t grace = 0) {
  struct rlimit both {
    value, value + grace
  };
  struct rlimit now {};
  if (::getrlimit(resource, &now) == 0 && now.rlim_max < value) both = {now.rlim_max, now.rlim_max};
  return ::setrlimit(resource, &both) == 0;
}

std::uint64_t memory_limit = 0;

bool limit_resources(const SandboxLimits& limits) {
  bool good = limit(RLIMIT_CORE, 0) && limit(RLIMIT_NOFILE, 3) && limit(RLIMIT_CPU, limits.cpu_seconds, 1);
  if (!good || kInstrumented) return good;
  good = limit(RLIMIT_AS, limits.address_space);
  struct rlimit now {};
  if (::getrlimit(RLIMIT_AS, &now) == 0 && now.rlim_cur == limits.address_space) memory_limit = now.rlim_cur;
  return good;
}

/// What libhdf5 would read from the environment: plugin folders, prefixes, drivers. The one variable that is set stops
/// it from looking for plugins.
bool clean_environment() {
  return ::clearenv() == 0 && ::setenv("HDF5_PLUGIN_PRELOAD", "::", 1) == 0;
}

// Landlock by its numbers: headers of older systems lack it. Rights that a kernel does not know must not be named.
#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_restrict_self 446
#endif

std::uint64_t landlock_rights(long abi) {
  int bits = abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13;
  return (1ULL << bits) - 1;
}

/// Every right is handled and none is granted. Returns whether that holds.
bool forbid_files() {
  long abi = ::syscall(__NR_landlock_create_ruleset, nullptr, 0, 1);
  if (abi < 1) return false;
  struct {
    std::uint64_t files;
    std::uint64_t network;
  } ruleset{landlock_rights(abi), 3};
  std::size_t size = abi >= 4 ? sizeof ruleset : sizeof ruleset.files;
  long fd = ::syscall(__NR_landlock_create_ruleset, &ruleset, size, 0);
  if (fd < 0) return false;
  ::syscall(__NR_landlock_restrict_self, fd, 0);
  ::close(static_cast<int>(fd));
  // What counts is what can be done, not what the kernel answered.
  int opened = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened >= 0) ::close(opened);
  return opened < 0 && errno == EACCES;
}

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // no filter
#endif

/// All that a program needs that has its files open already.
constexpr std::array kAllowed = {
    __NR_pread64,     __NR_read,          __NR_write,        __NR_writev,          __NR_close,
    __NR_lseek,       __NR_fstat,         __NR_munmap,       __NR_mremap,          __NR_brk,
    __NR_madvise,     __NR_futex,         __NR_rt_sigaction, __NR_rt_sigprocmask,  __NR_rt_sigreturn,
    __NR_sigaltstack, __NR_clock_gettime, __NR_gettimeofday, __NR_getpid,          __NR_gettid,
    __NR_getuid,      __NR_sched_yield,   __NR_getrandom,    __NR_getrusage,       __NR_sysinfo,
    __NR_tgkill,      __NR_exit,          __NR_exit_group,   __NR_restart_syscall,
};
/// Only code that has been taken over asks for these.
constexpr std::array kFatal = {
    __NR_execve, __NR_execveat, __NR_clone, __NR_socket, __NR_connect, __NR_ptrace, __NR_process_vm_writev,
};

sock_filter statement(std::uint16_t code, std::uint32_t value) {
  return {code, 0, 0, value};
}
sock_filter jump(std::uint16_t test, std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
  return {static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), yes, no, value};
}

std::vector<sock_filter> call_filter() {
  constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr std::uint16_t kReturn = BPF_RET | BPF_K;
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  constexpr std::uint32_t kForeignAbi = 0x40000000;
  std::vector<sock_filter> filter = {
      statement(kLoad, offsetof(seccomp_data, arch)),
      jump(BPF_JEQ, kArchitecture, 1, 0),
      statement(kReturn, SECCOMP_RET_KILL_PROCESS),
      statement(kLoad, offsetof(seccomp_data, nr)),
      jump(BPF_JGE, kForeignAbi, 0, 1),
      statement(kReturn, SECCOMP_RET_KILL_PROCESS),
  };
  auto answer = [&](long number, std::uint32_t action) {
    filter.push_back(jump(BPF_JEQ, static_cast<std::uint32_t>(number), 0, 1));
    filter.push_back(statement(kReturn, action));
  };
  for (long number : kAllowed) answer(number, SECCOMP_RET_ALLOW);
  for (long number : kFatal) answer(number, SECCOMP_RET_KILL_PROCESS);
  // New memory, but none that can be executed.
  filter.push_back(jump(BPF_JEQ, __NR_mmap, 1, 0));
  filter.push_back(jump(BPF_JEQ, __NR_mprotect, 0, 3));
  filter.push_back(statement(kLoad, offsetof(seccomp_data, args[2])));
  filter.push_back(jump(BPF_JSET, PROT_EXEC, 1, 0));
  filter.push_back(statement(kReturn, SECCOMP_RET_ALLOW));
  filter.push_back(statement(kReturn, kRefuse));
  return filter;
}

/// Returns whether calls that are not on the list fail.
bool forbid_calls() {
  if (kArchitecture == 0) return false;
  std::vector<sock_filter> filter = call_filter();
  sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return false;
  return ::syscall(__NR_getppid) < 0 && errno == EPERM;
}

}  // namespace

std::uint8_t enter_sandbox(const SandboxLimits& limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_DUMPABLE, 0);
#ifdef __NR_close_range
  ::syscall(__NR_close_range, 3U, ~0U, 0U);
#endif
  bool clean = clean_environment();
  if (!clean && errno == ENOMEM) ::_exit(kExitNoMemory);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // where it fails, so do the next ones, except for root
  std::uint8_t layers = 0;
  if (forbid_files()) layers |= kLayerFiles;
  if (limit_resources(limits) && clean) layers |= kLayerLimits;
  if (forbid_calls()) layers |= kLayerCalls;
  return layers;
}

std::uint64_t allowed_address_space() {
  return memory_limit;
}

std::string sandbox_leaks() {
  std::string leaks;
  auto add = [&](const char* what) { leaks += (leaks.empty() ? "" : ", ") + std::string(what); };
  if (::open("/dev/null", O_RDONLY) >= 0) add("open files");
  if (::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
    add("make memory executable");
  }
  if (::memfd_create("leak", 0) >= 0) add("make files in memory");
  if (::kill(::getppid(), 0) == 0) add("send signals");
  if (std::getenv("PATH") != nullptr) add("see the environment");
  return leaks;
}

}  // namespace ckpt::detail

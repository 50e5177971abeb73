#pragma once
// A system that forbids a call, as hardened ones and containers do. Thread safety: all. Use: std::thread([] {
// test::forbid_call(SYS_process_vm_readv, EPERM); ... });

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cstddef>
#include <stdexcept>

namespace test {

/// From now on this thread, and those that it starts, get `error` from this system call; of clone() only where it would
/// make a process.
inline void forbid_call(unsigned call, int error) {
  constexpr auto kFlags = static_cast<unsigned>(offsetof(seccomp_data, args[0]));
  constexpr auto kCall = static_cast<unsigned>(offsetof(seccomp_data, nr));
  std::array<sock_filter, 6> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCall),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, call == SYS_clone ? CLONE_VM : 0U, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw std::runtime_error("cannot forbid a system call");
}

}  // namespace test

#pragma once
// Takes away from this process everything that reading one open file does not need: other files, the network, new
// processes, executable memory, time and memory without bound. Thread safety: call once, before other threads.
// Use: enter_sandbox({.cpu_seconds = 10});

#include <cstdint>
#include <string>

namespace ckpt::detail {

struct SandboxLimits {
  std::uint64_t cpu_seconds = 10;
  std::uint64_t address_space = 2ULL << 30;  ///< bytes
};

/// Descriptors above 2 are closed, the environment is emptied, resources are limited, no_new_privs is set; Landlock (no
/// file may be opened) and seccomp (a short list of system calls) are used where the kernel has them. Returns false
/// when a step that every kernel has fails.
bool enter_sandbox(const SandboxLimits& limits);

/// What this process can still do that it should not: "open files", "make memory executable"; "" when nothing.
std::string sandbox_leaks();

}  // namespace ckpt::detail

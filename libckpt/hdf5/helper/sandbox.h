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

/// Descriptors above 2 are closed, the environment is emptied, resources are limited, no_new_privs is set, Landlock (no
/// file may be opened) and seccomp (a short list of system calls) are entered. Returns the layers that hold
/// (SandboxLayer of wire.h); the others are what the system refused, and it is the caller who decides whether to go on.
std::uint8_t enter_sandbox(const SandboxLimits& limits);

/// Bytes that enter_sandbox() left to this process, 0 where the system allows less than it was asked for, or all.
std::uint64_t allowed_address_space();

/// What this process can still do that it should not: "open files", "make memory executable"; "" when nothing.
std::string sandbox_leaks();

}  // namespace ckpt::detail

// Memory that cannot be had ends the helper at once, with an exit code that says so. libhdf5 does not come through it:
// it crashes or takes the file for damaged. The linker leads every malloc, calloc, realloc and strdup of this program
// here (--wrap), and operator new is made of them. Thread safety: all of it.

#include <cxxabi.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>

#include "libckpt/hdf5/helper/sandbox.h"
#include "libckpt/hdf5/wire.h"

namespace {

using namespace ckpt::detail;

/// Whether it is the sandbox that forbids `size` bytes more. A lower limit of the system is not the file's fault.
bool is_over_limit(std::size_t size) {
  constexpr std::size_t kProgram = 64 << 20;            // code, stacks, libraries
  const std::size_t allowed = allowed_address_space();  // the sandbox does not let the system be asked
  if (allowed == 0) return false;
  const struct mallinfo2 used = ::mallinfo2();
  return size > allowed || used.arena + used.hblkhd + kProgram + size > allowed;
}

[[noreturn]] void end_without(std::size_t size) {
  ::_exit(is_over_limit(size) ? kExitMemoryLimit : kExitNoMemory);
}

/// Without an exception in flight there was no memory for one.
[[noreturn]] void end_uncaught() {
  if (abi::__cxa_current_exception_type() == nullptr) ::_exit(kExitNoMemory);
  std::abort();
}

void* required(void* block, std::size_t size) {
  if (block == nullptr && size > 0) end_without(size);
  return block;
}

[[gnu::constructor(101)]] void get_ready() {
  std::set_terminate(end_uncaught);
}

}  // namespace

// The names that the linker asks for (--wrap).
extern "C" {
void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real_realloc(void* old, std::size_t size);
char* __real_strdup(const char* text);

void* __wrap_malloc(std::size_t size) {
  return required(__real_malloc(size), size);
}

void* __wrap_calloc(std::size_t count, std::size_t size) {
  void* block = __real_calloc(count, size);
  if (block == nullptr && count > 0 && size > 0) end_without(count > SIZE_MAX / size ? SIZE_MAX : count * size);
  return block;
}

void* __wrap_realloc(void* old, std::size_t size) {
  return required(__real_realloc(old, size), size);
}

char* __wrap_strdup(const char* text) {
  return static_cast<char*>(required(__real_strdup(text), 1));
}
}

#ifndef __SANITIZE_ADDRESS__  // which has all of these operators itself, and tells them from malloc
void* operator new(std::size_t size) {
  return required(std::malloc(size), size == 0 ? 1 : size);
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t /*size*/) noexcept {
  std::free(block);
}
#endif

#include "libcore/backend/opaque/opaque_memory.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

#include "libcore/base/error.h"

namespace core {
namespace {

constexpr std::size_t kStep = 512;
constexpr int kMostDevices = 128;

/// By device; read by a signal handler, so no lock.
std::array<std::atomic<const OpaqueMemory*>, kMostDevices> memories;
struct sigaction before_ours;

std::size_t rounded(std::size_t bytes) {
  return std::max(kStep, (bytes + kStep - 1) / kStep * kStep);
}

void say(const char* text) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

/// Says who touched what, and lets the program end as it would have.
void on_fault(int, siginfo_t* info, void*) {
  if (const OpaqueMemory* memory = opaque_memory_of(info->si_addr)) {
    char digits[] = "cuda:   ";
    const int device = memory->device();
    int at = 5;
    if (device >= 100) digits[at++] = static_cast<char>('0' + device / 100);
    if (device >= 10) digits[at++] = static_cast<char>('0' + device / 10 % 10);
    digits[at++] = static_cast<char>('0' + device % 10);
    digits[at] = '\0';
    say("the host touched the memory of ");
    say(digits);
    say(", which kernels and copies alone may (CORE_LOGICAL_DEVICES=opaque). Where:\n");
    void* frames[48];
    backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
  }
  sigaction(SIGSEGV, &before_ours, nullptr);
}

void watch_faults() {
  static const bool once = [] {
    void* frame;
    backtrace(&frame, 1);  // loads what it needs now, not in the handler
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &ours, &before_ours);
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

OpaqueMemory::OpaqueMemory(int device) : device_(device) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* all = mmap(nullptr, 2 * kBytes, PROT_NONE, kFlags, -1, 0);
  auto* at = static_cast<std::byte*>(all);
  if (all == MAP_FAILED || mprotect(at + kBytes, kBytes, PROT_READ | PROT_WRITE) != 0) {
    if (all != MAP_FAILED) munmap(all, 2 * kBytes);
    throw Error(ErrorCode::device, "CORE_LOGICAL_DEVICES=opaque: the system refuses " +
                                       std::to_string(2 * kBytes >> 30) +
                                       " GiB of addresses for a device: " + std::strerror(errno));
  }
  hidden_ = at;
  free_.emplace(0, kBytes);
  memories[static_cast<std::size_t>(device)] = this;
  watch_faults();
}

OpaqueMemory::~OpaqueMemory() {
  const OpaqueMemory* self = this;
  memories[static_cast<std::size_t>(device_)].compare_exchange_strong(self, nullptr);
  munmap(hidden_, 2 * kBytes);
}

void* OpaqueMemory::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(free_.begin(), free_.end(), [size](const auto& block) { return block.second >= size; });
  if (found == free_.end()) return nullptr;
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room > size) free_.emplace(offset + size, room - size);
  return hidden_ + offset;
}

void OpaqueMemory::free(void* data, std::size_t bytes) noexcept {
  auto offset = static_cast<std::size_t>(static_cast<std::byte*>(data) - hidden_);
  std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
    std::prev(next)->second += size;
    return;
  }
  free_.emplace_hint(next, offset, size);
}

void OpaqueMemory::trim() noexcept {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::lock_guard lock(mutex_);
  for (const auto& [offset, size] : free_) {
    const std::size_t begin = (offset + page - 1) / page * page, end = (offset + size) / page * page;
    if (begin < end) madvise(hidden_ + kBytes + begin, end - begin, MADV_DONTNEED);
  }
}

const OpaqueMemory* opaque_memory_of(const void* data) {
  for (const auto& memory : memories) {
    const OpaqueMemory* one = memory.load(std::memory_order_relaxed);
    if (one == nullptr) break;
    if (one->contains(data)) return one;
  }
  return nullptr;
}

}  // namespace core

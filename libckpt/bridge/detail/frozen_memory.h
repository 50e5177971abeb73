#pragma once
// FrozenMemory: the memory of this process as it was at one moment, for who copies it later. A process of our own,
// which does nothing but be there, shares all pages with this one, and the kernel copies those that either writes
// (copy-on-write). The program does not see it: it ends without a signal, wait() does not report it, and it keeps no
// file or socket open. It ends with the thread that made it. As with any fork(), memory that a driver pinned before
// Linux 5.12 and did not keep from children (RDMA) is not to be written meanwhile. Thread safety: read() from many
// threads. Use: auto frozen = ckpt::FrozenMemory::make(); change(memory); if (frozen != nullptr &&
// frozen->holds(memory, bytes)) frozen->read(memory, copy, bytes);

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ckpt {

class FrozenMemory {
 public:
  /// Whether making one takes less time than copying so much: not of a process that is many times as large.
  static bool is_sooner_than_copying(std::size_t bytes);
  /// By the thread that will destroy it. Null where the system gives no such process or does not let its memory be read
  /// (seccomp, Yama, no /proc).
  static std::unique_ptr<FrozenMemory> make();
  ~FrozenMemory();
  FrozenMemory(const FrozenMemory&) = delete;
  FrozenMemory& operator=(const FrozenMemory&) = delete;

  /// False for memory that is shared with other processes, the bytes of a file, or not there for children
  /// (MADV_DONTFORK): that is read as it will be, or not at all.
  bool holds(const void* data, std::size_t bytes) const;
  /// Errors: Error(io) where the system has ended that process: it was short of memory.
  void read(const void* from, std::byte* to, std::size_t bytes) const;

  int process() const { return process_; }

 private:
  struct Range {
    std::uintptr_t begin, end;
  };
  explicit FrozenMemory(int process) : process_(process) {}
  bool open();
  bool find_private();
  void add(const std::string& line);

  int process_;
  int memory_ = -1;             // /proc/PID/mem
  std::vector<Range> private_;  // in order, with room between them
};

}  // namespace ckpt

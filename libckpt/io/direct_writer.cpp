#include "libckpt/io/direct_writer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "libckpt/io/large_pages.h"
#include "libckpt/io/page_cache_use.h"

namespace ckpt::detail {
namespace {

using core::Bytes;
using core::MutableBytes;

// Two writes are under way at once, so that the disk has one while the thread of the other waits for its turn on a busy
// machine, and one block more is full meanwhile.
constexpr std::size_t kWriteBlock = kDirectBlock / 2;
constexpr std::size_t kWriteBlocks = 4;
constexpr std::size_t kWriteThreads = 2;

/// Where a write stopped, and why; 0: it did not.
struct Failure {
  int error = 0;
  std::uint64_t offset = 0;
};

[[noreturn]] void throw_failure(const Failure& failure) {
  throw_errno(failure.error, "cannot write at byte " + std::to_string(failure.offset));
}

}  // namespace

struct DirectWriter::Impl {
  Impl(Fd direct_in, int plain_in, bool overlap_in)
      : direct(std::move(direct_in)), plain(plain_in), wanted(overlap_in ? kWriteThreads : 0) {}

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      stopped = true;
    }
    came.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  /// As write_fully(), past the cache as far as the system takes it: what a short write leaves is aligned no more.
  Failure write_direct(std::uint64_t offset, Bytes bytes) {
    while (!bytes.empty() && !refused) {
      ssize_t n = file_ops().pwrite(direct.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EINVAL) {
        refused = true;  // for good: a write of the other thread may well end after this one
        break;
      }
      if (n < 0) return {errno, offset};
      if (n == 0) return {ENOSPC, offset};
      offset += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      if (offset % kDirectAlignment != 0) break;
    }
    return {write_fully(plain, offset, bytes), offset};
  }

  /// As many bytes as the block may hold: up to where the disk's blocks begin, then whole ones.
  std::size_t capacity() const {
    std::size_t over = begin % kDirectAlignment;
    return over == 0 ? kWriteBlock : kDirectAlignment - over;
  }

  Bytes pending() const { return Bytes(blocks[filling].memory.bytes()).first(used); }

  /// The block is full, or ends where an aligned one may begin.
  void pass_on() {
    const Bytes bytes = pending();
    const std::uint64_t at = begin;
    begin += std::exchange(used, 0);
    if (at % kDirectAlignment != 0) return fail_if({write_fully(plain, at, bytes), at});
    if (!has_threads()) return fail_if(write_direct(at, bytes));
    std::unique_lock lock(mutex);
    blocks[filling].offset = at;
    blocks[filling].state = State::waits;
    came.notify_one();
    filling = next_of(filling);
    freed.wait(lock, [&] { return blocks[filling].state == State::free; });
    fail_if(failed);
  }

  /// Starts one more while there are fewer than wanted; false where the system gives none at all.
  bool has_threads() {
    if (threads.size() < wanted) {
      try {
        threads.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        wanted = threads.size();
      }
    }
    return !threads.empty();
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      came.wait(lock, [&] { return stopped || blocks[written].state == State::waits; });
      if (stopped) return;
      Block& block = blocks[written];
      written = next_of(written);
      block.state = State::is_written;
      lock.unlock();
      const Failure failure = write_direct(block.offset, block.memory.bytes());
      lock.lock();
      block.state = State::free;
      if (failed.error == 0) failed = failure;
      freed.notify_one();
    }
  }

  /// Until the threads have nothing to do.
  void wait() {
    std::unique_lock lock(mutex);
    freed.wait(lock, [&] {
      return std::ranges::all_of(blocks, [](const Block& block) { return block.state == State::free; });
    });
    fail_if(failed);
  }

  static void fail_if(const Failure& failure) {
    if (failure.error != 0) throw_failure(failure);
  }

  void settle() {
    const Bytes bytes = pending();
    const std::uint64_t at = begin;
    begin += std::exchange(used, 0);
    wait();
    const std::size_t whole = at % kDirectAlignment == 0 ? bytes.size() / kDirectAlignment * kDirectAlignment : 0;
    fail_if(write_direct(at, bytes.first(whole)));
    fail_if({write_fully(plain, at + whole, bytes.subspan(whole)), at + whole});
  }

  enum class State : std::uint8_t { free, waits, is_written };
  struct Block {
    LargeBlock memory = LargeBlock(kWriteBlock);  ///< one large page, which the system pins at once
    std::uint64_t offset = 0;
    State state = State::free;
  };
  static std::size_t next_of(std::size_t block) { return (block + 1) % kWriteBlocks; }

  Fd direct;
  int plain;
  std::size_t wanted;                      ///< threads that write
  std::atomic<bool> refused = false;       ///< the file system does not write past the cache
  std::array<Block, kWriteBlocks> blocks;  ///< filled and written in a ring
  std::size_t filling = 0;
  std::uint64_t begin = 0;  ///< where the block that is filled belongs
  std::size_t used = 0;

  std::mutex mutex;               ///< of the states and all that follows
  std::condition_variable came;   ///< a block that waits
  std::condition_variable freed;  ///< a block
  std::size_t written = 0;        ///< the block that is written next
  Failure failed;
  bool stopped = false;
  std::vector<std::thread> threads;
};

DirectWriter::DirectWriter(Fd direct, int plain, bool overlap)
    : impl_(std::make_unique<Impl>(std::move(direct), plain, overlap)) {}
DirectWriter::~DirectWriter() = default;

MutableBytes DirectWriter::room(std::uint64_t offset) {
  if (offset != impl_->begin + impl_->used) {
    impl_->settle();
    impl_->begin = offset;
  }
  return impl_->blocks[impl_->filling].memory.bytes().first(impl_->capacity()).subspan(impl_->used);
}

void DirectWriter::advance(std::size_t size) {
  impl_->used += size;
  if (impl_->used == impl_->capacity()) impl_->pass_on();
}

void DirectWriter::write(std::uint64_t offset, Bytes bytes) {
  while (!bytes.empty()) {
    MutableBytes to = room(offset);
    Bytes part = bytes.first(std::min(to.size(), bytes.size()));
    std::memcpy(to.data(), part.data(), part.size());
    advance(part.size());
    offset += part.size();
    bytes = bytes.subspan(part.size());
  }
}

void DirectWriter::settle() {
  impl_->settle();
}

}  // namespace ckpt::detail

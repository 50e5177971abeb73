#include "libckpt/io/direct_writer.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "libckpt/io/aligned_block.h"
#include "libckpt/io/page_cache_use.h"

namespace ckpt::detail {
namespace {

using core::Bytes;
using core::MutableBytes;

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
      : direct(std::move(direct_in)), plain(plain_in), overlap(overlap_in) {}

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      stopped = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  /// As write_fully(), past the cache as far as the system takes it: what a short write leaves is aligned no more.
  Failure write_direct(std::uint64_t offset, Bytes bytes) {
    while (!bytes.empty() && !refused) {
      ssize_t n = file_ops().pwrite(direct.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EINVAL) return {errno, offset};
      if (n == 0) return {ENOSPC, offset};
      refused = n < 0;
      if (refused) break;
      offset += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      if (offset % kDirectAlignment != 0) break;
    }
    return {write_fully(plain, offset, bytes), offset};
  }

  /// As many bytes as the block may hold: up to where the disk's blocks begin, then whole ones.
  std::size_t capacity() const {
    std::size_t over = begin % kDirectAlignment;
    return over == 0 ? kDirectBlock : kDirectAlignment - over;
  }

  Bytes pending() const { return Bytes(blocks[filling].bytes()).first(used); }

  /// The block is full, or ends where an aligned one may begin.
  void pass_on() {
    const Bytes bytes = pending();
    const std::uint64_t at = begin;
    begin += std::exchange(used, 0);
    if (at % kDirectAlignment != 0) return fail_if({write_fully(plain, at, bytes), at});
    wait();
    if (!overlap || !has_thread()) return fail_if(write_direct(at, bytes));
    {
      std::lock_guard lock(mutex);
      job = bytes;
      job_offset = at;
    }
    changed.notify_all();
    filling = 1 - filling;
  }

  /// Starts it; false where the system gives none.
  bool has_thread() {
    if (thread.joinable()) return true;
    try {
      thread = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      overlap = false;
    }
    return overlap;
  }

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopped || !job.empty(); });
      if (job.empty()) return;
      lock.unlock();
      Failure failure = write_direct(job_offset, job);
      lock.lock();
      job = {};
      failed = failure;
      changed.notify_all();
    }
  }

  /// Until the thread has nothing to do.
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return job.empty(); });
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

  Fd direct;
  int plain;
  bool overlap;
  bool refused = false;  ///< the file system does not write past the cache; seen by one thread at a time
  AlignedBlock blocks[2] = {AlignedBlock(kDirectBlock), AlignedBlock(kDirectBlock)};
  int filling = 0;
  std::uint64_t begin = 0;  ///< where the block that is filled belongs
  std::size_t used = 0;

  std::mutex mutex;
  std::condition_variable changed;
  Bytes job;  ///< being written by the thread
  std::uint64_t job_offset = 0;
  Failure failed;
  bool stopped = false;
  std::thread thread;
};

DirectWriter::DirectWriter(Fd direct, int plain, bool overlap)
    : impl_(std::make_unique<Impl>(std::move(direct), plain, overlap)) {}
DirectWriter::~DirectWriter() = default;

MutableBytes DirectWriter::room(std::uint64_t offset) {
  if (offset != impl_->begin + impl_->used) {
    impl_->settle();
    impl_->begin = offset;
  }
  return impl_->blocks[impl_->filling].bytes().first(impl_->capacity()).subspan(impl_->used);
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

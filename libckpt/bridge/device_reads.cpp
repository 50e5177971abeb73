#include "libckpt/bridge/detail/device_reads.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "libckpt/io/file_source.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/backend/shared_block.h"
#include "libcore/backend/transfer_ring.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/tensor/foreach_copy.h"

namespace ckpt {
namespace {

using core::SharedBlock;
using core::TransferRing;

/// A run of bytes of one tensor in a buffer.
struct Piece {
  const DeviceRead* read;
  std::uint64_t from;  // in the tensor
  std::size_t at;      // in the buffer
  std::size_t bytes;

  std::byte* to() const { return static_cast<std::byte*>(read->to) + from; }
};

/// What one buffer takes.
using Load = std::vector<Piece>;

bool is_small(const DeviceRead* read) {
  return core::TensorPacker::is_small(read->bytes);
}

/// Small tensors first, many in a buffer, in their order; then the large ones in pieces, each from the begin of a
/// buffer, so that packed chunks are not cut in two.
std::vector<Load> plan(const std::vector<DeviceRead>& reads, std::size_t slot_bytes) {
  std::vector<const DeviceRead*> order;
  for (const DeviceRead& read : reads) order.push_back(&read);
  std::stable_partition(order.begin(), order.end(), is_small);
  std::vector<Load> loads;
  std::size_t used = slot_bytes;
  for (const DeviceRead* read : order) {
    for (std::uint64_t from = 0; from < read->bytes;) {
      const auto left = static_cast<std::size_t>(std::min<std::uint64_t>(read->bytes - from, slot_bytes));
      if (left > slot_bytes - used) {
        loads.emplace_back();
        used = 0;
      }
      loads.back().push_back({read, from, used, left});
      used = std::min(SharedBlock::rounded(used + left), slot_bytes);
      from += left;
    }
  }
  return loads;
}

/// Runs `body`, whose error names the tensor.
template <class Body>
void for_key(const DeviceRead& read, Body&& body) {
  if (read.key.empty()) return body();
  core::with_context(read.key, body);
}

void read_pieces(const Load& load, std::byte* slot) {
  for (const Piece& piece : load) {
    const MutableBytes bytes(slot + piece.at, piece.bytes);
    for_key(*piece.read, [&] {
      piece.read->source->read(piece.from, bytes);
      if (piece.from + piece.bytes == piece.read->bytes) piece.read->source->require_unchanged();
    });
    if (piece.read->fix != nullptr) piece.read->fix(piece.read->context, bytes);
  }
}

/// Neighbours in one block of the device that are so in the buffer too travel as one.
std::vector<TransferRing::Part> parts_of(const Load& load) {
  std::vector<TransferRing::Part> parts;
  for (const Piece& piece : load) {
    if (!parts.empty()) {
      TransferRing::Part& last = parts.back();
      const std::size_t gap = piece.at - last.at;
      if (static_cast<std::byte*>(last.device) + gap == piece.to() && core::in_one_block(last.device, piece.to())) {
        last.bytes = gap + piece.bytes;
        continue;
      }
    }
    parts.push_back({piece.to(), piece.at, piece.bytes});
  }
  return parts;
}

// A checksum goes over a tensor from front to end, so tensors are cut only where one alone would keep a thread busy.
constexpr std::uint64_t kCutFrom = 64ULL << 20;
constexpr std::uint64_t kHostPiece = 8ULL << 20;
constexpr std::uint64_t kAlone = 1ULL << 20;  ///< bytes in all that are not worth a second thread

/// In the order of the file, which a disk reads best.
std::vector<Piece> host_pieces(const std::vector<DeviceRead>& reads) {
  std::vector<Piece> pieces;
  for (const DeviceRead& read : reads) {
    const std::uint64_t step = read.bytes < kCutFrom ? read.bytes : kHostPiece;
    for (std::uint64_t from = 0; from < read.bytes; from += step) {
      pieces.push_back({&read, from, 0, static_cast<std::size_t>(std::min(step, read.bytes - from))});
    }
  }
  return pieces;
}

/// A thread that waits for the disk leaves its core to others, and the disk has more to do at once: several for each
/// core read a file that is not in memory sooner.
unsigned threads_for(const std::vector<DeviceRead>& reads, unsigned asked) {
  constexpr unsigned kWaiting = 4;
  const auto largest = std::ranges::max_element(reads, {}, &DeviceRead::bytes);
  const bool waits = largest != reads.end() && detail::waits_for_disk(*largest->source);
  return waits ? kWaiting * thread_count(asked) : asked;
}

/// Watches how fast memory is filled. A guest may have given free huge pages back to its host: to get one again takes
/// longer than 512 small ones, and so the rest of the memory goes on with those.
class FreshMemory {
 public:
  template <class Fill>
  void fill(MutableBytes bytes, const Fill& fill) {
    if (bytes.size() < kWorthTiming) return fill();  // to ask for the time is a call of the system
    if (is_slow_) use_small_pages(bytes);
    const double begin = processor_seconds();
    fill();
    const double seconds = processor_seconds() - begin;
    if (seconds * kSlow > static_cast<double>(bytes.size())) is_slow_ = true;
  }

 private:
  static constexpr std::size_t kWorthTiming = 1 << 20;
  static constexpr double kSlow = 3e8;  ///< bytes a second

  /// Of this thread: what others take of the processor, and the disk, says nothing of the memory.
  static double processor_seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  static void use_small_pages(MutableBytes bytes) {
    constexpr std::uintptr_t kPage = 4096;
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    const std::uintptr_t begin = (address + kPage - 1) / kPage * kPage;
    const std::uintptr_t end = (address + bytes.size()) / kPage * kPage;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_NOHUGEPAGE);  // a wish
  }

  std::atomic<bool> is_slow_ = false;
};

}  // namespace

void DeviceReads::add(DeviceRead read) {
  if (read.bytes == 0) return;
  const bool on_host = read.device->is_host_memory();
  (on_host ? host_ : reads_[read.device->device().index()]).push_back(std::move(read));
}

void DeviceReads::run_on_host(const std::vector<DeviceRead>& reads) const {
  std::uint64_t total = 0;
  for (const DeviceRead& read : reads) total += read.bytes;
  const std::vector<Piece> pieces = host_pieces(reads);
  FreshMemory memory;
  parallel_for(pieces.size(), total < kAlone ? 1 : threads_for(reads, threads_), [&](std::size_t i) {
    const Piece& piece = pieces[i];
    const MutableBytes bytes(piece.to(), piece.bytes);
    memory.fill(bytes, [&] { for_key(*piece.read, [&] { piece.read->source->read(piece.from, bytes); }); });
    if (piece.read->fix != nullptr) piece.read->fix(piece.read->context, bytes);
  });
  for (const DeviceRead& read : reads) {
    for_key(read, [&] { read.source->require_unchanged(); });
  }
}

void DeviceReads::run() {
  run_on_host(std::exchange(host_, {}));
  const auto all = std::exchange(reads_, {});
  for (const auto& [index, reads] : all) run_on(*reads.front().device, reads);
}

void DeviceReads::run_on(core::Backend& device, const std::vector<DeviceRead>& reads) const {
  const std::uint64_t wanted = std::clamp<std::uint64_t>(ring_.slot_bytes, 4ULL << 10, 1ULL << 30);
  const std::size_t slot_bytes = static_cast<std::size_t>(wanted) / SharedBlock::kAlignment * SharedBlock::kAlignment;
  const std::vector<Load> loads = plan(reads, slot_bytes);
  const unsigned threads = thread_count(threads_);
  const std::size_t slots = std::min<std::size_t>(ring_.slots != 0 ? ring_.slots : threads + 4, loads.size());
  TransferRing ring(device, {.slot_bytes = slot_bytes, .slots = slots});
  // A piece is made when the one before it in the same buffer was sent; the buffer then waits for its copy.
  detail::run_in_order(
      loads.size(), {.threads = std::min<unsigned>(threads, static_cast<unsigned>(slots)), .max_memory = slots},
      [](std::size_t) { return std::uint64_t{1}; }, [&](std::size_t i) { read_pieces(loads[i], ring.slot(i % slots)); },
      [&](std::size_t i) { ring.send(i % slots, parts_of(loads[i])); });
  ring.finish();
}

}  // namespace ckpt

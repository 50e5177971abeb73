#include "libckpt/bridge/detail/device_reads.h"

#include <algorithm>
#include <utility>

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

void read_pieces(const Load& load, std::byte* slot) {
  for (const Piece& piece : load) {
    const MutableBytes bytes(slot + piece.at, piece.bytes);
    core::with_context(piece.read->key, [&] {
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

}  // namespace

void DeviceReads::add(DeviceRead read) {
  if (read.bytes != 0) reads_[read.device->device().index()].push_back(std::move(read));
}

void DeviceReads::run() {
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

#include "libckpt/format/hdf5_write/payload_writer.h"

#include <algorithm>

#include "libckpt/format/hdf5_write/chunk_codec.h"
#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/checked_math.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kPiece = 4ULL << 20;   ///< read at once from sources that are not in memory
constexpr std::uint64_t kSmall = 64ULL << 10;  ///< collected in the buffer instead of being written alone
constexpr std::uint64_t kBuffer = 1ULL << 20;
constexpr std::uint64_t kMaxBuffers = 64ULL << 20;  ///< more buffers than this make nothing faster

struct Piece {
  core::ByteVector logical;
  core::ByteVector packed;
};

std::uint64_t alignment_of(std::uint64_t size) {
  return size >= kAlignedFrom ? kPageAlignment : kSmallAlignment;
}

Piece read_and_pack(const ByteSource& source, const Payload& payload, std::uint64_t index) {
  auto [begin, length] = payload.chunks.span_of(index);
  Piece piece;
  piece.logical.resize(payload.chunks.chunk);
  source.read(begin, MutableBytes(piece.logical).first(length));
  piece.packed = pack_chunk(payload, piece.logical);
  piece.logical.resize(length);
  return piece;
}

}  // namespace

PayloadWriter::PayloadWriter(AtomicFile& file, std::uint64_t user_block, std::uint64_t total,
                             const SaveOptions& options)
    : file_(file), user_block_(user_block), total_(total), options_(options), end_(kFirstPayload) {
  file_.skip_to(user_block_ + end_);
}

void PayloadWriter::write(const PlannedPayload& planned, Payload& payload) {
  if (payload.codec == NativeCodec::elsewhere) {
    planned.source->require_unchanged();
    return report(payload.size);
  }
  align(payload.size);
  payload.offset = end_;
  const StoredPayload* stored = stored_payload(*planned.source);
  if (stored != nullptr && same_packing(stored->payload(), payload)) {
    // A copy of damage under the old hash would still be a copy of damage.
    if (awaits_check(*planned.source)) for_each_part(*planned.source, [](Bytes) {});
    take_over(*stored, payload);
    return stored->require_unchanged();
  }
  if (payload.codec == NativeCodec::raw) {
    write_raw(*planned.source, payload);
  } else {
    write_packed(*planned.source, payload);
  }
  // The hash in the index vouches for one state of the source.
  planned.source->require_unchanged();
  // Known damage must not get a hash that vouches for it.
  if (is_damaged(*planned.source)) payload.hash = {~payload.hash.low, ~payload.hash.high};
}

std::uint64_t PayloadWriter::finish() {
  flush();
  return end_;
}

void PayloadWriter::append(Bytes bytes) {
  end_ += bytes.size();
  if (bytes.size() < kSmall) {
    core::append(buffer_, bytes);
    if (buffer_.size() >= kBuffer) flush();
    return;
  }
  flush();
  file_.write(bytes);
}

void PayloadWriter::flush() {
  if (!buffer_.empty()) file_.write(buffer_);
  buffer_.clear();
}

void PayloadWriter::align(std::uint64_t size) {
  std::uint64_t to = core::align_up(end_, alignment_of(size));
  buffer_.resize(buffer_.size() + (to - end_));
  end_ = to;
}

void PayloadWriter::report(std::uint64_t bytes) {
  done_ += bytes;
  if (options_.progress) options_.progress(done_, total_);
}

/// The hash comes along, so that damage in the source stays visible in the copy.
void PayloadWriter::take_over(const StoredPayload& source, Payload& payload) {
  std::uint64_t offset = payload.offset;
  payload = source.payload();
  payload.offset = offset;
  SourcePtr bytes = source.stored();
  if (bytes->size() < kSmall) {
    append(read_all(*bytes));
  } else {
    flush();
    file_.write_from(*bytes);
    end_ += bytes->size();
  }
  report(payload.size);
}

void PayloadWriter::write_raw(const ByteSource& source, Payload& payload) {
  payload.stored = payload.size;
  Hasher128 hasher;
  auto use = [&](Bytes bytes) {
    hasher.update(bytes);
    append(bytes);
    report(bytes.size());
  };
  if (payload.size <= kPiece) {
    Bytes memory = source.memory();
    use(memory.empty() ? read_all(source) : memory);
  } else if (!source.memory().empty()) {
    for_each_part(source, use);
  } else {
    auto length = [&](std::size_t i) { return std::min(kPiece, payload.size - i * kPiece); };
    auto read_piece = [&](std::size_t i) {
      core::ByteVector bytes(length(i));
      source.read(i * kPiece, bytes);
      return bytes;
    };
    ckpt::run_in_order<core::ByteVector>((payload.size + kPiece - 1) / kPiece,
                                         {thread_count(options_.threads), std::min(options_.max_memory, kMaxBuffers)},
                                         length, read_piece,
                                         [&](std::size_t, const core::ByteVector& bytes) { use(bytes); });
  }
  payload.hash = hasher.finish();
}

void PayloadWriter::write_packed(const ByteSource& source, Payload& payload) {
  Hasher128 hasher;
  payload.stored = 0;
  std::uint64_t weight = 4 * std::uint64_t{payload.chunks.chunk};
  ckpt::run_in_order<Piece>(
      payload.chunks.stored.size(), {thread_count(options_.threads), std::min(options_.max_memory, kMaxBuffers)},
      [&](std::size_t) { return weight; }, [&](std::size_t i) { return read_and_pack(source, payload, i); },
      [&](std::size_t i, const Piece& piece) {
        hasher.update(piece.logical);
        append(piece.packed);
        payload.chunks.stored[i] = static_cast<std::uint32_t>(piece.packed.size());
        payload.stored += piece.packed.size();
        report(piece.logical.size());
      });
  payload.hash = hasher.finish();
}

std::uint64_t bound_of_payloads(const std::vector<Payload>& payloads) {
  std::uint64_t end = kFirstPayload;
  for (const Payload& payload : payloads) {
    end = core::align_up(end, alignment_of(payload.size));
    if (payload.codec == NativeCodec::elsewhere) continue;
    bool packed = is_packed(payload);
    end = core::checked_add(end, packed ? payload.chunks.stored.size() * packed_bound(payload) : payload.size);
  }
  return end;
}

}  // namespace ckpt::detail

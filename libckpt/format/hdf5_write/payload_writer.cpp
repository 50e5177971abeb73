#include "libckpt/format/hdf5_write/payload_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libckpt/format/hdf5_write/chunk_codec.h"
#include "libckpt/format/hdf5_write/payload_packing.h"
#include "libckpt/format/hdf5_write/payload_source.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/packed_differences.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/checked_math.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kPiece = 4ULL << 20;   ///< read at once
constexpr std::uint64_t kSmall = 64ULL << 10;  ///< collected in the buffer instead of being written alone
constexpr std::uint64_t kBuffer = 1ULL << 20;
constexpr std::uint64_t kAlone = 1ULL << 20;        ///< bytes that are not worth a second thread
constexpr std::uint64_t kMaxBuffers = 64ULL << 20;  ///< more buffers than this make nothing faster
constexpr std::uint64_t kWindow = 8;                ///< part of the memory; what is read for it takes the rest

void update_with_zeros(Hasher128& hasher, std::uint64_t count) {
  static const core::ByteVector zeros(16 << 10);
  for (; count > 0; count -= std::min<std::uint64_t>(count, zeros.size())) {
    hasher.update(Bytes(zeros).first(std::min<std::uint64_t>(count, zeros.size())));
  }
}

std::uint64_t alignment_of(std::uint64_t size) {
  return size >= kAlignedFrom ? kPageAlignment : kSmallAlignment;
}

}  // namespace

PayloadWriter::PayloadWriter(AtomicFile& file, std::uint64_t user_block, std::uint64_t total,
                             const SaveOptions& options)
    : file_(file), user_block_(user_block), total_(total), options_(options), end_(kFirstPayload) {
  file_.skip_to(user_block_ + end_);
}

/// What one thread makes at a time: a chunk, a run of bytes, or nothing for a payload that is written whole.
struct PayloadWriter::Part {
  enum class Kind : std::uint8_t { whole, run, chunk };
  const ByteSource* source;
  Payload* payload;
  Kind kind;
  bool is_first;
  bool is_last;
  std::size_t number;  ///< of the chunk
  std::uint64_t begin;
  std::uint64_t length;

  std::uint64_t weight() const {
    if (kind == Kind::whole) return 0;
    const std::uint64_t times = payload->codec == NativeCodec::trimmed ? 1 : 4;  // its chunks are large
    return kind == Kind::run ? length : times * std::uint64_t{payload->chunks.chunk};
  }
};

struct PayloadWriter::Piece {
  Bytes logical;
  core::ByteVector read;  ///< the bytes of `logical` where they are not in memory; of a short chunk, filled up
  core::ByteVector packed;
  std::uint64_t zeros = 0;  ///< behind the bytes of `logical`
};

std::vector<PayloadWriter::Part> PayloadWriter::parts_of(std::span<const PlannedPayload> planned,
                                                         std::span<Payload> payloads) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const ByteSource* source = planned[i].source.get();
    Payload& payload = payloads[i];
    const StoredPayload* stored = stored_payload(*source);
    const bool taken_over = stored != nullptr && same_packing(stored->payload(), payload);
    if (payload.codec == NativeCodec::elsewhere || taken_over || payload.size == 0) {
      parts.push_back({source, &payload, Part::Kind::whole, true, true, 0, 0, payload.size});
      continue;
    }
    const bool packed = is_packed(payload);
    const std::size_t count = packed ? payload.chunks.stored.size() : (payload.size + kPiece - 1) / kPiece;
    for (std::size_t part = 0; part < count; ++part) {
      auto [begin, length] = packed ? payload.chunks.span_of(part)
                                    : std::pair(part * kPiece, std::min(kPiece, payload.size - part * kPiece));
      parts.push_back({source, &payload, packed ? Part::Kind::chunk : Part::Kind::run, part == 0, part + 1 == count,
                       part, begin, length});
    }
  }
  return parts;
}

/// The source, where it makes the chunk as it is stored.
const TrimmedBytes* PayloadWriter::trimmed_source(const Part& part) {
  if (part.kind != Part::Kind::chunk || part.payload->codec != NativeCodec::trimmed) return nullptr;
  const auto* trimmed = dynamic_cast<const TrimmedBytes*>(part.source);
  return trimmed != nullptr && trimmed->part() == part.payload->chunks.chunk ? trimmed : nullptr;
}

void PayloadWriter::read_part(const Part& part, MutableBytes out) {
  const auto* differences = dynamic_cast<const DifferenceBytes*>(part.source);
  differences != nullptr ? differences->read_to_save(part.begin, out) : part.source->read(part.begin, out);
}

PayloadWriter::Piece PayloadWriter::make(const Part& part) {
  Piece piece;
  if (part.kind == Part::Kind::whole) return piece;
  if (const TrimmedBytes* trimmed = trimmed_source(part)) {
    piece.packed = trimmed->trimmed_part(part.begin);
    piece.logical = piece.packed;
    piece.zeros = part.length - piece.packed.size();
    return piece;
  }
  const Bytes memory = part.source->memory();
  const bool is_chunk = part.kind == Part::Kind::chunk;
  const std::uint64_t full = is_chunk ? part.payload->chunks.chunk : part.length;
  if (!memory.empty()) piece.logical = memory.subspan(part.begin, part.length);
  if (memory.empty() || full != part.length) {
    piece.read.resize(full);
    const MutableBytes read = MutableBytes(piece.read).first(part.length);
    if (memory.empty()) {
      read_part(part, read);
    } else {
      std::memcpy(read.data(), piece.logical.data(), read.size());
    }
    piece.logical = read;
  }
  if (is_chunk) piece.packed = pack_chunk(*part.payload, piece.read.empty() ? piece.logical : Bytes(piece.read));
  return piece;
}

void PayloadWriter::write(std::span<const PlannedPayload> planned, std::span<Payload> payloads) {
  const std::vector<Part> parts = parts_of(planned, payloads);
  std::uint64_t made = 0;
  for (const Part& part : parts) made += part.weight();
  const unsigned threads = made < kAlone ? 1 : thread_count(options_.threads);
  ckpt::run_in_order<Piece>(
      parts.size(), {threads, std::min(options_.max_memory / kWindow, kMaxBuffers)},
      [&](std::size_t i) { return parts[i].weight(); }, [&](std::size_t i) { return make(parts[i]); },
      [&](std::size_t i, const Piece& piece) { use(parts[i], piece); });
}

void PayloadWriter::use(const Part& part, const Piece& piece) {
  Payload& payload = *part.payload;
  if (part.kind == Part::Kind::whole) return use_whole(*part.source, payload);
  if (part.is_first) {
    align(payload.size);
    payload.offset = end_;
    payload.stored = 0;
    hasher_ = std::make_unique<Hasher128>();
  }
  hasher_->update(piece.logical);
  update_with_zeros(*hasher_, piece.zeros);
  const Bytes stored = part.kind == Part::Kind::chunk ? Bytes(piece.packed) : piece.logical;
  append(stored);
  payload.stored += stored.size();
  if (part.kind == Part::Kind::chunk) payload.chunks.stored[part.number] = static_cast<std::uint32_t>(stored.size());
  report(piece.logical.size() + piece.zeros);
  if (!part.is_last) return;
  payload.hash = hasher_->finish();
  end(*part.source, payload);
}

/// What lies elsewhere, what another file holds as it is to be written, and what is empty.
void PayloadWriter::use_whole(const ByteSource& source, Payload& payload) {
  if (payload.codec == NativeCodec::elsewhere) {
    source.require_unchanged();
    return report(payload.size);
  }
  align(payload.size);
  payload.offset = end_;
  const StoredPayload* stored = stored_payload(source);
  if (stored != nullptr && same_packing(stored->payload(), payload)) {
    // A copy of damage under the old hash would still be a copy of damage.
    if (awaits_check(source)) for_each_part(source, [](Bytes) {});
    take_over(*stored, payload);
    return stored->require_unchanged();
  }
  payload.stored = 0;
  payload.hash = hash128(Bytes());
  end(source, payload);
}

void PayloadWriter::end(const ByteSource& source, Payload& payload) {
  // The hash in the index vouches for one state of the source.
  source.require_unchanged();
  // Known damage must not get a hash that vouches for it.
  if (is_damaged(source)) payload.hash = {~payload.hash.low, ~payload.hash.high};
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

std::uint64_t bound_of_payloads(std::span<const Payload> payloads) {
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

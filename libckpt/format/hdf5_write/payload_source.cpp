#include "libckpt/format/hdf5_write/payload_source.h"

#include <algorithm>
#include <list>
#include <mutex>

#include "libckpt/format/hdf5_write/chunk_codec.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/kept_memory.h"
#include "libckpt/io/packed_differences.h"
#include "libckpt/io/scratch.h"
#include "libckpt/io/word_planes.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using Chunk = std::shared_ptr<const core::ByteVector>;

constexpr std::size_t kCachedChunks = 8;

[[noreturn]] void throw_past_end(std::uint64_t size) {
  throw core::Error(core::ErrorCode::corrupt,
                    "a read goes past the end of a tensor of " + std::to_string(size) + " bytes");
}

class RawPayload final : public StoredPayload {
 public:
  using StoredPayload::StoredPayload;
  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size() || out.size() > size() - offset) throw_past_end(size());
    body().read(payload().offset + offset, out);
  }
  std::optional<FileRange> file_range() const override {
    std::optional<FileRange> range = body().file_range();
    if (range) *range = {range->fd, range->offset + payload().offset, size()};
    return range;
  }
  Bytes memory() const override {
    Bytes all = body().memory();
    return all.empty() ? Bytes() : all.subspan(payload().offset, size());
  }
};

/// One object, because a list of 100,000 tensors has as many.
class CheckedRawPayload final : public CheckedSource {
 public:
  CheckedRawPayload(PayloadFilePtr file, const Payload* payload) : bare_(std::move(file), payload) {}
  std::uint64_t size() const override { return bare_.size(); }
  SourcePtr raw() const override { return std::make_shared<RawPayload>(bare_); }
  const ByteSource& bare() const override { return bare_; }

 private:
  Checksum expected() const override { return bare_.payload().hash; }
  const CheckOptions& options() const override { return *bare_.file().check; }

  RawPayload bare_;
};

}  // namespace

class ChunkCache final : private Keeper {
 public:
  ChunkCache() = default;
  ~ChunkCache() override { forget(); }

  Chunk find(const Payload* payload, std::uint64_t index) {
    std::lock_guard lock(mutex_);
    for (auto at = slots_.begin(); at != slots_.end(); ++at) {
      if (at->payload != payload || at->index != index) continue;
      slots_.splice(slots_.begin(), slots_, at);
      return at->chunk;
    }
    return nullptr;
  }
  void keep(const Payload* payload, std::uint64_t index, Chunk chunk) {
    std::lock_guard lock(mutex_);
    bytes_ += chunk->size();
    slots_.push_front({payload, index, std::move(chunk)});
    if (slots_.size() > kCachedChunks) {
      bytes_ -= slots_.back().chunk->size();
      slots_.pop_back();
    }
    used(bytes_);
  }

 private:
  struct Slot {
    const Payload* payload;
    std::uint64_t index;
    Chunk chunk;
  };
  bool let_go() const override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    slots_.clear();
    bytes_ = 0;
    return true;
  }

  mutable std::mutex mutex_;
  mutable std::list<Slot> slots_;
  mutable std::uint64_t bytes_ = 0;
};

namespace {

class PackedPayload final : public StoredPayload, public PackedDifferences {
 public:
  PackedPayload(PayloadFilePtr file, const Payload* payload, std::shared_ptr<ChunkCache> cache)
      : StoredPayload(std::move(file), payload), cache_(std::move(cache)) {
    const ChunkTable& table = payload->chunks;
    starts_.reserve(table.stored.size());
    std::uint64_t at = payload->offset;
    for (std::uint32_t stored : table.stored) {
      starts_.push_back(at);
      at += stored;
    }
  }

  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size() || out.size() > size() - offset) throw_past_end(size());
    const ChunkTable& table = payload().chunks;
    while (!out.empty()) {
      std::uint64_t index = table.index_of(offset);
      auto [begin, length] = table.span_of(index);
      std::uint64_t skip = offset - begin;
      std::uint64_t part = std::min<std::uint64_t>(length - skip, out.size());
      if (payload().codec == NativeCodec::trimmed) {
        read_trimmed(index, skip, out.first(part));
      } else if (part == table.chunk) {
        unpack(index, out.first(part));  // whole chunks go straight to the reader
      } else {
        Chunk chunk = cached(index);
        std::copy_n(chunk->begin() + static_cast<std::ptrdiff_t>(skip), part, out.begin());
      }
      offset += part;
      out = out.subspan(part);
    }
  }

  bool add_to(std::uint64_t offset, std::uint32_t width, MutableBytes words) const override {
    const ChunkTable& table = payload().chunks;
    if (payload().codec != NativeCodec::delta || payload().shuffle != width) return false;
    const std::uint64_t index = table.index_of(offset);
    const auto [begin, length] = table.span_of(index);
    if (offset - begin + words.size() > length) return false;
    const Scratch packed(table.stored[index]);
    body().read(starts_[index], packed.bytes());
    add_packed_words(packed.bytes(), {width, table.chunk, offset - begin}, words);
    return true;
  }

  std::uint64_t chunk_end(std::uint64_t offset) const override {
    const ChunkTable& table = payload().chunks;
    const auto [begin, length] = table.span_of(table.index_of(offset));
    return begin + length;
  }

 private:
  Chunk cached(std::uint64_t index) const {
    if (Chunk chunk = cache_->find(&payload(), index)) return chunk;
    core::ByteVector bytes(payload().chunks.chunk);
    unpack(index, bytes);
    auto chunk = std::make_shared<const core::ByteVector>(std::move(bytes));
    cache_->keep(&payload(), index, chunk);
    return chunk;
  }

  /// From byte `skip` of a chunk on: what was left out is zeros.
  void read_trimmed(std::uint64_t index, std::uint64_t skip, MutableBytes out) const {
    const std::uint64_t there = payload().chunks.stored[index];
    const MutableBytes front = out.first(there <= skip ? 0 : std::min<std::uint64_t>(there - skip, out.size()));
    if (!front.empty()) body().read(starts_[index] + skip, front);
    std::ranges::fill(out.subspan(front.size()), std::byte{0});
  }

  /// REQUIRES: `out` has the size of a chunk.
  void unpack(std::uint64_t index, MutableBytes out) const {
    const Scratch packed(payload().chunks.stored[index]);
    body().read(starts_[index], packed.bytes());
    unpack_chunk(payload(), packed.bytes(), out);
  }

  std::shared_ptr<ChunkCache> cache_;
  std::vector<std::uint64_t> starts_;
};

}  // namespace

std::shared_ptr<ChunkCache> make_chunk_cache() {
  return std::make_shared<ChunkCache>();
}

SourcePtr open_payload(PayloadFilePtr file, const Payload* payload, std::shared_ptr<ChunkCache> cache) {
  if (payload->codec == NativeCodec::raw) return std::make_shared<RawPayload>(std::move(file), payload);
  return std::make_shared<PackedPayload>(std::move(file), payload, std::move(cache));
}

SourcePtr open_checked(PayloadFilePtr file, const Payload* payload, std::shared_ptr<ChunkCache> cache,
                       ObjectArena& arena) {
  if (payload->codec == NativeCodec::raw) return arena.make<CheckedRawPayload>(std::move(file), payload);
  CheckOptions check = *file->check;
  check.step = payload->chunks.run % payload->chunks.chunk == 0 ? payload->chunks.chunk : 0;
  return checked(open_payload(std::move(file), payload, std::move(cache)), payload->hash, std::move(check));
}

const std::uint64_t kBytesOfChecked = sizeof(CheckedRawPayload) + 32;

const StoredPayload* stored_payload(const ByteSource& source) {
  return dynamic_cast<const StoredPayload*>(&unchecked(source));
}

}  // namespace ckpt::detail

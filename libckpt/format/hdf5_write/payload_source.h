#pragma once
// Sources of tensor bytes in a native file: plain ranges, and packed ones that are unpacked chunk by chunk.
// Thread safety: read() from many threads. Use: SourcePtr source = open_payload(body, payload, cache);

#include <memory>

#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/object_arena.h"

namespace ckpt::detail {

/// A payload of a native file, recognised by a writer that can take it over as it is.
class StoredPayload : public ByteSource {
 public:
  StoredPayload(SourcePtr body, const Payload* payload, std::shared_ptr<const void> owner)
      : body_(std::move(body)), payload_(payload), owner_(std::move(owner)) {}
  std::uint64_t size() const override { return payload_->size; }
  void require_unchanged() const override { body_->require_unchanged(); }
  const Payload& payload() const { return *payload_; }
  /// Its bytes as they are in the file.
  SourcePtr stored() const { return slice(body_, payload_->offset, payload_->stored); }

 protected:
  const SourcePtr& body() const { return body_; }

 private:
  SourcePtr body_;
  const Payload* payload_;
  std::shared_ptr<const void> owner_;  ///< keeps the payload's record alive
};

/// Unpacked chunks that were read last, for all payloads of one file together.
class ChunkCache;
std::shared_ptr<ChunkCache> make_chunk_cache();

/// `body` is the file behind the user block; `owner` keeps `payload` alive.
/// `arena`, where there is one, holds what many tensors have. REQUIRES: the payload was checked against the size of the
/// file.
SourcePtr open_payload(SourcePtr body, const Payload* payload, std::shared_ptr<const void> owner,
                       std::shared_ptr<ChunkCache> cache, ObjectArena* arena = nullptr);

/// The payload that `source` is, whether or not its hash is compared when it is read; null for anything else.
const StoredPayload* stored_payload(const ByteSource& source);

}  // namespace ckpt::detail

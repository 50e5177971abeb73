#pragma once
// Sources of tensor bytes in a native file: plain ranges, and packed ones that are unpacked chunk by chunk.
// Thread safety: read() from many threads. Use: SourcePtr source = open_payload(file, payload, cache);

#include <memory>

#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/object_arena.h"

namespace ckpt::detail {

/// What the payloads of one file have in common.
struct PayloadFile {
  SourcePtr body;                             ///< the file behind the user block
  std::shared_ptr<const void> owner;          ///< keeps the records of the payloads alive
  std::shared_ptr<const CheckOptions> check;  ///< how their hashes are compared, where they are
};
using PayloadFilePtr = std::shared_ptr<const PayloadFile>;

/// A payload of a native file, recognised by a writer that can take it over as it is.
class StoredPayload : public ByteSource, public MadeOf {
 public:
  StoredPayload(PayloadFilePtr file, const Payload* payload) : file_(std::move(file)), payload_(payload) {}
  std::uint64_t size() const override { return payload_->size; }
  void require_unchanged() const override { body().require_unchanged(); }
  const ByteSource& made_of() const override { return body(); }
  const PayloadFile& file() const { return *file_; }
  const Payload& payload() const { return *payload_; }
  /// Its bytes as they are in the file.
  SourcePtr stored() const { return slice(file_->body, payload_->offset, payload_->stored); }

 protected:
  const ByteSource& body() const { return *file_->body; }

 private:
  PayloadFilePtr file_;
  const Payload* payload_;
};

/// Unpacked chunks that were read last, for all payloads of one file together.
class ChunkCache;
std::shared_ptr<ChunkCache> make_chunk_cache();

/// The bytes of a payload, whatever its hash. REQUIRES: the payload was checked against the size of the file.
SourcePtr open_payload(PayloadFilePtr file, const Payload* payload, std::shared_ptr<ChunkCache> cache);
/// The same, and its hash is compared as the file's options say. `arena` holds what many tensors have.
SourcePtr open_checked(PayloadFilePtr file, const Payload* payload, std::shared_ptr<ChunkCache> cache,
                       ObjectArena& arena);
/// Bytes of memory that a payload takes in the arena, about.
extern const std::uint64_t kBytesOfChecked;

/// The payload that `source` is, whether or not its hash is compared when it is read; null for anything else.
const StoredPayload* stored_payload(const ByteSource& source);

}  // namespace ckpt::detail

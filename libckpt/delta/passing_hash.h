#pragma once
// The hash of bytes that pass by: several threads read them, part after part, for another purpose. Internal. Thread
// safety: all functions, from many threads. Errors: std::bad_alloc. Use: PassingHash hash(200); hash.note(0, first,
// owner); hash.note(100, second, owner); std::optional<Hash128> all = hash.found();

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/checksum.h"

namespace ckpt::detail {

class PassingHash {
 public:
  explicit PassingHash(std::uint64_t size);
  /// Bytes from `begin` on. Those behind some that are missing yet are held with `owner`, and whoever brings these
  /// takes them along, so that no thread waits. Without an owner they are copied, until that would take 64 MiB: then
  /// there is no hash. The same bytes once more change nothing.
  void note(std::uint64_t begin, Bytes bytes, std::shared_ptr<const void> owner = nullptr);
  /// Nothing until all bytes have passed.
  std::optional<Hash128> found() const;

 private:
  struct Part {
    Bytes bytes;
    std::shared_ptr<const void> owner;
    std::uint64_t copied = 0;
  };
  void keep(std::uint64_t begin, Bytes bytes, std::shared_ptr<const void> owner);
  void update(std::unique_lock<std::mutex>& lock, std::uint64_t begin, Bytes bytes);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Part> waiting_;
  std::uint64_t copied_ = 0;  ///< bytes, of all that wait
  std::uint64_t next_ = 0;
  bool busy_ = false;  ///< a thread puts parts into the hash
  std::uint64_t size_;
  std::unique_ptr<Hasher128> hasher_;  ///< while some have passed and not all
  std::optional<Hash128> found_;
};

/// A part of a source, read piece by piece, each of which goes into a hash while it is near the processor.
class PassingPart {
 public:
  /// `hash`: null where nobody asks.
  PassingPart(const SourcePtr& source, std::uint64_t begin, std::uint64_t length, std::shared_ptr<PassingHash> hash);
  /// Of them, as many as were brought are there.
  Bytes bytes() const { return bytes_; }
  /// The first `end` bytes of the part, or a few more. Errors: those of reading.
  void bring(std::uint64_t end);
  void bring_all() { bring(bytes_.size()); }

 private:
  const ByteSource& source_;
  std::uint64_t begin_;
  std::shared_ptr<PassingHash> hash_;
  std::shared_ptr<const void> owner_;  ///< of `bytes_`
  MutableBytes room_;                  ///< none where the source lies in memory
  Bytes bytes_;
  std::uint64_t there_ = 0;
};

/// Those of two sources that are read together; null where nobody asks.
struct PassingHashes {
  std::shared_ptr<PassingHash> from;
  std::shared_ptr<PassingHash> to;
};

}  // namespace ckpt::detail

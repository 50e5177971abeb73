#pragma once
// CheckedSource: bytes whose checksum was recorded when they were written. The checksum is computed while they are read
// and compared before anybody relies on them: with the last byte of a reader that goes from front to end, else in
// require_unchanged(), which reads the rest. Every reader of a format with checksums hands these out, so that no
// command can pass damage on as good data. Thread safety: as every source.
// Use: source = checked(zip.payload(member), member.crc32, {.subject = "the record 'data/0' is damaged"});

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <variant>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/checksum.h"

namespace ckpt {

struct CheckOptions {
  std::string subject;      ///< begin of the message: "the record 'data/0' is damaged"
  bool before_use = false;  ///< all is compared before the first byte is handed out
  bool lenient = false;     ///< damage is noted (is_damaged) and passed on instead of Error(corrupt)
  /// Bytes that are read before they are put into the checksum, so that they are still near the processor then; 0: all
  /// that a reader asks for, where only whole parts are read well.
  std::uint64_t step = 512ULL << 10;
};

/// Set by a source that compares checksums by itself (a chunk of HDF5 has its own) when it hands out damaged bytes.
using SeenDamage = std::shared_ptr<std::atomic<bool>>;

/// A CRC-32 or a 128-bit hash of all bytes, or what the source itself finds.
using Checksum = std::variant<std::uint32_t, Hash128, SeenDamage>;

class CheckedSource final : public ByteSource {
 public:
  CheckedSource(SourcePtr raw, Checksum expected, CheckOptions options);

  std::uint64_t size() const override { return raw_->size(); }
  void read(std::uint64_t offset, MutableBytes out) const override;
  Bytes memory() const override;
  std::optional<FileRange> file_range() const override { return raw_->file_range(); }
  void require_unchanged() const override;
  void visit_checked(const CheckedVisitor& see) const override;

  /// The bytes without the check, for whoever carries the recorded checksum along with them.
  const SourcePtr& raw() const { return raw_; }
  bool is_open() const { return state_ == State::open; }
  bool is_damaged() const;

 private:
  enum class State : std::uint8_t { open, good, damaged };

  /// A part that was read before its turn, with a copy of its bytes while there is room for copies.
  class Early {
   public:
    Early(std::uint64_t end, Bytes bytes);
    ~Early();
    Early(const Early&) = delete;
    Early& operator=(const Early&) = delete;
    std::uint64_t end() const { return end_; }
    Bytes bytes() const { return {copy_.get(), size_}; }  ///< empty: they are to be read again

   private:
    std::uint64_t end_;
    std::size_t size_ = 0;
    std::unique_ptr<std::byte[]> copy_;
  };

  void read_part(std::uint64_t offset, MutableBytes out) const;
  // With the lock held.
  void note(std::uint64_t offset, Bytes bytes) const;
  void update(Bytes bytes) const;
  void read_up_to(std::uint64_t end) const;
  void catch_up() const;
  void judge() const;
  void finish() const;
  void throw_damage() const;
  void note_failure(const std::string& message) const;

  SourcePtr raw_;
  Checksum expected_;
  CheckOptions options_;
  mutable std::atomic<State> state_ = State::open;
  mutable std::mutex mutex_;
  mutable std::uint64_t next_ = 0;  ///< all before it is in the checksum
  mutable bool touched_ = false;
  mutable std::map<std::uint64_t, Early> early_;  ///< by where they begin
  mutable std::uint32_t crc_ = 0;
  mutable std::unique_ptr<Hasher128> hasher_;
  mutable std::string failure_;  ///< why the bytes cannot even be handed out; set once, before state_
};

/// `raw` with its checksum.
SourcePtr checked(SourcePtr raw, Checksum expected, CheckOptions options);
/// True when a part that the bytes come from has turned out not to have its recorded checksum.
bool is_damaged(const ByteSource& source);
/// True when a part has a checksum that was not compared yet: the bytes must be read, not copied unseen.
bool awaits_check(const ByteSource& source);
/// Without the check, where `source` is one whole checked part; else `source` itself.
const ByteSource& unchecked(const ByteSource& source);

}  // namespace ckpt

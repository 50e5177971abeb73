#pragma once
// CheckedSource: bytes whose checksum was recorded when they were written. The checksum is computed while they are read
// and compared before anybody relies on them: with the last byte of a reader that goes from front to end, else in
// require_unchanged(), which reads the rest. Every reader of a format with checksums hands these out, so that no
// command can pass damage on as good data. Thread safety: as every source.
// Use: source = checked(zip.payload(member), member.crc32, {.subject = "the record 'data/0' is damaged"});

#include <atomic>
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

/// checked() makes one of any source. What a format has 100,000 of derives its own, so that each is one object.
class CheckedSource : public ByteSource {
 public:
  ~CheckedSource() override;
  CheckedSource(const CheckedSource&) = delete;
  CheckedSource& operator=(const CheckedSource&) = delete;

  std::uint64_t size() const override { return bare().size(); }
  void read(std::uint64_t offset, MutableBytes out) const override;
  Bytes memory() const override;
  std::optional<FileRange> file_range() const override { return bare().file_range(); }
  void require_unchanged() const override;
  void visit_checked(const CheckedVisitor& see) const override;

  /// The bytes without the check, for whoever carries the recorded checksum along with them.
  virtual SourcePtr raw() const = 0;
  /// The same, valid as long as this.
  virtual const ByteSource& bare() const = 0;
  bool is_open() const { return state_ == State::open; }
  /// Whether no byte is handed out before all were compared.
  bool checks_before_use() const { return options().before_use; }
  bool is_damaged() const;

 protected:
  CheckedSource() = default;
  /// The source compares by itself (SeenDamage).
  void leave_to_source() { state_ = State::good; }
  virtual Checksum expected() const = 0;
  virtual const CheckOptions& options() const = 0;

 private:
  enum class State : std::uint8_t { open, good, damaged };

  /// What has been read so far. Most sources of a large file are listed and never read, and have none.
  struct Reading;
  Reading& reading() const;

  void read_part(std::uint64_t offset, MutableBytes out) const;
  void note(Reading& now, std::uint64_t offset, Bytes bytes) const;
  void update(Reading& now, Bytes bytes) const;
  void read_up_to(Reading& now, std::uint64_t end) const;
  void catch_up(Reading& now) const;
  void judge(Reading& now) const;
  void finish(Reading& now) const;
  void throw_damage() const;
  void note_failure(const std::string& message) const;

  mutable std::atomic<Reading*> reading_ = nullptr;
  mutable std::atomic<State> state_ = State::open;
};

/// `raw` with its checksum.
SourcePtr checked(SourcePtr raw, Checksum expected, CheckOptions options);
/// The same for many that share their options.
SourcePtr checked(SourcePtr raw, Checksum expected, std::shared_ptr<const CheckOptions> options);
/// True when a part that the bytes come from has turned out not to have its recorded checksum.
bool is_damaged(const ByteSource& source);
/// True when a part has a checksum that was not compared yet: the bytes must be read, not copied unseen.
bool awaits_check(const ByteSource& source);
/// Without the check, where `source` is one whole checked part; else `source` itself.
const ByteSource& unchecked(const ByteSource& source);

}  // namespace ckpt

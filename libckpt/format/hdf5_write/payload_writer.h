#pragma once
// Streams payloads into the file, packs those that gain from it, and records where each one went. Threads read and pack
// what comes next, across the borders of payloads, while one hashes and writes. Thread safety: one owner. Use:
// PayloadWriter writer(file, user_block, total, options); writer.write(planned, payloads);

#include <memory>
#include <span>
#include <vector>

#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/options.h"

namespace ckpt::detail {

class StoredPayload;
class TrimmedBytes;

/// Largest number of bytes that the payloads can take in the file, from the end of the user block.
std::uint64_t bound_of_payloads(std::span<const Payload> payloads);

class PayloadWriter {
 public:
  /// `total` logical bytes are to come; progress is reported against it.
  PayloadWriter(AtomicFile& file, std::uint64_t user_block, std::uint64_t total, const SaveOptions& options);
  /// Appends payloads; fills in their offsets, stored sizes and hashes. REQUIRES: as many of each.
  void write(std::span<const PlannedPayload> planned, std::span<Payload> payloads);
  /// Writes what is still buffered; returns the end from the end of the user block.
  std::uint64_t finish();

 private:
  struct Part;
  struct Piece;
  static std::vector<Part> parts_of(std::span<const PlannedPayload> planned, std::span<Payload> payloads);
  static const TrimmedBytes* trimmed_source(const Part& part);
  static void read_part(const Part& part, MutableBytes out);
  static Piece make(const Part& part);
  void use(const Part& part, const Piece& piece);
  void use_whole(const ByteSource& source, Payload& payload);
  void end(const ByteSource& source, Payload& payload);

  void append(Bytes bytes);
  void flush();
  void align(std::uint64_t size);
  void take_over(const StoredPayload& source, Payload& payload);
  void report(std::uint64_t bytes);

  AtomicFile& file_;
  std::uint64_t user_block_;
  std::uint64_t total_;
  const SaveOptions& options_;
  core::ByteVector buffer_;  ///< bytes behind file_.position()
  std::uint64_t end_;        ///< of everything so far, buffer included, from the end of the user block
  std::uint64_t done_ = 0;
  std::unique_ptr<Hasher128> hasher_;  ///< of the payload that is being written
};

}  // namespace ckpt::detail

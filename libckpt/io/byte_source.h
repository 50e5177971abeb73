#pragma once
// ByteSource: a run of bytes that can be read anywhere, whole or not at all: a file, a part of one, a block of memory,
// a gathered view, a decompressor. This seam keeps formats free of tensors and memory bounded. Thread safety: read()
// may be called from many threads at once. Use: source->read(0, buffer);

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "libcore/base/bytes.h"

namespace ckpt {

using core::Bytes;
using core::MutableBytes;

/// Where bytes lie in a file that stays open: lets a writer copy them without passing them through memory.
struct FileRange {
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

class CheckedSource;
using CheckedVisitor = std::function<void(const CheckedSource&)>;

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Length in bytes.
  virtual std::uint64_t size() const = 0;
  /// Fills `out` with the bytes at `offset`. Complete or throws: Error(corrupt) past the end, Error(io) from the
  /// system.
  virtual void read(std::uint64_t offset, MutableBytes out) const = 0;
  /// The bytes themselves when they already lie in memory, else empty. Valid as long as the source.
  virtual Bytes memory() const { return {}; }
  /// The range of one file that holds exactly these bytes, where there is one. Valid as long as the source.
  virtual std::optional<FileRange> file_range() const { return std::nullopt; }
  /// Error(io) when the file behind the bytes was written to since it was opened: what has been read may then be half
  /// old and half new. Whoever has read all of a source and is about to rely on it asks: sinks after every copy, and
  /// what only looks (verify, stat, diff, hash) before it answers. Error(corrupt) when bytes that were read do not have
  /// the checksum that was recorded with them. A source that wraps others asks them; bytes that lie
  /// in memory never change.
  virtual void require_unchanged() const = 0;
  /// Calls `see` with every part that the bytes come from and that has a checksum of its own (checked_source.h). A
  /// source that wraps others asks them.
  virtual void visit_checked(const CheckedVisitor& see) const { static_cast<void>(see); }
};

using SourcePtr = std::shared_ptr<const ByteSource>;

/// Opens a regular file for positional reads. Size and time are taken at open; a file that shrinks later is Error(io).
/// Errors: Error(io) naming the path when it is missing, a folder, or not readable.
SourcePtr open_file(const std::filesystem::path& path);
/// `length` bytes at `offset` of `whole`, which stays alive. Error(corrupt) when they reach past its end.
SourcePtr slice(SourcePtr whole, std::uint64_t offset, std::uint64_t length);
/// True when `path` still is the very file that `source` reads.
bool is_file_of(const ByteSource& source, const std::filesystem::path& path);
/// Owns `bytes`.
SourcePtr memory_source(core::ByteVector bytes);
/// Reads everything. REQUIRES: the caller has checked source.size() against a limit.
core::ByteVector read_all(const ByteSource& source);

}  // namespace ckpt

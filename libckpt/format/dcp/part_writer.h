#pragma once
// One data file of a distributed checkpoint on its way to the disk: an archive for each piece, one behind the other,
// hashed while they are written. Thread safety: one owner. Use: DcpPartWriter part(folder, part_name(rank), save_id, n,
// options); DcpPlace place = part.add(value); PartFacts facts = part.finish();

#include <filesystem>
#include <memory>

#include "libckpt/format/dcp/chunk_source.h"
#include "libckpt/format/dcp/metadata.h"
#include "libckpt/format/dcp/parts_file.h"
#include "libckpt/format/dcp/tiling.h"

namespace ckpt::detail {

class DcpPartWriter {
 public:
  /// `expected`: bytes of its tensors, for which room is reserved. Of `options` durable, io and threads are used.
  /// Errors: those of AtomicFile.
  DcpPartWriter(const std::filesystem::path& folder, const std::string& file, const std::string& save_id,
                std::uint64_t expected, const SaveOptions& options);
  ~DcpPartWriter();
  DcpPartWriter(const DcpPartWriter&) = delete;
  DcpPartWriter& operator=(const DcpPartWriter&) = delete;

  /// A tensor as a plain one of the CPU, or any other value. REQUIRES: one that a distributed checkpoint can hold.
  DcpPlace add(const Value& value);
  /// Makes the file durable and gives it its name.
  PartFacts finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The part of a tensor that lies in `box`, read when it is asked for. REQUIRES: the box lies inside.
Value boxed_tensor(const Entry& entry, const Box& box, PartCheck check);

}  // namespace ckpt::detail

#pragma once
// A ByteSource over a file that is open already. Internal to libckpt/io. Thread safety: pure.
// Use: SourcePtr source = source_of(std::move(fd), path);

#include <filesystem>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/page_cache_use.h"

namespace ckpt::detail {

/// As open_file(); `path` is the name for messages. Errors: Error(io) naming the path when it is no regular file.
SourcePtr source_of(Fd file, const std::filesystem::path& path);

/// From now on large reads of an open file go as `io` says. What is no file stays as it is.
void read_as(const ByteSource& source, Io io);

/// What `source` is a part of; itself, when it is none.
const ByteSource& whole_of(const ByteSource& source);

/// A source whose bytes are made of those of another when they are read, such as packed ones.
class MadeOf {
 public:
  virtual ~MadeOf() = default;
  virtual const ByteSource& made_of() const = 0;
};

/// True when little of the file that `source` is, is a part of or is made of was in memory when this was first asked.
bool was_on_disk(const ByteSource& source);
/// True when large reads of it go past the cache therefore, and wait for the disk: more threads than there are cores
/// then read it sooner.
bool waits_for_disk(const ByteSource& source);

}  // namespace ckpt::detail

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

}  // namespace ckpt::detail

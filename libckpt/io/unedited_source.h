#pragma once
// What a file was before an edit in place (edit_journal.h) that still goes on or was interrupted: readers take no lock
// and write nothing, so the record of the edit tells them the old bytes. Internal to libckpt. Thread safety: pure; the
// source as every source. Use: SourcePtr file = as_before_edit(source, path);

#include <filesystem>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// `file`, which is the open file at `path`, as it was before such an edit; else `file` itself. Errors: Error(io) when
/// the record of one cannot be read.
SourcePtr as_before_edit(SourcePtr file, const std::filesystem::path& path);
/// True for a source that as_before_edit() made.
bool hides_edit(const ByteSource& source);

}  // namespace ckpt::detail

#pragma once
// Gives members of a zip archive other names where they lie. A local header keeps its length, so that no payload moves:
// what a shorter name leaves free becomes padding in its extra fields, and a longer one takes room from padding there.
// The directory is written anew in its place, which ends the file. Thread safety: pure.
// Use: std::optional<FileEdit> edit = rename_in_zip(*file, zip, new_names);

#include <optional>
#include <span>
#include <string>

#include "libckpt/io/edit_journal.h"
#include "libckpt/io/zip.h"

namespace ckpt {

/// `names`: of all members, in the order of zip.members(). Nullopt where a name has no room, where extra fields of a
/// record tell its name or are none, and for an archive with replaced records or trailing bytes. A name beyond ASCII is
/// marked as UTF-8; all else of the records stays. REQUIRES: `zip` was read from `file`; names are distinct, valid
/// UTF-8 of 1 to 65,535 bytes. Errors: Error(io).
std::optional<FileEdit> rename_in_zip(const ByteSource& file, const ZipArchive& zip,
                                      std::span<const std::string> names);

}  // namespace ckpt

#pragma once
// The record of an edit in place: which bytes of which file, the old and the new ones. What lies beside a file is not
// to be trusted: a record counts only when it is a regular file of the file's own owner, whole by its hash, of the
// file's size, and when every byte that it is about is the old or the new one. Internal to libckpt/io. Thread safety:
// pure functions. Use: FoundEdit found = find_edit(folder_fd, journal_name(name), owner); stage_of(fd.get(),
// *found.record);

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

struct EditRecord {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;  ///< of the file
  std::uint64_t offset = 0;
  core::ByteVector old_bytes;
  core::ByteVector new_bytes;  ///< as many
};

core::ByteVector encode(const EditRecord& record);
/// nullopt for bytes that encode() did not make, and for a part of those.
std::optional<EditRecord> decode(core::Bytes bytes);

struct FoundEdit {
  enum class Kind : std::uint8_t {
    none,        ///< nothing there, or somebody else's
    unreadable,  ///< `error` says why
    present,
  };
  Kind kind = Kind::none;
  std::optional<EditRecord> record;  ///< empty when it is not whole
  timespec named = {};               ///< when it got its name
  int error = 0;
};

/// `owner`: of the file that the record is of.
FoundEdit find_edit(int folder, const std::string& name, uid_t owner);

/// How far an edit has come. The bytes say that better than the number of an inode: that stays when another program
/// writes a new file over the old one, and is another one in a copy of the folder.
enum class EditStage : std::uint8_t {
  foreign,  ///< the record is not of this file
  begun,    ///< some bytes may be new
  whole,    ///< all are
};
/// Of an open file. Errors: Error(io).
EditStage stage_of(int file, const EditRecord& record);
/// True when the open file has these bytes there. Errors: Error(io).
bool holds(int file, std::uint64_t offset, core::Bytes bytes);

}  // namespace ckpt::detail

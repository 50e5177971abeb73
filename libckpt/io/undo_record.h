#pragma once
// The record from which the last edit in place is taken back (edit_journal.h), once the edit stands. It lies in the
// state folder of the user, "$XDG_STATE_HOME/ckpt/undo" or "~/.local/state/ckpt/undo", under a name made of the file's
// path, so that nothing is left beside the file; beside it (".net.safetensors.ckpt-undo") only where that folder cannot
// take it: no HOME, no room, no right to write. It is not made durable: what needs to survive a power cut is the
// journal, which stays beside the file until the edit stands. Records of edits older than 30 days go when another comes
// to lie beside them. Internal to libckpt/io. Thread safety: a file has one writer, who holds its lock. Use: UndoKept
// where = keep_undo(folder_fd, "net.bin", {{"net.bin", status.st_mtim, record}});

#include <sys/types.h>

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/edit_record.h"

namespace ckpt::detail {

/// One file that an edit changed.
struct UndoPart {
  std::string name;        ///< in the folder
  timespec modified = {};  ///< st_mtim of the file when the edit stood
  EditRecord record = {};
  Hash128 new_hash = {};  ///< of the bytes that the edit wrote, when the part was read
};
using UndoParts = std::vector<UndoPart>;

/// Keeps how to take back an edit of `name` in an open folder, in place of what was kept before. Never throws for want
/// of a place: then nothing is kept.
UndoKept keep_undo(int folder, const std::string& name, const UndoParts& parts);

struct FoundUndo {
  UndoKept kept = UndoKept::nowhere;
  std::string path;      ///< for messages; that beside the file is a name in its folder
  UndoParts parts;       ///< empty for a record that is not whole
  bool foreign = false;  ///< what lies there is a link, or another user's, and is not read
  int error = 0;         ///< why what is there cannot be read
};
/// `owner`: of the file; what lies beside it counts only when it is his.
FoundUndo find_undo(int folder, const std::string& name, uid_t owner);

/// True when an open file is as the edit left it: the same one, not written to since, with all new bytes, which are
/// then read from it into the part: the record holds the old ones alone. Errors: Error(io).
bool is_as_left(int file, UndoPart& part);

/// True for the names that records get, in either place.
bool is_undo_name(std::string_view name);

}  // namespace ckpt::detail

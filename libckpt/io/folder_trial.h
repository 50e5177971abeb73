#pragma once
// What a save and an edit in place do in a folder, found out by doing both there: the same code as every save and edit.
// What is not tried here is not done by any save. Thread safety: one thread, while no other saves. Use:
// FolderTrial trial = try_folder("/data/runs"); if (!trial.syncs_folder) ...

#include <filesystem>

#include "libckpt/io/edit_journal.h"

namespace ckpt {

struct FolderTrial {
  double milliseconds = 0;    ///< of a durable save of 1 MiB
  bool reserves = false;      ///< room for the whole file is reserved before it is written
  bool copies = false;        ///< the kernel copies bytes from file to file; else they go through memory
  bool renames = false;       ///< a new name is taken by a rename that refuses a taken one; else by a hard link
  bool syncs_folder = false;  ///< the new name is made durable by fsync of the folder
  bool locks = false;         ///< two programs that write one file are kept apart
};

/// Saves two hidden files there and removes them. Errors: Error(io) as any save.
FolderTrial try_folder(const std::filesystem::path& folder);

struct EditTrial {
  double milliseconds = 0;            ///< of a durable edit that replaces 4 KiB and appends as much
  bool syncs_folder = false;          ///< the name of the record is made durable by fsync of the folder
  bool links = false;                 ///< files can have several names; one that has is never edited in place
  UndoKept undo = UndoKept::nowhere;  ///< where the record lies from which an edit here is taken back
  bool clones = false;  ///< a copy of a file can share its blocks (FICLONE), so that copying costs next to nothing
};

/// Edits a hidden file there in place, takes that back, and removes it. Errors: Error(io) as any edit.
EditTrial try_edits(const std::filesystem::path& folder);

}  // namespace ckpt

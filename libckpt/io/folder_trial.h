#pragma once
// What a save does in a folder, found out by saving there: the same code as every save, with its system calls watched.
// What is not tried here is not done by any save. Thread safety: one thread, while no other saves. Use:
// FolderTrial trial = try_folder("/data/runs"); if (!trial.syncs_folder) ...

#include <filesystem>

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

}  // namespace ckpt

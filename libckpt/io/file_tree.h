#pragma once
// A folder with all that is in it, made durable or removed, through the table of file_ops.h. Symbolic links are never
// followed. Internal to libckpt. Thread safety: pure. Use: int error = remove_tree(folder_fd, "checkpoint-500");

#include <string>

namespace ckpt::detail {

/// fsync of a file, or of a folder and all regular files below it: 0, or the errno of what failed first. File systems
/// that have no fsync of folders are taken as they are.
int sync_tree(int folder, const std::string& name);
/// Removes a file, or a folder and all that is below it: 0, or the errno of what failed first.
int remove_tree(int folder, const std::string& name);

}  // namespace ckpt::detail

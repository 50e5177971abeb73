#pragma once
// The file that a save will replace: where it really lies, who it is, and what of it the new file must keep. Internal
// to AtomicFile. Thread safety: one owner. Use: Target target = look_up(path); ... require_unchanged(target);

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>

#include "libckpt/io/file_ops.h"

namespace ckpt::detail {

/// A name in an open folder, symbolic links followed.
struct Target {
  Fd folder;
  std::string folder_path;
  std::string name;
  std::optional<struct stat> old;  ///< what lies there now, if anything
};

/// Follows symbolic links and opens the folder. Errors: Error(io) for a missing folder, a loop of links, or a target
/// that is no regular file; Error(usage) for an empty name.
Target look_up(const std::filesystem::path& path);

/// Error(io) when a file that was there at look_up() has since been changed or replaced by another, or when one has
/// appeared.
void require_unchanged(const Target& target);

/// Gives `fd` mode, owner and extended attributes of the old file. What the system does not allow us to set is left
/// out, never widened.
void keep_attributes(const Target& target, int fd);

/// A name in an open folder.
struct Place {
  int folder = -1;
  std::string name;
};
enum class Taken { replace, refuse };
/// Renames in one step, within one file system: 0, or the errno of what failed (EEXIST for a taken name that must not
/// be replaced); `from` then still has its name.
int rename_file(const Place& from, const Place& to, Taken taken);
/// The same, and ends what edits in place of the old file left beside it. Errors: Error(io).
void put_in_place(const Place& from, const Place& to, Taken taken);

/// Makes the names in an open folder durable. Error(io) saying that the new file is in place, but its durability
/// unknown.
void sync_new_names(int folder);

}  // namespace ckpt::detail

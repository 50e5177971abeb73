#pragma once
// What writers that died have left in a folder: temporary files and lock files. Every save sweeps its folder first, and
// `ckpt doctor` shows and sweeps. Removed is only what can be ours alone and is dead beyond doubt: a regular file under
// a name that only we make (hidden_names.h), owned by this user, whose writer's process is gone; where the number says
// nothing (another boot, machine or container), only when no lock in the folder is held, since a writer that lives
// holds one. No file of an ordinary name is ever removed here, and no content of any file says what is. Thread safety:
// any number of calls at once. Use: for (const Leftover& left : find_leftovers("runs")) ...

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/io/writer_lock.h"

namespace ckpt {

struct Leftover {
  enum class Kind : std::uint8_t { temporary, lock, folder };
  enum class Writer : std::uint8_t { dead, alive, unknown };
  std::string name;
  Kind kind = Kind::temporary;
  Writer writer = Writer::unknown;
  bool is_mine = false;    ///< owned by the user of this process
  std::uint64_t size = 0;  ///< bytes
  std::int64_t age = 0;    ///< seconds since it was last written to
};

/// Sorted by name; those of living writers too. Errors: Error(io) for a folder that cannot be read.
std::vector<Leftover> find_leftovers(const std::filesystem::path& folder);
/// Removes those of dead writers and returns them. Errors: Error(io) for a folder that cannot be read.
std::vector<Leftover> sweep_leftovers(const std::filesystem::path& folder);
/// Folders of such names: checkpoints that are written as a folder (atomic_folder.h), and those to be removed
/// (retention.h).
std::vector<Leftover> find_hidden_folders(const std::filesystem::path& folder);
/// Removes those of dead writers, with all that is in them.
std::vector<Leftover> sweep_hidden_folders(const std::filesystem::path& folder);

namespace detail {

/// The same for a writer that holds `lock` in the open folder: what was left for that very name goes, too, wherever its
/// process was. Never throws: a folder that cannot be swept can still be written to.
void sweep_folder(int folder, const WriterLock& lock);
void sweep_hidden_folders(int folder, const WriterLock& lock);

}  // namespace detail
}  // namespace ckpt

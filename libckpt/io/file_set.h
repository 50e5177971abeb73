#pragma once
// FileSet: a save of several files that are read through one of them, the head (a shard index). Members are written,
// whole and durable, under hidden names; when all are there they get their own names, which are free, then one rename
// puts the new head in place, then what the old head named goes. Killed at any point, the old or the new set is there,
// whole.
// No note of what is going on is kept in the folder, since whoever may write a file there (an archive, a download)
// could write such a note, with every hash in it right. What a killed save leaves is told by its hidden name alone,
// which only we make, and goes with the next save to the folder (leftovers.h). A file of an ordinary name is removed
// only by the very process that made it, when its save fails, or that was told by its caller that it is superseded; and
// only as long as it is the same file. A process killed between two of those renames leaves finished members of
// ordinary names that no index mentions: nothing removes them, a repeated save finds them by their content and uses
// them (keep_member()), and `ckpt doctor` lists them. Internal to libckpt. Thread safety: one owner; the writer lock of
// the head is held meanwhile. Use: FileSet set("m.index.json", {}); set.announce({"m-1.bin"}, old_names, size);
// set.write_member("m-1.bin", size, write); set.commit(index_bytes); for (const std::string& name : set.left())
// ...

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libckpt/io/atomic_file.h"

namespace ckpt {

class FileSet {
 public:
  struct Options {
    bool overwrite = true;  ///< false: Error(io) when the head or a member exists
    bool durable = true;
    Io io = Io::automatic;  ///< of members
    unsigned threads = 0;
  };
  /// Takes the lock and sweeps the folder. Errors: those of AtomicFile.
  FileSet(const std::filesystem::path& head, const Options& options);
  /// Removes the members written so far unless commit() succeeded. Never throws.
  ~FileSet();
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  /// True when nothing of that name lies beside the head.
  bool is_free(const std::string& name) const;
  /// Says what is going to be written (`size` bytes in all) and what is going to be removed: files that the caller
  /// knows to be wholly part of the set that is replaced. REQUIRES: before the first member; plain file names. Errors:
  /// Error(io) for a member that exists, for too little space.
  void announce(const std::vector<std::string>& members, const std::vector<std::string>& superseded,
                std::uint64_t size);
  /// Writes one announced member and makes it durable; `size` as AtomicFile's expected_size.
  void write_member(const std::string& name, std::uint64_t size, const std::function<void(AtomicFile&)>& write);
  /// Counts a file that lies there already, and is as it shall be, among the members: makes it durable. Errors:
  /// Error(io).
  void keep_member(const std::string& name);
  /// Puts members and head in place, then removes those superseded files that are regular files, still the same, and
  /// mentioned by no index beside the head. Only once. Errors: Error(io); the old set is whole unless the message says
  /// that the "durability is unknown".
  void commit(Bytes head);
  /// Superseded files that commit() could not remove, each with the reason.
  const std::vector<std::string>& left() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckpt

#pragma once
// FileSet: a save of several files that are read through one of them, the head (a shard index). Members get names that
// are free, so the present set stays whole until the one rename that puts the new head in place; members of the old set
// go afterwards. Killed at any point, the old or the new set is there, whole; what is left over goes with the next save
// of the same head. Internal to libckpt. Thread safety: one owner; the writer lock of the head is held meanwhile.
// Use: FileSet set("m.index.json", {}); set.announce({"m-1.bin"}, old_names, size); set.write_member("m-1.bin", size,
// write); set.commit(index_text);

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
  };
  /// Takes the lock and removes what a killed save of this head left. Errors: those of AtomicFile.
  FileSet(const std::filesystem::path& head, const Options& options);
  /// Removes the members written so far unless commit() succeeded. Never throws.
  ~FileSet();
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  /// True when nothing of that name lies beside the head.
  bool is_free(const std::string& name) const;
  /// Notes, durably, what is going to be written (`size` bytes in all) and what is going to be removed. REQUIRES:
  /// before the first member; plain file names. Errors: Error(io) for a member that exists, for too little space.
  void announce(const std::vector<std::string>& members, const std::vector<std::string>& superseded,
                std::uint64_t size);
  /// Writes one announced member and makes it durable; `size` as AtomicFile's expected_size.
  void write_member(const std::string& name, std::uint64_t size, const std::function<void(AtomicFile&)>& write);
  /// Puts the head in place, then removes those superseded files that no index beside it mentions. Only once.
  void commit(Bytes head);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckpt

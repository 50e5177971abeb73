#pragma once
// AtomicFolder: a folder that gets its name when all that belongs in it is there. It is filled under a hidden name
// beside its own; commit() makes that durable and puts it in place with one rename, so a reader sees the old folder or
// the new one, whole, also after a power cut. Other processes may write files into the hidden folder meanwhile, each
// durable by itself. One writer a name; what killed writers left goes with the next save of a folder there. Thread
// safety: one owner. Use: AtomicFolder folder("run/step-100.dcp", {}); std::filesystem::path at = folder.hidden();
// folder.commit();

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

namespace ckpt {

class AtomicFolder {
 public:
  struct Options {
    bool overwrite = false;  ///< false: Error(io) when the path is taken, also at commit
    bool durable = true;     ///< false: no fsync; still atomic against a killed process
    /// Which names an old folder may hold that is to be replaced: one with anything else in it is never removed.
    std::function<bool(std::string_view name)> may_replace = {};
  };

  /// Makes the hidden folder. Errors: Error(io) naming the path for a missing parent, no permission, another writer, a
  /// path that is taken; Error(refused) for an old folder that holds what may_replace does not know.
  AtomicFolder(const std::filesystem::path& path, const Options& options);
  /// Removes the hidden folder with all in it unless commit() succeeded. Never throws.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where the files are to be written.
  const std::filesystem::path& hidden() const;
  /// fsync of the hidden folder, rename, fsync of its parent; then the old folder is removed. Errors: Error(io); the
  /// old folder is untouched unless the message says that its "durability is unknown". Only once.
  void commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Where a folder lies that a commit, on a file system without an exchange of names, had moved aside when it was killed
/// between its two renames; `path` itself where there is a file or folder of that name, or nothing was moved aside.
std::filesystem::path moved_aside(const std::filesystem::path& path);

}  // namespace ckpt

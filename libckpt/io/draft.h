#pragma once
// Draft: a file that somebody else writes whole under a hidden name, to be looked at before it gets its own: for names
// that are known only when the file is, and for answers that must not come after the file stands. Hidden drafts of
// killed programs go with the next save to the folder (leftovers.h). Thread safety: one owner.
// Use: Draft draft("net.pth"); ... draft.move_to("net-1a2b3c4d.pth", {});

#include <filesystem>
#include <memory>

#include "libckpt/io/atomic_file.h"

namespace ckpt {

class Draft {
 public:
  /// Chooses a name beside `target`, behind symbolic links. Errors: those of AtomicFile for a place that cannot be
  /// written to.
  explicit Draft(const std::filesystem::path& target);
  /// Removes the file unless move_to() succeeded. Never throws.
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  /// Where the file is to be written; it need not be durable.
  const std::filesystem::path& path() const;
  /// Makes the file durable and gives it its name in one step, with mode, owner and extended attributes of a file that
  /// it replaces. Errors: those of AtomicFile::commit(); nothing was replaced unless the message says that the
  /// "durability is unknown". Only once.
  void move_to(const std::filesystem::path& target, const AtomicFile::Options& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckpt

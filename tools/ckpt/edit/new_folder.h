#pragma once
// A folder that a command makes for its output: there while it works, and gone again when nothing came into it, however
// the program ends. Thread safety: one thread. Use: NewFolder folder("out"); ckpt::save(checkpoint, "out/net.pth");

#include <filesystem>
#include <optional>

#include "libckpt/io/pending_files.h"

namespace cli {

class NewFolder {
 public:
  /// Made with those above it, where it is missing; "" makes none.
  explicit NewFolder(std::filesystem::path path);
  /// Removes it if it is empty and was made here.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

 private:
  std::filesystem::path path_;
  std::optional<ckpt::detail::PendingFolder> pending_;
};

}  // namespace cli

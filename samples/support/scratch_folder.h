#pragma once
// ScratchFolder: a temporary folder to work in, so that a sample writes over nobody's file. It goes with its files.
// Thread safety: one, in one thread, as the working folder is the whole program's.
// Use: samples::ScratchFolder scratch; ckpt::save(net.state_dict(), "net.pth");

#include <filesystem>

namespace samples {

class ScratchFolder {
 public:
  /// Makes it and goes there. std::filesystem::filesystem_error when that fails.
  ScratchFolder();
  /// Goes back and removes it.
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

 private:
  std::filesystem::path before_;
  std::filesystem::path folder_;
};

}  // namespace samples

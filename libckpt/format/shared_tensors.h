#pragma once
// Tensors that several native files of one folder share: a file names the other one, which holds them, and knows each
// of them by the hash of its bytes. Thread safety: pure functions. Use: ckpt::save(ckpt::sharing(checkpoint,
// {"runs/a/step-000000100.ckpt"}), "runs/a/step-000000200.ckpt");

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

/// `checkpoint`, which saved as .ckpt does not hold again the tensors (from 4 KiB on) that `files` hold or name, bit
/// for bit, when these lie in the folder of the target. What cannot be read of them is not shared. To be saved as it
/// is: a transform may forget it. Errors of that save: Error(usage) when parity data is asked for as well, which covers
/// one file.
Checkpoint sharing(const Checkpoint& checkpoint, std::vector<std::filesystem::path> files);

/// A file in the same folder that holds tensors of another one.
struct NeededFile {
  std::string name;
  std::uint64_t tensors = 0;  ///< that differ in their bytes
  std::uint64_t bytes = 0;    ///< of them
};

/// What the file at `path` needs beside itself; empty for what is no native file or has no readable index, through
/// which nothing of another file could be found.
std::vector<NeededFile> needed_files(const std::filesystem::path& path);

}  // namespace ckpt

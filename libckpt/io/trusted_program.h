#pragma once
// Whether a program that this one starts as a helper can only have been put there by the user or root.
// Thread safety: pure, apart from what is on the disk. Use: if (!program_fault(path).empty()) ...

#include <filesystem>
#include <string>

namespace ckpt {

/// Why the program at `path` must not be started, "" when it may: it is missing, is not a regular file, may not be
/// executed, belongs to another user than this one and root, or lies where others may write.
std::string program_fault(const std::filesystem::path& path);

}  // namespace ckpt

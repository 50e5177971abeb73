#pragma once
// Files that are packed in another one: gzip, bzip2, xz, zstd, tar, and zip archives that hold a checkpoint as a
// member. Thread safety: pure. Use: if (auto command = unpack_command(path, file, head)) std::cout << *command;

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// The shell line that unpacks it and looks at what comes out; members are named where their list is cheap to read.
/// Nothing when it is not packed in one of these ways. Never throws.
std::optional<std::string> unpack_command(const std::filesystem::path& path, const SourcePtr& file,
                                          std::string_view head);

}  // namespace ckpt::detail

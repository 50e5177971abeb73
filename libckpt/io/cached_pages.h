#pragma once
// What the system keeps of a file in memory. Internal to libckpt. Thread safety: any thread. Use:
// drop_cached_pages("net.ckpt");  // what is read next comes from the disk

#include <filesystem>

namespace ckpt::detail {

/// Asks the system to forget the pages of a regular file that it has in memory, or of all files of a folder, so that
/// the next reader gets what the disk has. Pages that are not written back yet stay, and so do those that others map.
/// Never throws: it is a wish.
void drop_cached_pages(const std::filesystem::path& path);

}  // namespace ckpt::detail

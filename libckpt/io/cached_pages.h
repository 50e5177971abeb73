#pragma once
// What the system keeps of a file in memory. Internal to libckpt. Thread safety: any thread. Use:
// drop_cached_pages("net.ckpt");  // what is read next comes from the disk

#include <cstdint>
#include <filesystem>
#include <vector>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// Asks the system to forget the pages of a regular file that it has in memory, or of all files of a folder, so that
/// the next reader gets what the disk has. Pages that are not written back yet stay, and so do those that others map.
/// Never throws: it is a wish.
void drop_cached_pages(const std::filesystem::path& path);

/// Asks a disk for the pages at all of `offsets` at once, which are then read one after the other: each read alone
/// would wait for the disk. Nothing is asked where the bytes are in memory already. Never throws: it is a wish.
void ask_for_pages_at(const ByteSource& file, const std::vector<std::uint64_t>& offsets);

}  // namespace ckpt::detail

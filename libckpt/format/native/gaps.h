#pragma once
// What lies between the parts of a native file that its index knows: padding, and what nothing uses any more.
// Thread safety: pure. Use: for (const FileGap& gap : find_gaps(*open_native(input, limits))) ...

#include <cstdint>
#include <vector>

#include "libckpt/format/native/opened_file.h"

namespace ckpt::detail {

/// Counted from the end of the user block.
struct FileGap {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::vector<FileGap> find_gaps(const OpenedNative& file);

/// Bytes in gaps, without the padding that a file has that is written afresh. Errors: those of open_native().
std::uint64_t native_unused_bytes(const Input& input);

}  // namespace ckpt::detail

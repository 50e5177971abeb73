#pragma once
// How the bytes of a tensor are packed in its file. Thread safety: pure. Errors: none. Use:
// std::string_view codec = codec_of(*entry);

#include <string_view>

#include "libckpt/entry.h"

namespace ckpt {

/// "zstd", "gzip" or "fast" for a tensor of a native file that is packed alone, else "none".
std::string_view codec_of(const Entry& entry);

}  // namespace ckpt

#pragma once
// A file whose bytes lie in memory: mapped, so that nothing is copied. Internal to libckpt. Thread safety: as every
// source. Use: SourcePtr file = reached(open_file(path), Io::automatic, Residency::mapped);

#include "libckpt/io/byte_source.h"
#include "libckpt/io/page_cache_use.h"

namespace ckpt::detail {

/// `file` as it is to be read. What cannot be mapped (no file, an empty one, an edit that goes on, no address space) is
/// read as usual.
SourcePtr reached(SourcePtr file, Io io, Residency residency);

}  // namespace ckpt::detail

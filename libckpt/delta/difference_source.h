#pragma once
// The exclusive or of two runs of bytes, computed while it is read. Internal.
// Thread safety: may be read from many threads. Use: SourcePtr changed = difference_source(after, before, "base.pth");

#include <string>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// `file`: where `b` comes from, the context of errors in reading it; "" for memory. REQUIRES: both are equally large.
SourcePtr difference_source(SourcePtr a, SourcePtr b, std::string file);

}  // namespace ckpt::detail

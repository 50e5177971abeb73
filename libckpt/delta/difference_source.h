#pragma once
// The exclusive or of two runs of bytes, computed while it is read. Internal.
// Thread safety: may be read from many threads. Use: SourcePtr changed = difference_source(after, before);

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// REQUIRES: both are equally large.
SourcePtr difference_source(SourcePtr a, SourcePtr b);

}  // namespace ckpt::detail

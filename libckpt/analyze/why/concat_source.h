#pragma once
// Several runs of bytes one behind the other, as one. Nothing is read before it is asked for.
// Thread safety: as its parts. Use: SourcePtr whole = concat({first, second});

#include <vector>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// REQUIRES: the sizes add up without overflow.
SourcePtr concat(std::vector<SourcePtr> parts);

}  // namespace ckpt::detail

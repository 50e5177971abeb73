#pragma once
// JoinedSource: runs of bytes one behind the other as one. Thread safety: as the parts.
// Use: SourcePtr whole = joined({slice(file, 0, 8), slice(file, 100, 8)});

#include <vector>

#include "libckpt/io/byte_source.h"

namespace ckpt {

/// The bytes of all parts in order. Of one part that part itself. Errors of read(): as those of the parts.
SourcePtr joined(std::vector<SourcePtr> parts);

}  // namespace ckpt

#pragma once
// side_by_side: matrices with the same rows as one, each a strip of its columns. Internal to libckpt/format/megatron.
// Thread safety: as the parts. Use: SourcePtr whole = side_by_side({left, right}, 4096, {2048, 2048});

#include <vector>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// `widths`: bytes of a row of each. REQUIRES: each part has `rows` rows of its width; no width is 0.
SourcePtr side_by_side(std::vector<SourcePtr> parts, std::uint64_t rows, std::vector<std::uint64_t> widths);

}  // namespace ckpt::detail

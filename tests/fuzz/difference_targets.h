#pragma once
// Fuzz targets of differences between checkpoints, and seeds of them, which no golden file has. Thread safety: one
// thread. Use: run_predicted_part(core::as_bytes(predicted_parts().front()));

#include <string_view>
#include <vector>

#include "libckpt/io/byte_source.h"

namespace fuzz {

/// A part of a tensor whose words are foretold, whatever its checksums.
void run_predicted_part(core::Bytes bytes);
/// Such parts: of few words, with factors of low rank, of two blocks.
std::vector<std::string_view> predicted_parts();

/// What a native file keeps without the zeros behind it: one tensor of two parts, most of which are zeros.
ckpt::SourcePtr trimmed_bytes();

}  // namespace fuzz

#pragma once
// Reads a `.metadata` as torch.distributed.checkpoint and this library write it, while it goes by: millions of pieces
// become rows of numbers at once, and nothing else of them is kept. Thread safety: pure.
// Use: std::optional<DcpMetadata> read = stream_dcp_metadata(*file, options);

#include <optional>

#include "libckpt/format/dcp/metadata.h"

namespace ckpt::detail {

/// nullopt for every other pickle, and for a damaged one: read_dcp_metadata() then says what is wrong with it. What is
/// read is what that would read. Errors: Error(io) of the file alone.
std::optional<DcpMetadata> stream_dcp_metadata(const ByteSource& file, const OpenOptions& options);

}  // namespace ckpt::detail

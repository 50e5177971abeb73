#pragma once
// The `.metadata` of a distributed checkpoint as torch.distributed.checkpoint reads it. The same metadata give the same
// bytes. Thread safety: pure. Use: core::ByteVector bytes = encode_dcp_metadata(metadata);

#include "libckpt/format/dcp/metadata.h"

namespace ckpt::detail {

/// A pickle of protocol 2. REQUIRES: dtypes that torch_can_hold(); a place for every chunk with elements and every
/// other item.
core::ByteVector encode_dcp_metadata(const DcpMetadata& metadata);

}  // namespace ckpt::detail

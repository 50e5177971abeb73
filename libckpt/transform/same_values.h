#pragma once
// Whether two entries hold the same values, bit for bit. Internal; stops at the first difference.
// Thread safety: pure. Use: if (same_values(a, b)) ...

#include "libckpt/entry.h"

namespace ckpt::detail {

/// Same dtype, shape, flags and bytes; two tensors without bytes are the same.
bool same_values(const Entry& a, const Entry& b);
/// The bytes of both, read in parts of 1 MiB.
bool same_bytes(const ByteSource& a, const ByteSource& b);

}  // namespace ckpt::detail

#pragma once
// Whether the values of an opened file are those that were written: `why` promises nothing of others.
// Thread safety: pure. Use: add_damage(diagnosis, checkpoint, options.open.limits);

#include "libckpt/analyze/why.h"

namespace ckpt::detail {

/// Reads every tensor, which compares it with the checksum that the file has; the first that differs is the first
/// cause. Of a file with more than Limits::max_checked a note says that it was not read. Errors: Error(io).
void add_damage(Diagnosis& diagnosis, const Checkpoint& checkpoint, const Limits& limits);

}  // namespace ckpt::detail

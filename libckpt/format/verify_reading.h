#pragma once
// Verification of formats without checksums: that their structure holds was shown by opening them, what is left is that
// every byte can be read. Internal to format. Thread safety: pure.
// Use: return verify_by_reading(read(input, options).root, progress);

#include "libckpt/options.h"
#include "libckpt/value.h"

namespace ckpt::detail {

/// Reads all tensors. Errors: those of their sources.
VerifyResult verify_by_reading(const Value& root, const Progress& progress);

}  // namespace ckpt::detail

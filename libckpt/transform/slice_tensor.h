#pragma once
// slice: a window of a tensor as Python writes it: "0:5", "-1, :, ::2". Nothing is read before the result is.
// Thread safety: pure. Use: ckpt::EntryPtr rows = ckpt::sliced(entry, "0:5, :");

#include <string_view>

#include "libckpt/entry.h"

namespace ckpt {

/// One part a dimension, from the first; dimensions that are not named stay whole. An index takes its dimension away, a
/// range clips as in Python; steps are positive. Errors: Error(usage) for text that is no slice; Error(value) for too
/// many parts and an index past the end; Error(unsupported) for elements smaller than a byte and packed blocks.
EntryPtr sliced(const Entry& entry, std::string_view spec);

}  // namespace ckpt

#pragma once
// Tensors whose values, not only names and layout, differ between transformers and llama.cpp. Internal to libckpt/hub.
// Thread safety: pure; what is made may be read from many threads. Use: EntryPtr norm = plus(*entry, 1);

#include "libckpt/entry.h"

namespace ckpt::detail {

/// Every value and `number`, as float32; of f16 the sum is rounded to f16 first, as PyTorch has it. Errors:
/// Error(unsupported) for blocks and types that cannot be cast.
EntryPtr plus(const Entry& entry, float number);

/// Without the first `rows` rows. Error(value) when there are not more.
EntryPtr without_rows(const Entry& entry, std::int64_t rows);

/// With `rows` rows of zeros before its own.
EntryPtr with_zero_rows(const Entry& entry, std::int64_t rows);

}  // namespace ckpt::detail

#pragma once
// What same_view() compares, as a key: aliases among many names are found by looking them up instead of comparing every
// one with every other. Thread safety: pure. Use: if (!seen.insert(view_key(entry)).second) continue;

#include <cstdint>
#include <tuple>
#include <vector>

#include "libckpt/entry.h"

namespace ckpt::detail {

/// Storage, type, shape, whether conjugated and negated, offset and strides.
using ViewKey = std::tuple<const void*, core::DType, std::vector<std::int64_t>, bool, bool, std::int64_t,
                           std::vector<std::int64_t>>;

/// Equal for two entries where same_view() of them is true, and for no others. REQUIRES: storage_identity is not null
/// (a tensor without data is no alias of another).
ViewKey view_key(const Entry& entry);

}  // namespace ckpt::detail

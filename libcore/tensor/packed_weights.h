#pragma once
// Data derived from the bytes of a tensor and kept for the next time, as the weights of a convolution in the order that
// its kernel works in. An entry counts only while the bytes are the ones it was made from (StorageImpl::writes), and
// goes with the storage. Of memory that a caller lent (from_blob) nothing is kept: it may change without a word.
// Thread safety: all functions.
// Use: auto bytes = packed_weights::find_or_pack(weight, key, count, [&](float* to) { reorder(weight, to); });
//      if (bytes) use(bytes->data());

#include <cstdint>
#include <functional>
#include <string_view>

#include "libcore/tensor/blocked_layout.h"

namespace core::packed_weights {

/// The `count` floats that `make(to)` wrote for this `key` (any bytes) since the bytes of `source` last changed.
blocked::Bytes find_or_pack(const Tensor& source, std::string_view key, std::int64_t count,
                            const std::function<void(float*)>& make);

/// The caller may write into these bytes behind every tensor: what is made of them holds for one call.
void never_keep(const Storage& lent);

/// Whether what is made of the bytes of `storage` may be used again while StorageImpl::writes is the same.
bool may_keep(const StorageImpl* storage);

/// Another number whenever a storage goes of which something was kept: what others kept by its address is void then.
std::uint64_t forgotten();

/// Forgets all of `storage`. For StorageImpl::destroy.
void forget(const StorageImpl* storage) noexcept;

}  // namespace core::packed_weights

#pragma once
// What the layout message of a dataset in chunks says of its elements, which libhdf5 reads and does not compare with
// the type. Thread safety: one thread. Use: if (auto width = element_in_layout(dataset, file)) ...

#include <cstdint>
#include <optional>

#include "libckpt/hdf5/helper/file_driver.h"

namespace ckpt::detail {

/// Bytes of an element as the layout message (version 3) in an object header of version 1 says; nullopt when the
/// headers are of another kind.
std::optional<std::uint64_t> element_in_layout(hid_t dataset, ReadOnlyFile& file);

}  // namespace ckpt::detail

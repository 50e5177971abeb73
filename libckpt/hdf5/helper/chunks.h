#pragma once
// Where the chunks of a dataset lie. libhdf5 1.10 lists chunks in quadratic time, so they are looked up one by one, and
// the driver notes the address that a read of each would have. Thread safety: one thread.
// Use: put_chunks(dataset, creation_list, dims, file, out);

#include <hdf5.h>

#include <vector>

#include "libckpt/hdf5/helper/file_driver.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// Appends the layout: sizes of a chunk, filters, chunks that are stored.
void put_chunks(hid_t dataset, hid_t list, const std::vector<hsize_t>& dims, ReadOnlyFile& file, core::ByteVector& out);

}  // namespace ckpt::detail

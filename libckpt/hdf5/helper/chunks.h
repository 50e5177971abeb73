#pragma once
// Where the chunks of a dataset lie. libhdf5 1.10 lists chunks in quadratic time, so they are looked up one by one, and
// the driver notes the address that a read of each would have. Thread safety: one thread.
// Use: put_chunks(dataset, {creation_list, dims, width}, file, out);

#include <hdf5.h>

#include <cstdint>
#include <vector>

#include "libckpt/hdf5/helper/file_driver.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

struct ChunkedShape {
  hid_t list;  ///< creation list of the dataset
  const std::vector<hsize_t>& dims;
  std::uint64_t width;  ///< bytes of an element
};

/// Appends the layout: sizes of a chunk, filters, chunks that are stored. Throws Failure(corrupt) for filters whose
/// parameters libhdf5 would not accept either.
void put_chunks(hid_t dataset, const ChunkedShape& shape, ReadOnlyFile& file, core::ByteVector& out);

}  // namespace ckpt::detail

#pragma once
// A dataset as the parent needs it: type, shape, fill value and where every byte lies. Nothing outside the file is
// touched and no tensor byte is read, compact data excepted. Thread safety: one thread.
// Use: put_dataset(dataset, file, reply.content());

#include <hdf5.h>

#include "libckpt/hdf5/helper/file_driver.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// Appends type, space and layout. `file` is what the dataset's file is read through.
void put_dataset(hid_t dataset, ReadOnlyFile& file, core::ByteVector& out);

}  // namespace ckpt::detail

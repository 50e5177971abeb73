#pragma once
// The HDF5 types under which tensors are written. Thread safety: one thread. Use: Handle type =
// make_type(core::DType::f32);

#include "libckpt/hdf5/helper/handle.h"
#include "libcore/base/dtype.h"

namespace ckpt::detail {

/// Unsigned bytes for what HDF5 has no type for.
Handle make_type(core::DType dtype);

}  // namespace ckpt::detail

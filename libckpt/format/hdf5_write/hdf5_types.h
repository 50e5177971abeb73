#pragma once
// How a tensor appears to HDF5: the shape of its dataset and the width of its elements. Types that HDF5 cannot express
// are raw bytes, with the true type (and, where elements are no single byte, the true shape) in attributes.
// Thread safety: pure functions. Use: Hdf5Form form = hdf5_form(entry.dtype, entry.shape);

#include <cstdint>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

struct Hdf5Form {
  std::vector<std::uint64_t> dims;
  std::uint32_t width = 1;   ///< bytes of an HDF5 element
  bool named_dtype = false;  ///< HDF5's type does not say the dtype: attribute ckpt_dtype
  bool flattened = false;    ///< dims are not the tensor's shape: attribute ckpt_shape
};

/// REQUIRES: the shape has a whole number of bytes.
Hdf5Form hdf5_form(core::DType dtype, const core::Shape& shape);

/// True when the bits go into HDF5 as plain unsigned bytes.
bool is_raw_in_hdf5(core::DType dtype);

}  // namespace ckpt::detail

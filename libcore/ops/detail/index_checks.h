#pragma once
// Checks of dtypes that scatter, index_add and their forms in place share. Internal to ops.

#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Error(runtime) of scatter and its kin, and of index_add, for values of another dtype.
void check_scatter_dtype(const Tensor& x, const Tensor& from);
void check_index_add_dtype(const Tensor& x, const Tensor& from);

}  // namespace core::detail

#pragma once
// What the raw neural-network operations share: dense inputs, one device, calling a slot.
// Thread safety: pure functions. Internal to ops.

#include <initializer_list>
#include <string>
#include <utility>

#include "libcore/backend/backend.h"
#include "libcore/backend/nn_table.h"
#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/tensor.h"

namespace core::raw::kernel {

/// The values in dense row-major order; the tensor itself when it is so already or undefined.
inline Tensor dense(const Tensor& x) {
  return x.defined() ? contiguous(x) : x;
}
/// Uninitialised, of x's dtype and device.
inline Tensor empty_as(const Tensor& x, const Shape& sizes) {
  return make(sizes, x.dtype(), backend_of(x));
}
/// Whether there are kernels for images like x whose channels lie last.
bool takes_channels_last(const Tensor& x);
/// How x lies, and the result of an operation that keeps it: channels_last where x suggests that and there are kernels
/// for it.
ImageOrder order_of(const Tensor& x);
/// The two above for images whose channels lie so. REQUIRES: of channels_last, four dimensions.
Tensor dense(const Tensor& x, ImageOrder order);
Tensor empty_as(const Tensor& x, const Shape& sizes, ImageOrder order);
/// Error "Expected all tensors to be on the same device ..." unless all defined ones are where `x` is.
void check_devices(const Tensor& x, std::initializer_list<const Tensor*> others);

/// PyTorch's text for a kernel that is missing for one dtype: "nll_loss" not implemented for 'Long'.
[[noreturn]] void throw_not_implemented(const char* operation, DType dtype);

inline const void* data_or_null(const Tensor& x) {
  return x.defined() ? x.raw_data() : nullptr;
}
inline void* output_or_null(const Tensor& x) {
  return x.defined() ? x.mutable_raw_data() : nullptr;
}

/// Whether `x` has bytes to compute on (a meta tensor has not).
inline bool has_bytes(const Tensor& x) {
  return backend_of(x).has_memory();
}

/// Calls the slot of x's device and dtype in the row `member` of its table.
template <class Row, class Params>
void run(const char* operation, const Tensor& x, Row NnTable::*member, Params&& params) {
  const NnTable* table = backend_of(x).ops().nn;
  const auto kernel = table ? (table->*member)[static_cast<std::size_t>(x.dtype())] : nullptr;
  if (!kernel) throw_unsupported(operation, backend_of(x), x.dtype());
  kernel(params);
}

/// The element type as PyTorch's C++ messages name it: "double", "c10::Half".
const char* c_type_name(DType dtype);
}  // namespace core::raw::kernel

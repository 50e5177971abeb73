#pragma once
// What the raw neural-network operations share: dense inputs, one device, calling a slot.
// Thread safety: pure functions. For raw_nn_*.cpp alone.

#include <string>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/backend.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/nn_table.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core::raw::detail {

/// The values in dense row-major order; the tensor itself when it is so already. No history.
Tensor dense(const Tensor& x);
/// Uninitialised, of x's dtype and device.
Tensor empty_as(const Tensor& x, const Shape& sizes);
/// Error "Expected all tensors to be on the same device ..." unless all defined ones are where `x` is.
void check_devices(const Tensor& x, std::initializer_list<const Tensor*> others);
[[noreturn]] void throw_no_kernel(const char* operation, const Tensor& x);

inline const void* data_or_null(const Tensor& x) {
  return x.defined() ? x.raw_data() : nullptr;
}
inline void* output_or_null(const Tensor& x) {
  return x.defined() ? x.mutable_raw_data() : nullptr;
}

/// Whether `x` has bytes to compute on (a meta tensor has not).
inline bool has_bytes(const Tensor& x) {
  return x.storage()->backend().has_memory();
}

/// Calls the slot of x's device and dtype in the row `member` of its table.
template <class Row, class Params>
void run(const char* operation, const Tensor& x, Row NnTable::*member, Params&& params) {
  const NnTable* table = x.storage()->backend().ops().nn;
  const auto kernel = table ? (table->*member)[static_cast<std::size_t>(x.dtype())] : nullptr;
  if (!kernel) throw_no_kernel(operation, x);
  kernel(params);
}

/// The element type as PyTorch's C++ messages name it: "double", "c10::Half".
const char* c_type_name(DType dtype);
/// A negative dimension counted from the end. Error(index) "Dimension out of range ...".
std::int64_t wrap_dim(std::int64_t dim, std::int64_t ndim);

}  // namespace core::raw::detail

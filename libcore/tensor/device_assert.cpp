#include "libcore/tensor/device_assert.h"

#include "libcore/backend/backend.h"
#include "libcore/base/error.h"
#include "libcore/ops/index.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/index.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/reduce.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

bool asserts_later(const Tensor& x) {
  const Backend& backend = raw::backend_of(x);
  return !backend.is_host_memory() && backend.has_memory();
}

/// Kernels that pick by an index raise the flag of their device when it is out of range: here that of the second
/// element of one.
void assert_none(const Tensor& bad) {
  const Tensor index = raw::cast(raw::reduce(ReduceOp::any, bad, {}), DType::i64);
  const Tensor only = raw::make(Shape{1}, DType::boolean, raw::backend_of(bad));
  try {
    raw::index_select(only, 0, raw::view(index, Shape{1}, Shape{1}, 0));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::index) throw;
    throw Error(ErrorCode::device,
                "CUDA error: device-side assert triggered");  // a simulated device that knows at once
  }
}

}  // namespace core::detail

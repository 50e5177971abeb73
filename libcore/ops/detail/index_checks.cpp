#include "libcore/ops/detail/index_checks.h"

#include <string>

#include "libcore/base/error.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core {
void detail::check_scatter_dtype(const Tensor& x, const Tensor& from) {
  if (x.dtype() == from.dtype()) return;
  throw Error(ErrorCode::runtime, "scatter(): Expected self.dtype to be equal to src.dtype");
}
void detail::check_index_add_dtype(const Tensor& x, const Tensor& from) {
  if (x.dtype() == from.dtype()) return;
  throw Error(ErrorCode::runtime, std::string("index_add_(): self (") + scalar_type_name(x.dtype()) + ") and source (" +
                                      scalar_type_name(from.dtype()) + ") must have the same scalar type");
}

}  // namespace core

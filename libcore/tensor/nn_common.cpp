#include "libcore/tensor/nn_common.h"

#include <algorithm>

namespace core::raw::detail {

Tensor dense(const Tensor& x) {
  if (!x.defined() || x.is_contiguous()) return x;
  const NoGradGuard no_history;
  return x.contiguous();
}

Tensor empty_as(const Tensor& x, const Shape& sizes) { return empty(sizes, {.dtype = x.dtype(), .device = x.device()}); }

void check_devices(const Tensor& x, std::initializer_list<const Tensor*> others) {
  for (const Tensor* other : others) {
    if (!other->defined() || other->device() == x.device()) continue;
    if (x.is_meta() || other->is_meta()) {
      throw Error(ErrorCode::runtime, "Tensor on device " + other->device().str() +
                                          " is not on the expected device " + x.device().str() + "!");
    }
    throw Error(ErrorCode::runtime, "Expected all tensors to be on the same device, but found at least two devices, " +
                                        x.device().str() + " and " + other->device().str() + "!");
  }
}

void throw_no_kernel(const char* operation, const Tensor& x) {
  throw Error(ErrorCode::not_implemented,
              "\"" + std::string(operation) + "\" not implemented for '" + scalar_type_name(x.dtype()) + "'");
}

const char* c_type_name(DType dtype) {
  switch (dtype) {
    case DType::boolean: return "bool";
    case DType::u8: return "unsigned char";
    case DType::i8: return "signed char";
    case DType::i16: return "short int";
    case DType::i32: return "int";
    case DType::i64: return "long int";
    case DType::f16: return "c10::Half";
    case DType::bf16: return "c10::BFloat16";
    case DType::f32: return "float";
    case DType::f64: return "double";
    default: return scalar_type_name(dtype);
  }
}

std::int64_t wrap_dim(std::int64_t dim, std::int64_t ndim) {
  const std::int64_t limit = std::max<std::int64_t>(ndim, 1);
  if (dim < -limit || dim >= limit) {
    throw Error(ErrorCode::index, "Dimension out of range (expected to be in range of [" + std::to_string(-limit) + ", " +
                                      std::to_string(limit - 1) + "], but got " + std::to_string(dim) + ")");
  }
  return dim < 0 ? dim + limit : dim;
}

}  // namespace core::raw::detail

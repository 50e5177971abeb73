#include "libcore/tensor/nn_common.h"

namespace core::raw::detail {

void check_devices(const Tensor& x, std::initializer_list<const Tensor*> others) {
  for (const Tensor* other : others) {
    if (!other->defined() || other->device() == x.device()) continue;
    throw Error(ErrorCode::runtime, mixed_device_text(backend_of(x), backend_of(*other)));
  }
}

void throw_not_implemented(const char* operation, DType dtype) {
  throw Error(ErrorCode::not_implemented,
              "\"" + std::string(operation) + "\" not implemented for '" + scalar_type_name(dtype) + "'");
}

const char* c_type_name(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::u8:
      return "unsigned char";
    case DType::i8:
      return "signed char";
    case DType::i16:
      return "short int";
    case DType::i32:
      return "int";
    case DType::i64:
      return "long int";
    case DType::f16:
      return "c10::Half";
    case DType::bf16:
      return "c10::BFloat16";
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    default:
      return scalar_type_name(dtype);
  }
}

}  // namespace core::raw::detail

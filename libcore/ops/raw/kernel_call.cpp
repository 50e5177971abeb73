#include "libcore/ops/raw/kernel_call.h"

#include <string>

#include "libcore/backend/op_tables.h"
#include "libcore/base/error.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"

namespace core::raw::kernel {

void check_devices(const Tensor& x, std::initializer_list<const Tensor*> others) {
  for (const Tensor* other : others) {
    if (!other->defined() || other->device() == x.device()) continue;
    throw Error(ErrorCode::runtime, mixed_device_text(backend_of(x), backend_of(*other)));
  }
}

bool takes_channels_last(const Tensor& x) {
  if (!has_bytes(x)) return false;
  const NnTable* table = backend_of(x).ops().nn;
  return table != nullptr && table->takes_channels_last;
}

ImageOrder order_of(const Tensor& x) {
  const bool last = takes_channels_last(x) && suggested_format(x) == MemoryFormat::channels_last;
  return last ? ImageOrder::channels_last : ImageOrder::channels_first;
}

Tensor dense(const Tensor& x, ImageOrder order) {
  if (order == ImageOrder::channels_first) return dense(x);
  return x.is_contiguous(MemoryFormat::channels_last) ? x : formatted(x, MemoryFormat::channels_last);
}

Tensor empty_as(const Tensor& x, const Shape& sizes, ImageOrder order) {
  if (order == ImageOrder::channels_first) return empty_as(x, sizes);
  return make_strided(sizes, strides_of(MemoryFormat::channels_last, sizes), x.dtype(), backend_of(x));
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

}  // namespace core::raw::kernel

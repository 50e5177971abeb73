#include "libckpt/hdf5/helper/tensor_types.h"

#include <utility>

namespace ckpt::detail {
namespace {

using core::DType;

struct FloatLayout {
  std::size_t size, exponent_at, exponent_bits, mantissa_bits, bias;
};

Handle float_type(const FloatLayout& layout) {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  require_hdf5(
      H5Tset_fields(type.get(), layout.size * 8 - 1, layout.exponent_at, layout.exponent_bits, 0, layout.mantissa_bits),
      "a type");
  require_hdf5(H5Tset_ebias(type.get(), layout.bias), "a type");
  require_hdf5(H5Tset_precision(type.get(), layout.size * 8), "a type");
  require_hdf5(H5Tset_size(type.get(), layout.size), "a type");
  return type;
}

Handle boolean_type() {
  Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  const std::int8_t no = 0;
  const std::int8_t yes = 1;
  require_hdf5(H5Tenum_insert(type.get(), "FALSE", &no), "a type");
  require_hdf5(H5Tenum_insert(type.get(), "TRUE", &yes), "a type");
  return type;
}

Handle complex_type(hid_t part) {
  std::size_t size = H5Tget_size(part);
  Handle type(H5Tcreate(H5T_COMPOUND, 2 * size), H5Tclose);
  require_hdf5(H5Tinsert(type.get(), "r", 0, part), "a type");
  require_hdf5(H5Tinsert(type.get(), "i", size, part), "a type");
  return type;
}

Handle copied(hid_t type) {
  return {H5Tcopy(type), H5Tclose};
}

}  // namespace

Handle make_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return boolean_type();
    case DType::i8:
    case DType::qint8:
      return copied(H5T_STD_I8LE);
    case DType::i16:
      return copied(H5T_STD_I16LE);
    case DType::i32:
    case DType::qint32:
      return copied(H5T_STD_I32LE);
    case DType::i64:
      return copied(H5T_STD_I64LE);
    case DType::u16:
      return copied(H5T_STD_U16LE);
    case DType::u32:
      return copied(H5T_STD_U32LE);
    case DType::u64:
      return copied(H5T_STD_U64LE);
    case DType::f16:
      return float_type({2, 10, 5, 10, 15});
    case DType::bf16:
      return float_type({2, 7, 8, 7, 127});
    case DType::f32:
      return copied(H5T_IEEE_F32LE);
    case DType::f64:
      return copied(H5T_IEEE_F64LE);
    case DType::c64:
      return complex_type(H5T_IEEE_F32LE);
    case DType::c128:
      return complex_type(H5T_IEEE_F64LE);
    default:
      return copied(H5T_STD_U8LE);
  }
}

}  // namespace ckpt::detail

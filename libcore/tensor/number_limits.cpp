#include "libcore/tensor/number_limits.h"

#include <cmath>
#include <ostream>
#include <sstream>

#include "libcore/base/fail.h"
#include "libcore/tensor/factory.h"

namespace core {
namespace {

using detail::fail;

/// How wide the fields of a type are: what all its limits follow from.
struct Fields {
  int mantissa_bits;    ///< behind the point
  int lowest_exponent;  ///< of a normal number
  double max;
  double resolution;
};

DType part_of(DType dtype) {
  return dtype == DType::c32    ? DType::f16
         : dtype == DType::c64  ? DType::f32
         : dtype == DType::c128 ? DType::f64
                                : dtype;
}

Fields fields_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {52, -1022, 0x1.fffffffffffffp1023, 1e-15};
    case DType::f32:
      return {23, -126, 0x1.fffffep127, 1e-6};
    case DType::f16:
      return {10, -14, 65504, 1e-3};
    case DType::bf16:
      return {7, -126, 0x1.fep127, 1e-2};
    case DType::f8_e4m3fn:
      return {3, -6, 448, 1};
    case DType::f8_e5m2:
      return {2, -14, 57344, 1};
    case DType::f8_e4m3fnuz:
      return {3, -7, 240, 1};
    case DType::f8_e5m2fnuz:
      return {2, -15, 57344, 1};
    case DType::f8_e8m0fnu:
      return {0, -127, 0x1p127, 1};
    default:
      fail("torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'",
           ErrorCode::type);
  }
}

}  // namespace

finfo::finfo() : finfo(default_dtype()) {}

finfo::finfo(DType of) : dtype(part_of(of)) {
  const Fields fields = fields_of(dtype);
  bits = bit_width(dtype);
  eps = std::ldexp(1.0, -fields.mantissa_bits);
  max = fields.max;
  smallest_normal = std::ldexp(1.0, fields.lowest_exponent);
  min = dtype == DType::f8_e8m0fnu ? smallest_normal : -max;  // it has no sign
  tiny = smallest_normal;
  resolution = fields.resolution;
}

std::string finfo::str() const {
  std::ostringstream text;
  text << "finfo(resolution=" << resolution << ", min=" << min << ", max=" << max << ", eps=" << eps
       << ", smallest_normal=" << smallest_normal << ", tiny=" << tiny << ", dtype=" << name(dtype) << ')';
  return text.str();
}

iinfo::iinfo(DType of) : bits(bit_width(of)), dtype(of) {
  if (of == DType::boolean) fail("torch.bool is not supported by torch.iinfo", ErrorCode::type);
  if (!is_integer(of)) {
    fail("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'", ErrorCode::type);
  }
  const bool is_signed = of == DType::i8 || of == DType::i16 || of == DType::i32 || of == DType::i64;
  max = ~std::uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0));
  min = is_signed ? -static_cast<std::int64_t>(max) - 1 : 0;
}

std::string iinfo::str() const {
  std::ostringstream text;
  text << "iinfo(min=" << static_cast<double>(min) << ", max=" << static_cast<double>(max) << ", dtype=" << name(dtype)
       << ')';
  return text.str();
}

std::ostream& operator<<(std::ostream& out, const finfo& info) {
  return out << info.str();
}
std::ostream& operator<<(std::ostream& out, const iinfo& info) {
  return out << info.str();
}

}  // namespace core

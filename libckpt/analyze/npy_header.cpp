#include "libckpt/analyze/npy_header.h"

#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::DType;

std::string descriptor(const Entry& entry) {
  switch (entry.blocks ? DType::bits8 : entry.dtype) {
    case DType::boolean:
      return "|b1";
    case DType::u8:
      return "|u1";
    case DType::i8:
      return "|i1";
    case DType::i16:
      return "<i2";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::u16:
      return "<u2";
    case DType::u32:
      return "<u4";
    case DType::u64:
      return "<u8";
    case DType::f16:
      return "<f2";
    case DType::f32:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::c64:
      return "<c8";
    case DType::c128:
      return "<c16";
    default:
      throw core::Error(core::ErrorCode::unsupported,
                        "numpy has no type " + type_name(entry) + "; cast it, for example to float32");
  }
}

}  // namespace

std::string npy_header(const Entry& entry) {
  std::string shape = core::to_list(entry.shape);
  shape = "(" + shape.substr(1, shape.size() - 2) + (entry.shape.size() == 1 ? ",)" : ")");
  std::string text = "{'descr': '" + descriptor(entry) + "', 'fortran_order': False, 'shape': " + shape + ", }";
  std::size_t before = 10;  // magic, version and length
  text.append(64 - (before + text.size() + 1) % 64, ' ');
  text += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size() & 255U);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

}  // namespace ckpt

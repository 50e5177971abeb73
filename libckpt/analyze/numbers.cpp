#include "libckpt/analyze/numbers.h"

#include <cmath>
#include <limits>

#include "libckpt/transform/cast_values.h"
#include "libcore/base/half.h"

namespace ckpt::detail {
namespace {

using core::DType;

/// The plain type whose numbers an element of `dtype` is made of; nothing for other types.
std::optional<DType> part_type(DType dtype) {
  switch (dtype) {
    case DType::c32:
      return DType::f16;
    case DType::c64:
      return DType::f32;
    case DType::c128:
      return DType::f64;
    case DType::qint8:
      return DType::i8;
    case DType::quint8:
    case DType::bits8:
      return DType::u8;
    case DType::qint32:
      return DType::i32;
    case DType::bits16:
      return DType::u16;
    default:
      return can_cast(dtype) ? std::optional(dtype) : std::nullopt;
  }
}

}  // namespace

unsigned numbers_per_element(DType dtype) {
  if (core::is_complex(dtype) || dtype == DType::f4_e2m1fn_x2) return 2;
  return part_type(dtype) ? 1 : 0;
}

void to_numbers(DType dtype, Bytes in, std::span<double> out) {
  if (dtype == DType::f4_e2m1fn_x2) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      auto byte = std::to_integer<std::uint8_t>(in[i]);
      out[2 * i] = core::f4_to_f32(byte & 15U);
      out[2 * i + 1] = core::f4_to_f32(static_cast<std::uint8_t>(byte >> 4));
    }
    return;
  }
  cast_values(in, *part_type(dtype), std::as_writable_bytes(out), DType::f64);
}

void resolve_flags(const Entry& entry, MutableBytes bytes) {
  bool is_pair = core::is_complex(entry.dtype);
  auto width = static_cast<std::size_t>(core::bit_width(entry.dtype)) / (is_pair ? 16 : 8);
  for (std::size_t i = 0; (i + 1) * width <= bytes.size(); ++i) {
    bool imaginary = is_pair && i % 2 == 1;
    bool flip = entry.negative != (entry.conjugate && imaginary);
    if (flip) bytes[(i + 1) * width - 1] ^= std::byte{0x80};
  }
}

double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128:
      return std::numeric_limits<double>::min();
    case DType::f32:
    case DType::bf16:
    case DType::c64:
      return std::numeric_limits<float>::min();
    case DType::f16:
    case DType::c32:
    case DType::f8_e5m2:
      return std::ldexp(1.0, -14);
    case DType::f8_e4m3fn:
      return std::ldexp(1.0, -6);
    case DType::f8_e4m3fnuz:
      return std::ldexp(1.0, -7);
    case DType::f8_e5m2fnuz:
      return std::ldexp(1.0, -15);
    case DType::f4_e2m1fn_x2:
      return 1.0;
    default:
      return 0;
  }
}

}  // namespace ckpt::detail

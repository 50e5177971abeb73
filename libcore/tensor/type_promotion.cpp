#include "libcore/tensor/type_promotion.h"

#include <optional>
#include <string>

#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/tensor_impl.h"

namespace core {
namespace {

bool is_wide_unsigned(DType d) {
  return d == DType::u16 || d == DType::u32 || d == DType::u64;
}
bool is_narrow_float(DType d) {
  return is_floating(d) && bit_width(d) <= 8;
}

[[noreturn]] void throw_no_promotion(const char* what, DType a, DType b) {
  throw Error(ErrorCode::runtime, std::string("Promotion for ") + what + " is not supported, attempted to promote " +
                                      scalar_type_name(a) + " and " + scalar_type_name(b));
}

DType promote_integers(DType a, DType b) {
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) throw_no_promotion("uint16, uint32, uint64 types", a, b);
  if (bit_width(a) == bit_width(b)) return DType::i16;  // uint8 and int8
  DType wider = bit_width(a) > bit_width(b) ? a : b;
  return wider;
}

DType promote_floats(DType a, DType b) {
  if (is_narrow_float(a) || is_narrow_float(b)) throw_no_promotion("Float8 Types", a, b);
  if (bit_width(a) == bit_width(b)) return DType::f32;  // float16 and bfloat16
  return bit_width(a) > bit_width(b) ? a : b;
}

/// A complex type whose parts hold both; integers and bfloat16 leave the other one as it is, as in PyTorch.
DType promote_complex(DType a, DType b) {
  const DType first = is_inexact(a) ? complex_type(a) : b, second = is_inexact(b) ? complex_type(b) : a;
  return bit_width(first) > bit_width(second) ? first : second;
}

/// What one operand contributes, by its rank.
struct Contribution {
  std::optional<DType> with_dims, zero_dim, number;

  void add(DType dtype, std::int64_t dim, bool wrapped) {
    if (wrapped && is_floating(dtype)) dtype = default_dtype();
    if (wrapped && is_complex(dtype)) dtype = complex_type(default_dtype());
    auto& slot = dim > 0 ? with_dims : wrapped ? number : zero_dim;
    slot = slot ? promote_types(*slot, dtype) : dtype;
  }
};

std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || is_complex(*higher)) return higher;
  if (is_floating(*higher)) return is_complex(*lower) ? complex_type(*higher) : higher;
  if (*higher == DType::boolean || is_inexact(*lower)) return promote_types(*higher, *lower);
  return higher;
}

DType result_of(const Contribution& c) {
  return *combine(c.with_dims, combine(c.zero_dim, c.number));
}

}  // namespace

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  Shape sizes = longer;
  for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    std::int64_t x = a[a.size() - i], y = b[b.size() - i];
    if (x != y && x != 1 && y != 1) {
      throw Error(ErrorCode::runtime, "The size of tensor a (" + std::to_string(x) +
                                          ") must match the size of tensor b (" + std::to_string(y) +
                                          ") at non-singleton dimension " + std::to_string(sizes.size() - i));
    }
    sizes[sizes.size() - i] = x == 1 ? y : x;
  }
  return sizes;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && !is_inexact(to)) return false;
  return from == DType::boolean || to != DType::boolean;
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b)) return promote_complex(a, b);
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  return is_floating(a) ? promote_floats(a, b) : promote_integers(a, b);
}

DType result_type(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && !a.impl()->wrapped_number) return a.dtype();
  Contribution c;
  c.add(a.dtype(), a.dim(), a.impl()->wrapped_number);
  c.add(b.dtype(), b.dim(), b.impl()->wrapped_number);
  return result_of(c);
}

DType result_type(const Tensor& a, Scalar b) {
  if (is_inexact(a.dtype())) return a.dtype();
  Contribution c;
  c.add(a.dtype(), a.dim(), a.impl()->wrapped_number);
  c.add(b.kind(), 0, true);
  return result_of(c);
}

}  // namespace core

#include "libcore/ops/bitwise.h"

#include "libcore/autograd/node.h"
#include "libcore/ops/detail/host_math.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::integers;
using core::detail::Whole;
using core::detail::with_other;
using detail::in_place;

}  // namespace

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return raw::binary(BinaryOp::bitwise_and, a, b);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return raw::binary(BinaryOp::bitwise_or, a, b);
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return raw::binary(BinaryOp::bitwise_xor, a, b);
}

const Tensor& bitwise_not_(const Tensor& x) {
  return in_place(x, needs_grad(x), [](const Tensor& t) { return bitwise_not(t); });
}

const Tensor& bitwise_and_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return bitwise_and(t, other); });
}
const Tensor& bitwise_or_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return bitwise_or(t, other); });
}
const Tensor& bitwise_xor_(const Tensor& x, const Tensor& other) {
  return with_other(x, other, [&](const Tensor& t) { return bitwise_xor(t, other); });
}

Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  const auto bits = static_cast<Whole>(bit_width(result_type(a, b)));
  return integers(a, b, "lshift_cpu", [bits](Whole x, Whole y) -> Whole {
    if (y < 0 || y >= bits) return 0;
    return static_cast<Whole>(static_cast<std::uint64_t>(x) << y);
  });
}
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  const auto bits = static_cast<Whole>(bit_width(result_type(a, b)));
  return integers(a, b, "rshift_cpu",
                  [bits](Whole x, Whole y) -> Whole { return y < 0 || y >= bits ? (x < 0 ? -1 : 0) : x >> y; });
}

Tensor bitwise_not(const Tensor& x) {
  return raw::unary(UnaryOp::bitwise_not, x);
}

}  // namespace core

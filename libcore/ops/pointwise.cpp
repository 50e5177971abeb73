// Arithmetic of two and three tensors.
#include "libcore/ops/pointwise.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "libcore/autograd/autocast_casts.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/detail/pointwise.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/raw/checks.h"
#include "libcore/ops/raw/kernel_call.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/raw/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/tensor.h"
#include "libcore/tensor/type_promotion.h"

namespace core {
namespace {

using core::detail::with_two;

struct AddBackward final : Node {
  Scalar alpha = 1;
  std::string_view name() const override { return "AddBackward0"; }
  TensorList apply(TensorList g) override {
    bool plain = alpha.to_double() == 1;
    return {g[0], wants(1) && !plain ? g[0] * alpha : g[0]};
  }
};
CORE_NODE(AddScalarBackward, "AddBackward0", return {g[0]};)
struct SubBackward final : Node {
  Scalar alpha = 1;
  std::string_view name() const override { return "SubBackward0"; }
  TensorList apply(TensorList g) override {
    if (!wants(1)) return {g[0]};
    return {g[0], alpha.to_double() == 1 ? -g[0] : -g[0] * alpha};
  }
};
CORE_NODE(SubScalarBackward, "SubBackward0", return {g[0]};)
struct RsubBackward final : Node {
  Scalar alpha = 1;
  bool with_tensor = false;
  std::string_view name() const override { return with_tensor ? "RsubBackward0" : "RsubBackward1"; }
  TensorList apply(TensorList g) override {
    return {alpha.to_double() == 1 ? -g[0] : -g[0] * alpha, with_tensor ? g[0] : Tensor()};
  }
};
CORE_NODE(MulBackward, "MulBackward0",
          return {wants(0) ? g[0] * saved(1) : Tensor(), wants(1) ? g[0] * saved(0) : Tensor()};)
struct MulScalarBackward final : Node {
  Scalar factor;
  std::string_view name() const override { return "MulBackward0"; }
  TensorList apply(TensorList g) override { return check_not_freed(), TensorList{g[0] * factor}; }
};
CORE_NODE(DivBackward, "DivBackward0", Tensor b = saved(1);
          return {wants(0) ? g[0] / b : Tensor(), wants(1) ? -g[0] * ((saved(0) / b) / b) : Tensor()};)
struct DivScalarBackward final : Node {
  Scalar divisor;
  const char* printed = "DivBackward0";
  std::string_view name() const override { return printed; }
  TensorList apply(TensorList g) override {
    if (std::string_view(printed) == "DivBackward0") check_not_freed();  // the other one keeps a number in PyTorch too
    return {g[0] / divisor};
  }
};
CORE_NODE(DivRoundedBackward, "DivBackward2", return {zeros_like(g[0]), zeros_like(g[0])};)
CORE_NODE(FloorDivideBackward, "NotImplemented",
          throw Error(ErrorCode::runtime, "derivative for aten::floor_divide is not implemented");)
CORE_NODE(RemainderBackward, "RemainderBackward1",
          return {g[0], wants(1) ? -g[0] * div(saved(0), saved(1), Rounding::floor) : Tensor()};)
CORE_NODE(FmodBackward, "FmodBackward1",
          return {g[0], wants(1) ? g[0] * -div(saved(0), saved(1), Rounding::trunc) : Tensor()};)

struct PowScalarBackward final : Node {
  Scalar exponent;
  std::string_view name() const override { return "PowBackward0"; }
  TensorList apply(TensorList g) override {
    if (exponent.to_double() == 0) return {zeros_like(g[0])};
    Scalar less = exponent.is_float() ? Scalar(exponent.to_double() - 1) : Scalar(exponent.to_int() - 1);
    return {g[0] * (pow(saved(0), less) * exponent)};
  }
};
/// Of complex numbers the real ones that are.
Tensor is_not_negative(const Tensor& x) {
  return is_complex(x) ? logical_and(imag(x) == 0, real(x) >= 0) : x >= 0;
}
CORE_NODE(PowBackward, "PowBackward1", Tensor a = saved(0); Tensor b = saved(1); Tensor ga; Tensor gb;
          if (wants(0)) ga = where(b == 0, zeros_like(g[0]), g[0] * (b * pow(a, b - 1)));
          if (wants(1)) gb = g[0] * where(logical_and(a == 0, is_not_negative(b)), zeros_like(saved(2)),
                                          saved(2) * log(is_complex(saved(2)) ? a.to(saved(2).dtype()) : a));
          return {ga, gb};)
struct PowOfScalarBackward final : Node {
  double base = 0;
  std::string_view name() const override { return "PowBackward2"; }
  TensorList apply(TensorList g) override {
    if (base != 0) return {g[0] * (saved(0) * std::log(base))};
    // Constants: times the infinite logarithm of 0, a second derivative would be NaN.
    const Tensor zero = zeros_like(saved(1).detach());
    return {g[0] * where(saved(1) >= 0, zero, zero - std::numeric_limits<double>::infinity())};
  }
};

struct LerpBackward final : Node {
  Scalar weight;
  std::string_view name() const override { return "LerpBackward0"; }
  TensorList apply(TensorList g) override { return {g[0] * (1 - weight.to_double()), g[0] * weight}; }
};
CORE_NODE(LerpTensorBackward, "LerpBackward1", Tensor weight = saved(2);
          return {g[0] * (1 - weight), g[0] * weight, wants(2) ? g[0] * (saved(1) - saved(0)) : Tensor()};)
struct AddcmulBackward final : Node {
  Scalar value;
  std::string_view name() const override { return "AddcmulBackward0"; }
  TensorList apply(TensorList g) override {
    return {g[0], wants(1) ? g[0] * (saved(1) * value) : Tensor(), wants(2) ? g[0] * (saved(0) * value) : Tensor()};
  }
};
struct AddcdivBackward final : Node {
  Scalar value;
  std::string_view name() const override { return "AddcdivBackward0"; }
  TensorList apply(TensorList g) override {
    Tensor c = saved(1);
    return {g[0], wants(1) ? g[0] * (value / c) : Tensor(), wants(2) ? -g[0] * (saved(0) * value / (c * c)) : Tensor()};
  }
};

/// The powers that have a cheaper and exact form, as PyTorch takes them.
Tensor raw_pow(const Tensor& base, Scalar exponent) {
  double e = exponent.to_double();
  if (e == 1 && result_type(base, exponent) == base.dtype()) return raw::clone(base);
  if (!is_inexact(base.dtype())) {
    if (!exponent.is_float() && e < 0) {
      throw Error(ErrorCode::runtime, "Integers to negative integer powers are not allowed.");
    }
    if (!exponent.is_float()) raw::check_fits(exponent, result_type(base, exponent));
    return raw::binary(BinaryOp::pow, base, exponent);
  }
  if (e == 0.5) return raw::unary(UnaryOp::sqrt, base);
  if (e == -0.5) return raw::unary(UnaryOp::rsqrt, base);
  if (e == -1) return raw::unary(UnaryOp::reciprocal, base);
  if (e == 2) return raw::unary(UnaryOp::square, base);
  if (e == 3) return raw::binary(BinaryOp::mul, raw::unary(UnaryOp::square, base), base);
  if (e == -2) return raw::unary(UnaryOp::reciprocal, raw::unary(UnaryOp::square, base));
  return raw::binary(BinaryOp::pow, base, exponent);
}

/// The type that three tensors are computed in.
DType result_type_of(const Tensor& a, const Tensor& b, const Tensor& c) {
  if (a.dtype() == b.dtype() && b.dtype() == c.dtype()) return a.dtype();
  return result_type(a, raw::binary(BinaryOp::mul, b, c));
}

/// Of integers it is made of two products, in their type.
Tensor raw_addcmul(const Tensor& a, const Tensor& b, const Tensor& c, Scalar value) {
  const DType dtype = result_type_of(a, b, c);
  raw::check_fits(value, raw::compute_dtype(dtype));
  if (!is_integer(dtype)) return raw::ternary(TernaryOp::addcmul, a, b, c, value.to_double());
  const Tensor factor = raw::binary(BinaryOp::mul, raw::cast(b, dtype), Scalar(value.to_int()));
  return raw::binary(BinaryOp::add, raw::cast(a, dtype), raw::binary(BinaryOp::mul, factor, raw::cast(c, dtype)));
}

void check_lerp(const Tensor& start, const Tensor& other, const char* argument) {
  if (other.dtype() == start.dtype()) return;
  throw Error(ErrorCode::runtime, std::string("expected dtype ") + raw::kernel::c_type_name(start.dtype()) + " for `" +
                                      argument + "` but got dtype " + raw::kernel::c_type_name(other.dtype()));
}

template <class N>
Tensor with_three(const Tensor& a, const Tensor& b, const Tensor& c, Scalar value, Tensor out) {
  if (!needs_grad(a, b, c)) return out;
  auto node = make_node<N>(a, b, c);
  node->value = value;
  node->save(b);
  node->save(c);
  record(out, node);
  return out;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, Scalar alpha) {
  Tensor out = raw::binary(BinaryOp::add, a, b, {alpha.to_double(), 0, 0});
  raw::check_factor(alpha, out.dtype());
  if (!needs_grad(a, b)) return out;
  auto node = make_node<AddBackward>(a, b);
  node->alpha = alpha;
  record(out, node);
  return out;
}
Tensor add(const Tensor& a, Scalar b, Scalar alpha) {
  const Tensor out = raw::binary(BinaryOp::add, a, b, {alpha.to_double(), 0, 0});
  raw::check_factor(alpha, out.dtype());
  return detail::with_node<AddScalarBackward>(a, out);
}
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha) {
  Tensor out = raw::binary(BinaryOp::sub, a, b, {alpha.to_double(), 0, 0});
  raw::check_factor(alpha, out.dtype(), "alpha", true);
  if (!needs_grad(a, b)) return out;
  auto node = make_node<SubBackward>(a, b);
  node->alpha = alpha;
  record(out, node);
  return out;
}
Tensor sub(const Tensor& a, Scalar b, Scalar alpha) {
  const Tensor out = raw::binary(BinaryOp::sub, a, b, {alpha.to_double(), 0, 0});
  raw::check_factor(alpha, out.dtype(), "alpha", true);
  return detail::with_node<SubScalarBackward>(a, out);
}
Tensor rsub(const Tensor& a, const Tensor& b, Scalar alpha) {
  Tensor out = raw::binary(BinaryOp::sub, b, a, {alpha.to_double(), 0, 0});
  raw::check_factor(alpha, out.dtype(), "alpha", true);
  if (!needs_grad(a, b)) return out;
  auto node = make_node<RsubBackward>(a, b);
  node->alpha = alpha;
  node->with_tensor = true;
  record(out, node);
  return out;
}
Tensor rsub(const Tensor& a, Scalar b, Scalar alpha) {
  Tensor out = raw::binary(BinaryOp::sub, b, a, {alpha.to_double(), 0, 0});
  raw::check_factor(alpha, out.dtype(), "alpha", true);
  if (!needs_grad(a)) return out;
  auto node = make_node<RsubBackward>(a);
  node->alpha = alpha;
  record(out, node);
  return out;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor out = raw::binary(BinaryOp::mul, a, b);
  if (!needs_grad(a, b)) return out;
  auto node = make_node<MulBackward>(a, b);
  node->save(b.requires_grad() ? a : Tensor());
  node->save(a.requires_grad() ? b : Tensor());
  record(out, node);
  return out;
}
Tensor mul(const Tensor& a, Scalar b) {
  if (detail::any_sparse(a)) return detail::sparse_mul(a, full({}, b, {.dtype = a.dtype(), .device = a.device()}));
  Tensor out = raw::binary(BinaryOp::mul, a, b);
  if (!needs_grad(a)) return out;
  auto node = make_node<MulScalarBackward>(a);
  node->factor = b;
  record(out, node);
  return out;
}

Tensor div(const Tensor& a, const Tensor& b) {
  return with_two<DivBackward>(a, b, raw::binary(BinaryOp::div, a, b));
}

Tensor div(const Tensor& a, Scalar b) {
  return detail::div_by_number(a, b, "DivBackward0");
}
Tensor div(const Tensor& a, const Tensor& b, Rounding rounding) {
  Tensor out = raw::binary(rounding == Rounding::floor ? BinaryOp::div_floor : BinaryOp::div_trunc, a, b);
  if (needs_grad(a, b)) record(out, make_node<DivRoundedBackward>(a, b));
  return out;
}
Tensor floor_divide(const Tensor& a, const Tensor& b) {
  Tensor out = raw::binary(BinaryOp::div_floor, a, b);
  if (needs_grad(a, b)) record(out, make_node<FloorDivideBackward>(a, b));
  return out;
}
Tensor floor_divide(const Tensor& a, Scalar b) {
  return detail::with_node<FloorDivideBackward>(a, raw::binary(BinaryOp::div_floor, a, b));
}
Tensor remainder(const Tensor& a, const Tensor& b) {
  return with_two<RemainderBackward>(a, b, raw::binary(BinaryOp::remainder, a, b));
}
Tensor fmod(const Tensor& a, const Tensor& b) {
  return with_two<FmodBackward>(a, b, raw::binary(BinaryOp::fmod, a, b));
}

Tensor pow(const Tensor& base, Scalar exponent) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&base}); to) return pow(to(base), exponent);
  Tensor out = raw_pow(base, exponent);
  if (!needs_grad(base)) return out;
  auto node = make_node<PowScalarBackward>(base);
  node->exponent = exponent;
  node->save(base);
  record(out, node);
  return out;
}
Tensor pow(const Tensor& base, const Tensor& exponent) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&base, &exponent}); to) return pow(to(base), to(exponent));
  Tensor out = raw::binary(BinaryOp::pow, base, exponent);
  if (!needs_grad(base, exponent)) return out;
  auto node = make_node<PowBackward>(base, exponent);
  node->save(base);
  node->save(exponent);
  record(out, node);
  node->save_output(out);
  return out;
}
Tensor pow(Scalar base, const Tensor& exponent) {
  if (const Casts to(CastRule::f32, CastOn::cuda, {&exponent}); to) return pow(base, to(exponent));
  Tensor out = raw::binary(BinaryOp::pow, base, exponent);
  if (!needs_grad(exponent)) return out;
  auto node = make_node<PowOfScalarBackward>(exponent);
  node->base = base.to_double();
  record(out, node);
  node->save_output(out);
  node->save(exponent);
  return out;
}

Tensor lerp(const Tensor& start, const Tensor& end, Scalar weight) {
  check_lerp(start, end, "end");
  Tensor number = full({}, weight, {.dtype = start.dtype(), .device = start.device()});
  Tensor out = raw::ternary(TernaryOp::lerp, start, end, number, 0);
  if (!needs_grad(start, end)) return out;
  auto node = make_node<LerpBackward>(start, end);
  node->weight = weight;
  record(out, node);
  return out;
}
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight) {
  check_lerp(start, end, "end");
  check_lerp(start, weight, "weight");
  Tensor out = raw::ternary(TernaryOp::lerp, start, end, weight, 0);
  if (!needs_grad(start, end, weight)) return out;
  auto node = make_node<LerpTensorBackward>(start, end, weight);
  for (const Tensor* t : {&start, &end, &weight}) node->save(*t);
  record(out, node);
  return out;
}

Tensor addcmul(const Tensor& a, const Tensor& b, const Tensor& c, Scalar value) {
  if (const Casts to(CastRule::widest, CastOn::cuda, {&a, &b, &c}); to) return addcmul(to(a), to(b), to(c), value);
  return with_three<AddcmulBackward>(a, b, c, value, raw_addcmul(a, b, c, value));
}
Tensor addcdiv(const Tensor& a, const Tensor& b, const Tensor& c, Scalar value) {
  if (const Casts to(CastRule::widest, CastOn::cuda, {&a, &b, &c}); to) return addcdiv(to(a), to(b), to(c), value);
  if (!is_inexact(b.dtype()) && !is_inexact(c.dtype())) {
    throw Error(
        ErrorCode::runtime,
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true "
        "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * "
        "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) "
        "for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / "
        "tensor2), for all dtypes.");
  }
  Tensor out = raw::ternary(TernaryOp::addcdiv, a, b, c, value.to_double());
  raw::check_fits(value, raw::compute_dtype(out.dtype()));
  return with_three<AddcdivBackward>(a, b, c, value, out);
}

}  // namespace core

namespace core::detail {
Tensor div_by_number(const Tensor& a, Scalar b, const char* printed) {
  Tensor out = raw::binary(BinaryOp::div, a, b);
  if (!needs_grad(a)) return out;
  auto node = make_node<DivScalarBackward>(a);
  node->divisor = b;
  node->printed = printed;
  record(out, node);
  return out;
}

}  // namespace core::detail
